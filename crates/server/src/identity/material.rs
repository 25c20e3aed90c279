//! The keys and certificates in use at one moment.

use super::IdentityError;
use super::authority::Authority;
use super::pem::Pair;
use margo::digest::Digest;
use margrave_core::time::Timestamp;
use rustls::crypto::aws_lc_rs;
use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;
use std::time::Duration;

/// The certificate of a listener.
#[derive(Debug, Clone)]
pub struct Credential {
    /// Chain and key, checked to belong together.
    pub certified: CertifiedKey,
    /// `sha256:<hex>` over the leaf's SubjectPublicKeyInfo.
    pub pin: String,
}

#[derive(Debug)]
pub struct Material {
    /// Anchors of the trust domain; never empty (TB-04).
    pub anchors: Vec<CertificateDer<'static>>,
    /// The SPIFFE bundle of these anchors, as served.
    pub bundle_json: Vec<u8>,
    pub(super) issuer: Issuing,
    /// The server's own SVID, for the device listener.
    pub wfm: Credential,
    /// For the trust and operator listeners.
    pub https: Credential,
    /// The authority behind `https`, when it is ours.
    pub https_ca: Option<CertificateDer<'static>>,
}

/// Whether this server can issue SVIDs.
#[derive(Debug, PartialEq)]
pub(super) enum Issuing {
    By(Box<Authority>),
    /// The operator's anchors do not include the embedded authority.
    Elsewhere,
}

impl PartialEq for Material {
    fn eq(&self, other: &Self) -> bool {
        let Self { anchors, bundle_json, issuer, wfm, https, https_ca } = self;
        *anchors == other.anchors
            && *bundle_json == other.bundle_json
            && *issuer == other.issuer
            && wfm.certified.cert == other.wfm.certified.cert
            && https.certified.cert == other.https.certified.cert
            && *https_ca == other.https_ca
    }
}

impl Issuing {
    pub(super) fn authority(&self) -> Result<&Authority, IdentityError> {
        match self {
            Self::By(authority) => Ok(authority),
            Self::Elsewhere => Err(IdentityError::Material {
                attempt: "issue an SVID".to_owned(),
                problem: "the trust anchors come from `identity.anchors_file` and do not include the embedded \
                          authority: issue SVIDs with the authority of the anchors, or set `identity.issuer_file`"
                    .to_owned(),
            }),
        }
    }
}

impl Credential {
    /// Checks that key and chain belong together.
    pub(super) fn new(pair: Pair, from: &str) -> Result<Self, IdentityError> {
        let wrong =
            |problem: String| IdentityError::Material { attempt: format!("use the certificate from {from}"), problem };
        let pin = {
            let leaf = pair.chain.first().ok_or_else(|| wrong("there is none".to_owned()))?;
            let (_, parsed) = x509_parser::parse_x509_certificate(leaf).map_err(|error| wrong(error.to_string()))?;
            Digest::of(parsed.public_key().raw).to_string()
        };
        let certified = CertifiedKey::from_der(pair.chain, pair.key, &aws_lc_rs::default_provider())
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Self { certified, pin })
    }
}

/// The relevant fields of a certificate.
pub(super) struct Facts {
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    pub(super) uris: Vec<String>,
    /// DNS names and IP addresses.
    pub(super) hosts: Vec<String>,
}

impl Facts {
    pub(super) fn of(der: &CertificateDer<'_>) -> Option<Self> {
        use x509_parser::extensions::GeneralName;
        let (_, parsed) = x509_parser::parse_x509_certificate(der).ok()?;
        let mut facts = Self {
            not_before: Timestamp(parsed.validity().not_before.timestamp().saturating_mul(1_000_000)),
            not_after: Timestamp(parsed.validity().not_after.timestamp().saturating_mul(1_000_000)),
            uris: Vec::new(),
            hosts: Vec::new(),
        };
        let names = parsed.subject_alternative_name().ok()?;
        for name in names.iter().flat_map(|extension| &extension.value.general_names) {
            match name {
                GeneralName::URI(uri) => facts.uris.push((*uri).to_owned()),
                GeneralName::DNSName(name) => facts.hosts.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => facts.hosts.extend(ip_text(bytes)),
                _ => {}
            }
        }
        Some(facts)
    }

    /// After two thirds of its lifetime, or while it is not valid yet: a clock that was set back must not stop the
    /// server.
    pub(super) fn renewal_due(&self, now: Timestamp) -> bool {
        let lifetime = self.not_after.since(self.not_before);
        let fresh_for = Duration::from_micros(u64::try_from(lifetime.as_micros() / 3 * 2).unwrap_or(u64::MAX));
        now < self.not_before || now >= self.not_before.plus(fresh_for)
    }
}

fn ip_text(bytes: &[u8]) -> Option<String> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(|octets| std::net::Ipv4Addr::from(octets).to_string()),
        16 => <[u8; 16]>::try_from(bytes).ok().map(|octets| std::net::Ipv6Addr::from(octets).to_string()),
        _ => None,
    }
}
