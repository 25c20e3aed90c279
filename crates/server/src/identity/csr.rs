//! Certificate signing requests: the proof of a key, nothing else (LC-01).

use super::IdentityError;
use margo::digest::Digest;
use rcgen::{PublicKeyData, SignatureAlgorithm, SubjectPublicKeyInfo};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;

/// A request contains one key and a few names.
const CSR_BYTES_MAX: usize = 16 * 1024;
/// RSA keys below this are refused (SV-02).
const RSA_BITS_MIN: usize = 3072;

/// A public key whose holder has proved possession of the private one.
pub(super) struct ProvenKey {
    key: SubjectPublicKeyInfo,
    spki_der: Vec<u8>,
}

impl ProvenKey {
    /// SHA-256 over the SubjectPublicKeyInfo, in hexadecimal.
    pub(super) fn hash(&self) -> String {
        Digest::of(&self.spki_der).hex().to_owned()
    }
}

impl PublicKeyData for ProvenKey {
    fn der_bytes(&self) -> &[u8] {
        self.key.der_bytes()
    }
    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.key.algorithm()
    }
}

pub(super) fn public_key(csr_pem: &str) -> Result<ProvenKey, IdentityError> {
    let bad = |problem: &str| IdentityError::BadRequest(problem.to_owned());
    if csr_pem.len() > CSR_BYTES_MAX {
        return Err(bad("it is longer than 16 KiB"));
    }
    let (_, pem) =
        x509_parser::pem::parse_x509_pem(csr_pem.trim_start().as_bytes()).map_err(|_| bad("it is not PEM"))?;
    if !matches!(pem.label.as_str(), "CERTIFICATE REQUEST" | "NEW CERTIFICATE REQUEST") {
        return Err(bad("its PEM label is not `CERTIFICATE REQUEST`"));
    }
    let (rest, csr) =
        X509CertificationRequest::from_der(&pem.contents).map_err(|_| bad("it is not a PKCS #10 request"))?;
    if !rest.is_empty() {
        return Err(bad("there is data after the request"));
    }
    csr.verify_signature().map_err(|_| bad("its signature does not match its key"))?;
    let spki = &csr.certification_request_info.subject_pki;
    if let Ok(PublicKey::RSA(rsa)) = spki.parsed()
        && rsa.key_size() < RSA_BITS_MIN
    {
        return Err(bad("its RSA key is shorter than 3072 bits"));
    }
    let spki_der = spki.raw.to_vec();
    let key = SubjectPublicKeyInfo::from_der(&spki_der)
        .map_err(|_| bad("its key type is not supported: use ECDSA P-256, P-384, Ed25519 or RSA from 3072 bits"))?;
    Ok(ProvenKey { key, spki_der })
}
