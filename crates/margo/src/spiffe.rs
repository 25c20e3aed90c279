//! SPIFFE ids of the WFM identity profile (WID-01).

use crate::ids::ClientId;
use crate::reader::shown;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpiffeError {
    #[error("`{0}` is not a SPIFFE ID")]
    Malformed(String),
    #[error("`{0}` is not of the form spiffe://<trust domain>/margo/wfm/<wfm-id>[/client/<client-id>]")]
    NotInProfile(String),
}

/// The longest SPIFFE ID, and the longest trust domain, that the SPIFFE standard allows.
const ID_BYTES_MAX: usize = 2048;
const TRUST_DOMAIN_BYTES_MAX: usize = 255;

/// Lower-case host-like name of a trust domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TrustDomain(String);

impl TrustDomain {
    pub fn parse(text: &str) -> Result<Self, SpiffeError> {
        let valid = (1..=TRUST_DOMAIN_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_'));
        if valid { Ok(Self(text.to_owned())) } else { Err(SpiffeError::Malformed(shown(text))) }
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

/// Trust domain and path segments of a SPIFFE ID.
fn split(uri: &str) -> Result<(TrustDomain, Vec<&str>), SpiffeError> {
    let malformed = || SpiffeError::Malformed(shown(uri));
    if uri.len() > ID_BYTES_MAX {
        return Err(malformed());
    }
    let mut segments = uri.strip_prefix("spiffe://").ok_or_else(malformed)?.split('/');
    let trust_domain = TrustDomain::parse(segments.next().unwrap_or_default()).map_err(|_| malformed())?;
    let segments: Vec<_> = segments.collect();
    let valid = |segment: &&str| {
        !segment.is_empty()
            && !matches!(*segment, "." | "..")
            && segment.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
    };
    if segments.iter().all(valid) { Ok((trust_domain, segments)) } else { Err(malformed()) }
}

impl WfmIdentity {
    pub fn parse(uri: &str) -> Result<Self, SpiffeError> {
        let not_in_profile = || SpiffeError::NotInProfile(shown(uri));
        match split(uri)? {
            (trust_domain, segments) if segments.len() == 3 && segments[..2] == ["margo", "wfm"] => {
                Ok(Self { trust_domain, wfm_id: segments[2].parse().map_err(|_| not_in_profile())? })
            }
            _ => Err(not_in_profile()),
        }
    }
    pub fn client(&self, client_id: ClientId) -> ClientIdentity {
        ClientIdentity { wfm: self.clone(), client_id }
    }
}

impl ClientIdentity {
    pub fn parse(uri: &str) -> Result<Self, SpiffeError> {
        let not_in_profile = || SpiffeError::NotInProfile(shown(uri));
        match split(uri)? {
            (trust_domain, segments)
                if segments.len() == 5 && segments[..2] == ["margo", "wfm"] && segments[3] == "client" =>
            {
                let wfm_id = segments[2].parse().map_err(|_| not_in_profile())?;
                let client_id = segments[4].parse().map_err(|_| not_in_profile())?;
                Ok(Self { wfm: WfmIdentity { trust_domain, wfm_id }, client_id })
            }
            _ => Err(not_in_profile()),
        }
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

#[cfg(test)]
mod tests;
