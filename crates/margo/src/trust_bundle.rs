//! SPIFFE trust bundle (JWK Set) and the discovery document (TB-01 to TB-05).

use crate::spiffe::TrustDomain;
use crate::ReadResult;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustBundle {
    pub sequence: Option<u64>,
    pub refresh_hint_seconds: Option<u64>,
    /// DER of each X.509 anchor; never empty (TB-04).
    pub anchors: Vec<Vec<u8>>,
}

impl TrustBundle {
    /// Ignores jwt-svid and other keys; refuses a bundle without X.509 anchors (TB-03, TB-04).
    pub fn read(json: &[u8]) -> ReadResult<Self> {
        let _ = json;
        todo!()
    }
    /// JWK Set; the public key members are left to `x5c`, so `kty` names the key type only.
    pub fn to_json(&self) -> Vec<u8> {
        todo!()
    }
}

/// `GET /.well-known/margo`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    pub trust_domain: TrustDomain,
    /// Absolute and https, else refused (TB-02).
    pub trust_bundle_uri: String,
}

impl Discovery {
    pub fn read(json: &[u8]) -> ReadResult<Self> {
        let _ = json;
        todo!()
    }
    pub fn to_json(&self) -> Vec<u8> {
        todo!()
    }
}
