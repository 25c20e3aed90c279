//! A small authority that issues what the tests need.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use std::path::{Path, PathBuf};

pub(crate) struct Authority {
    pub(crate) pem: String,
    pub(crate) der: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

pub(crate) struct Leaf {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) public_key: Vec<u8>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).unwrap();
        Self { pem: certificate.pem(), der: certificate.der().to_vec(), issuer: Issuer::new(params, key) }
    }

    pub(crate) fn svid(&self, spiffe_id: &str) -> Leaf {
        self.leaf(vec![SanType::URI(spiffe_id.try_into().unwrap())])
    }

    /// An ordinary server certificate for this machine.
    pub(crate) fn server(&self) -> Leaf {
        self.leaf(vec![
            SanType::IpAddress("127.0.0.1".parse().unwrap()),
            SanType::DnsName("localhost".try_into().unwrap()),
        ])
    }

    fn leaf(&self, names: Vec<SanType>) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let params = leaf_params(names);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let public_key = rcgen::PublicKeyData::subject_public_key_info(&key);
        Leaf { certificate: certificate.pem(), key: key.serialize_pem(), public_key }
    }

    /// Signs a request, with the names of our choice as an issuer does (LC-01).
    pub(crate) fn sign(&self, csr: &str, spiffe_id: &str) -> (String, Vec<u8>) {
        let mut request = rcgen::CertificateSigningRequestParams::from_pem(csr).unwrap();
        request.params = leaf_params(vec![SanType::URI(spiffe_id.try_into().unwrap())]);
        let public_key = rcgen::PublicKeyData::subject_public_key_info(&request.public_key);
        (request.signed_by(&self.issuer).unwrap().pem(), public_key)
    }
}

fn leaf_params(names: Vec<SanType>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = names;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}

pub(crate) const WFM: &str = "spiffe://plant.example/margo/wfm/main";

pub(crate) fn client_id(name: &str) -> String {
    format!("{WFM}/client/{name}")
}

/// Files as an operator provisions them (ONB-06).
pub(crate) fn provision(folder: &Path, leaf: &Leaf, bundle: &str) -> [PathBuf; 3] {
    let paths = ["svid.pem", "svid.key", "bundle.pem"].map(|name| folder.join(name));
    for (path, text) in paths.iter().zip([&leaf.certificate, &leaf.key, bundle]) {
        std::fs::write(path, text).unwrap();
    }
    paths
}
