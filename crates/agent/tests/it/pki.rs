//! A small certificate authority for the tests.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use std::path::{Path, PathBuf};

pub(crate) struct Authority {
    pub(crate) pem: String,
    pub(crate) der: Vec<u8>,
    /// The chain sent with its leaves (SV-01): empty for a root, its own certificate for an intermediate.
    chain: String,
    issuer: Issuer<'static, KeyPair>,
}

pub(crate) struct Leaf {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) public_key: Vec<u8>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        Self::with(name, |_| {})
    }

    /// An authority with a fault.
    pub(crate) fn with(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        change(&mut params);
        let certificate = params.self_signed(&key).unwrap();
        let (pem, der) = (certificate.pem(), certificate.der().to_vec());
        Self { pem, der, chain: String::new(), issuer: Issuer::new(params, key) }
    }

    /// An authority below this one.
    pub(crate) fn intermediate(&self) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "intermediate");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (pem, der) = (certificate.pem(), certificate.der().to_vec());
        Self { chain: pem.clone(), pem, der, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn svid(&self, spiffe_id: &str) -> Leaf {
        self.svid_with(spiffe_id, |_| {})
    }

    /// An SVID with a fault.
    pub(crate) fn svid_with(&self, spiffe_id: &str, change: impl FnOnce(&mut CertificateParams)) -> Leaf {
        let mut params = leaf_params(vec![SanType::URI(spiffe_id.try_into().unwrap())]);
        change(&mut params);
        self.leaf(&params)
    }

    /// An ordinary server certificate for this machine.
    pub(crate) fn server(&self) -> Leaf {
        self.leaf(&leaf_params(vec![
            SanType::IpAddress("127.0.0.1".parse().unwrap()),
            SanType::DnsName("localhost".try_into().unwrap()),
        ]))
    }

    fn leaf(&self, params: &CertificateParams) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let public_key = rcgen::PublicKeyData::subject_public_key_info(&key);
        Leaf { certificate: certificate.pem() + &self.chain, key: key.serialize_pem(), public_key }
    }

    /// Signs a request with the given names (LC-01).
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
