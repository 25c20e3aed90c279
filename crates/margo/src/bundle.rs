//! Bundle: all deployment YAMLs of one manifest in one archive (DS-03, W-20).

use crate::archive::ArchiveError;
use crate::ids::DeploymentId;
use crate::manifest::{BundleRef, DeploymentRef};
use indexmap::IndexMap;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    #[error("bundle has digest {actual}, the manifest says {expected}")]
    Digest { expected: String, actual: String },
    #[error("unpack the bundle")]
    Archive(#[source] ArchiveError),
    #[error("bundle lacks deployment {0}")]
    Missing(DeploymentId),
    #[error("bundle holds `{0}`, which the manifest does not name")]
    Extra(String),
}

/// The archive to serve: `{deploymentId}.yaml` at the root, reproducible.
pub fn pack(deployments: &[(DeploymentId, &[u8])]) -> Vec<u8> {
    let _ = deployments;
    todo!()
}

/// Verifies the archive and every YAML in it (DS-10); files are matched by digest, not by name (DS-03).
pub fn unpack(
    bytes: &[u8],
    bundle: &BundleRef,
    expected: &[DeploymentRef],
) -> Result<IndexMap<DeploymentId, Vec<u8>>, BundleError> {
    let _ = (bytes, bundle, expected);
    todo!()
}
