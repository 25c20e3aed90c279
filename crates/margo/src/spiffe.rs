//! SPIFFE ids of the WFM identity profile (WID-01).

use crate::ids::ClientId;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpiffeError {
    #[error("`{0}` is not a SPIFFE ID")]
    Malformed(String),
    #[error("`{0}` is not of the form spiffe://<trust domain>/margo/wfm/<wfm-id>[/client/<client-id>]")]
    NotInProfile(String),
}

/// Lower-case host-like name of a trust domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TrustDomain(String);

impl TrustDomain {
    pub fn parse(text: &str) -> Result<Self, SpiffeError> {
        let _ = text;
        todo!()
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `spiffe://<td>/margo/wfm/<wfm-id>`
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WfmIdentity {
    pub trust_domain: TrustDomain,
    pub wfm_id: ClientId,
}

/// `spiffe://<td>/margo/wfm/<wfm-id>/client/<client-id>`
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientIdentity {
    pub wfm: WfmIdentity,
    pub client_id: ClientId,
}

impl WfmIdentity {
    pub fn parse(uri: &str) -> Result<Self, SpiffeError> {
        let _ = uri;
        todo!()
    }
    pub fn client(&self, client_id: ClientId) -> ClientIdentity {
        ClientIdentity { wfm: self.clone(), client_id }
    }
}

impl ClientIdentity {
    pub fn parse(uri: &str) -> Result<Self, SpiffeError> {
        let _ = uri;
        todo!()
    }
}

impl fmt::Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Display for WfmIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spiffe://{}/margo/wfm/{}", self.trust_domain, self.wfm_id)
    }
}
impl fmt::Display for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/client/{}", self.wfm, self.client_id)
    }
}
