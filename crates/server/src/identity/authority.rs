//! A certificate authority in a file, and its certificates.

use super::IdentityError;
use super::pem::{self, Pair};
use margrave_core::time::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use rustls_pki_types::CertificateDer;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// Certificates start a little in the past, because device clocks may be slow (TLS-02).
const BACKDATED: Duration = Duration::from_mins(5);
/// The embedded authorities outlive every certificate below them by far; replacing one is a planned rotation (LC-03).
const AUTHORITY_LIFETIME: Duration = Duration::from_hours(20 * 365 * 24);
const SERIAL_BYTES: usize = 16;

/// A certificate with the intermediates that lead to its anchor.
pub(super) struct Svid {
    pub(super) chain_pem: String,
    pub(super) expires_at: Timestamp,
}

/// A certificate authority that can sign.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate first, then any intermediates above it.
    pub(super) chain: Vec<CertificateDer<'static>>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl PartialEq for Authority {
    fn eq(&self, other: &Self) -> bool {
        self.chain == other.chain
    }
}

impl Authority {
    /// Creates a self-signed authority and stores it in this file.
    pub(super) fn create(path: &Path, name: &str, uri: Option<&str>, now: Timestamp) -> Result<(), IdentityError> {
        let key = KeyPair::generate().map_err(failed("make a key"))?;
        let mut params = params(name, now, AUTHORITY_LIFETIME)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        if let Some(uri) = uri {
            params.subject_alt_names = vec![uri_name(uri)?];
        }
        let certificate = params.self_signed(&key).map_err(failed("sign the authority's certificate"))?;
        pem::write_pair(path, &key.serialize_pem(), &pem::certificate(certificate.der()))
    }

    pub(super) fn read(path: &Path) -> Result<Self, IdentityError> {
        let Pair { key, chain } = pem::read_pair(path)?;
        let unusable = |error: rcgen::Error| pem::unusable(path, &error.to_string());
        let key = KeyPair::try_from(&key).map_err(unusable)?;
        let certificate = chain.first().ok_or_else(|| pem::unusable(path, "it contains no certificate"))?;
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
            .map_err(|error| pem::unusable(path, &error.to_string()))?;
        if !parsed.is_ca() {
            return Err(pem::unusable(path, "its first certificate is not that of an authority (cA is not true)"));
        }
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(pem::unusable(path, "the private key does not belong to its first certificate"));
        }
        Ok(Self { issuer: Issuer::from_ca_cert_der(certificate, key).map_err(unusable)?, chain })
    }

    /// An SVID of the WFM profile: one URI name, not an authority, valid for both sides of TLS (SV-03).
    pub(super) fn client_svid(
        &self,
        spiffe_id: &str,
        key: &impl PublicKeyData,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<Svid, IdentityError> {
        let mut params = params("Margrave SVID", now, lifetime)?;
        params.subject_alt_names = vec![uri_name(spiffe_id)?];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(key, &self.issuer).map_err(failed("sign an SVID"))?;
        Ok(Svid { chain_pem: self.chain_pem(certificate.der()), expires_at: now.plus(lifetime) })
    }

    /// A certificate for an HTTPS listener with DNS names and IP addresses.
    pub(super) fn https(
        &self,
        names: &[String],
        key: &KeyPair,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<Svid, IdentityError> {
        let mut params = params("margrave", now, lifetime)?;
        params.subject_alt_names = names.iter().map(|name| host_name(name)).collect::<Result<_, _>>()?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(key, &self.issuer).map_err(failed("sign the HTTPS certificate"))?;
        Ok(Svid { chain_pem: self.chain_pem(certificate.der()), expires_at: now.plus(lifetime) })
    }

    /// Leaf and intermediates; a self-signed authority is an anchor and not included (SV-01).
    fn chain_pem(&self, leaf: &CertificateDer<'_>) -> String {
        let intermediates: Vec<_> = self.chain.iter().filter(|der| !is_self_signed(der)).cloned().collect();
        pem::certificate(leaf) + &pem::certificates(&intermediates)
    }
}

/// Whether a certificate is its own issuer.
pub(super) fn is_self_signed(der: &CertificateDer<'_>) -> bool {
    x509_parser::parse_x509_certificate(der).is_ok_and(|(_, parsed)| parsed.subject() == parsed.issuer())
}

fn params(name: &str, now: Timestamp, lifetime: Duration) -> Result<CertificateParams, IdentityError> {
    let mut serial = [0_u8; SERIAL_BYTES];
    getrandom::fill(&mut serial)
        .map_err(|error| IdentityError::Material { attempt: "draw a serial".to_owned(), problem: error.to_string() })?;
    // A positive number of full length.
    serial[0] = serial[0] & 0x7f | 0x40;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + whole_seconds(now.minus(BACKDATED));
    params.not_after = epoch + whole_seconds(now.plus(lifetime));
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// Since 1970, as in certificates; an earlier clock counts as 1970.
fn whole_seconds(at: Timestamp) -> Duration {
    Duration::from_secs(u64::try_from(at.0 / 1_000_000).unwrap_or(0))
}

fn uri_name(uri: &str) -> Result<SanType, IdentityError> {
    uri.to_owned().try_into().map(SanType::URI).map_err(failed("name a certificate"))
}

fn host_name(name: &str) -> Result<SanType, IdentityError> {
    match name.parse::<IpAddr>() {
        Ok(address) => Ok(SanType::IpAddress(address)),
        Err(_) => name.to_owned().try_into().map(SanType::DnsName).map_err(failed("name the HTTPS certificate")),
    }
}

fn failed(attempt: &'static str) -> impl Fn(rcgen::Error) -> IdentityError {
    move |error| IdentityError::Material { attempt: attempt.to_owned(), problem: error.to_string() }
}
