//! A certificate authority of the test's own, for registries and clusters.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};

pub struct Authority {
    /// PEM of its certificate.
    pub pem: String,
    /// PEM of its key.
    pub key: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
pub struct Leaf {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, key: key.serialize_pem(), issuer: Issuer::new(params, key) }
    }

    /// For a server that is called by these addresses and names.
    pub fn server(&self, addresses: &[&str], names: &[&str]) -> Leaf {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "server");
        let addresses = addresses.iter().map(|address| SanType::IpAddress(address.parse().unwrap()));
        let names = names.iter().map(|name| SanType::DnsName((*name).try_into().unwrap()));
        params.subject_alt_names = addresses.chain(names).collect();
        self.sign(params)
    }

    /// For a user, and where it has one its group, as Kubernetes reads them from a certificate.
    pub fn client(&self, user: &str, group: Option<&str>) -> Leaf {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Leaf { certificate, key: key.serialize_pem() }
    }
}
