//! The next manifest of a client: version, exact body, ETag, bundle (DS-01 to DS-05, DS-14).

use margo::digest::Digest;
use margo::ids::DeploymentId;

/// One deployment as it will be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedDeployment {
    pub id: DeploymentId,
    pub digest: Digest,
    pub yaml: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    pub version: u64,
    /// The exact bytes of the manifest.
    pub body: Vec<u8>,
    /// Digest of `body`; the ETag is this, quoted.
    pub digest: Digest,
    pub bundle: Option<(Digest, Vec<u8>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The sequence of this client is used up: 2^53 - 1 manifests.
    #[error("client has no manifest versions left")]
    VersionsExhausted,
}

/// Builds the manifest after `previous` (0 when there was none). Deployments may come in any order.
pub fn next(previous: u64, deployments: &[ServedDeployment]) -> Result<Publication, PublishError> {
    let _ = (previous, deployments);
    todo!()
}
