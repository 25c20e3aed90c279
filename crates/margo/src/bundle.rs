//! Bundle: all deployment YAMLs of one manifest in one archive (DS-03, W-20).

use crate::archive::{self, ArchiveError, Limits};
use crate::digest::Digest;
use crate::ids::DeploymentId;
use crate::manifest::{BundleRef, DeploymentRef};
use indexmap::IndexMap;
use std::collections::{HashMap, HashSet};

/// Limits of a bundle: ten thousand deployments of a few kilobytes each.
pub const BUNDLE_LIMITS: Limits = Limits { entries_max: 10_000, entry_bytes_max: 1 << 20, total_bytes_max: 32 << 20 };

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
    let entries: Vec<_> = deployments.iter().map(|(id, yaml)| (format!("{id}.yaml"), *yaml)).collect();
    archive::pack(&entries)
}

/// Verifies the archive and every YAML in it (DS-10); files are matched by digest, not by name (DS-03).
pub fn unpack(
    bytes: &[u8],
    bundle: &BundleRef,
    expected: &[DeploymentRef],
) -> Result<IndexMap<DeploymentId, Vec<u8>>, BundleError> {
    let actual = Digest::of(bytes);
    if actual != bundle.digest {
        return Err(BundleError::Digest { expected: bundle.digest.to_string(), actual: actual.to_string() });
    }
    let files = archive::unpack(bytes, BUNDLE_LIMITS).map_err(BundleError::Archive)?;
    let mut by_digest: HashMap<Digest, Vec<u8>> = HashMap::new();
    let wanted: HashSet<&Digest> = expected.iter().map(|deployment| &deployment.digest).collect();
    for file in files {
        let digest = Digest::of(&file.bytes);
        if !wanted.contains(&digest) || by_digest.insert(digest, file.bytes).is_some() {
            return Err(BundleError::Extra(file.path));
        }
    }
    let mut found = IndexMap::new();
    for deployment in expected {
        let yaml = by_digest.get(&deployment.digest).ok_or(BundleError::Missing(deployment.deployment_id))?;
        found.insert(deployment.deployment_id, yaml.clone());
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
