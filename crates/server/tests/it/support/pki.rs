//! Keys and certificates, valid and invalid.

use margrave_core::time::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use std::path::Path;
use std::time::Duration;

pub(crate) fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

/// A request for names it will not get.
pub(crate) fn csr(key: &KeyPair) -> String {
    let mut params = CertificateParams::new(vec!["root.example".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "an important name");
    params.serialize_request(key).unwrap().pem().unwrap()
}

/// A leaf to be signed; by default a valid SVID.
pub(crate) struct Leaf {
    pub(crate) params: CertificateParams,
}

impl Leaf {
    pub(crate) fn new(uris: &[&str], now: Timestamp) -> Self {
        let mut params = CertificateParams::default();
        params.subject_alt_names = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())).collect();
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let mut leaf = Self { params };
        leaf.valid(now.minus(Duration::from_mins(1)), now.plus(Duration::from_hours(1)));
        leaf
    }

    pub(crate) fn valid(&mut self, from: Timestamp, to: Timestamp) {
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        self.params.not_before = epoch + Duration::from_micros(u64::try_from(from.0).unwrap());
        self.params.not_after = epoch + Duration::from_micros(u64::try_from(to.0).unwrap());
    }

    pub(crate) fn signed_by(&self, key: &KeyPair, authority: &Authority) -> String {
        self.params.signed_by(key, &authority.issuer).unwrap().pem()
    }
}

pub(crate) struct Authority {
    pub(crate) pem: String,
    pub(crate) key_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str, now: Timestamp) -> Self {
        let key = key();
        let mut leaf = Leaf::new(&[], now);
        leaf.params.distinguished_name.push(DnType::CommonName, name);
        leaf.params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        leaf.params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        leaf.params.extended_key_usages = vec![];
        let pem = leaf.params.self_signed(&key).unwrap().pem();
        Self { pem, key_pem: key.serialize_pem(), issuer: Issuer::new(leaf.params, key) }
    }

    /// An authority in the server's data folder.
    pub(crate) fn of_server(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let certificate_at = text.find("-----BEGIN CERTIFICATE").unwrap();
        let (key_pem, pem) = (text[..certificate_at].to_owned(), text[certificate_at..].to_owned());
        let issuer = Issuer::from_ca_cert_pem(&pem, KeyPair::from_pem(&key_pem).unwrap()).unwrap();
        Self { pem, key_pem, issuer }
    }
}

/// An intermediate below an authority: its certificate and its signing key.
pub(crate) fn intermediate(root: &Authority, now: Timestamp) -> (String, Authority) {
    let key = key();
    let mut leaf = Leaf::new(&[], now);
    leaf.params.distinguished_name.push(DnType::CommonName, "intermediate");
    leaf.params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    leaf.params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    leaf.params.extended_key_usages = vec![];
    let pem = leaf.signed_by(&key, root);
    let key_pem = key.serialize_pem();
    (pem.clone(), Authority { pem, key_pem, issuer: Issuer::new(leaf.params, key) })
}
