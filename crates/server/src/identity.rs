//! The embedded identity service: trust domain, anchors, the WFM's SVID, SVIDs for clients.

use margo::ids::ClientId;
use margo::spiffe::WfmIdentity;

#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("the certificate signing request cannot be used: {0}")]
    BadRequest(String),
    #[error("{attempt}")]
    Io { attempt: String, #[source] source: std::io::Error },
    #[error("{attempt}: {problem}")]
    Material { attempt: String, problem: String },
}

/// A certificate just issued.
#[derive(Debug, Clone)]
pub struct Issued {
    pub spiffe_id: String,
    /// PEM: leaf and intermediates.
    pub certificate_pem: String,
    pub expires_at: margrave_core::time::Timestamp,
}

#[derive(Debug)]
pub struct Identity {}

impl Identity {
    pub fn wfm(&self) -> &WfmIdentity { todo!() }
    /// Issues an SVID for the key of this CSR; names in the CSR are ignored (LC-01).
    pub fn issue(&self, client: &ClientId, csr_pem: &str, valid_for: Option<std::time::Duration>) -> Result<Issued, IdentityError> { let _ = (client, csr_pem, valid_for); todo!() }
    /// SHA-256 of the CSR's public key, for one-time tokens.
    pub fn csr_key_hash(csr_pem: &str) -> Result<String, IdentityError> { let _ = csr_pem; todo!() }
    /// SPIFFE JWK set of the anchors, as served.
    pub fn bundle_json(&self) -> Vec<u8> { todo!() }
    /// PEM of the anchors.
    pub fn bundle_pem(&self) -> String { todo!() }
    /// PEM of the CA behind the HTTPS certificates of the trust and operator listeners; empty when those come from files.
    pub fn https_ca_pem(&self) -> String { todo!() }
    /// `sha256:<hex>` of the trust listener's public key.
    pub fn pin(&self) -> String { todo!() }
}
