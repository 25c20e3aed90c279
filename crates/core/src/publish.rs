//! The next manifest of a client: version, exact body, ETag, bundle (DS-01 to DS-05, DS-14).

#[cfg(test)]
mod tests;

use margo::digest::Digest;
use margo::ids::DeploymentId;
use margo::manifest::{
    BUNDLE_MEDIA_TYPE, BundleRef, DeploymentRef, MANIFEST_VERSION_ISSUED_MAX, StateManifest, bundle_url, deployment_url,
};

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
    /// This client has used all 2^53 - 1 manifest versions.
    #[error("client has no manifest versions left")]
    VersionsExhausted,
}

/// How far a manifest is raised above its version because its client reports a later one, as after a restore of the
/// database: far more than a server publishes between two backups, and far from using up the versions.
pub const RAISE_MAX: u64 = 100_000;

/// Builds the manifest after `previous` (0 if there was none). Deployments may come in any order.
pub fn next(previous: u64, deployments: &[ServedDeployment]) -> Result<Publication, PublishError> {
    // DS-01: strictly greater, and never above what every JSON reader represents exactly.
    let version = previous
        .checked_add(1)
        .filter(|version| *version <= MANIFEST_VERSION_ISSUED_MAX)
        .ok_or(PublishError::VersionsExhausted)?;
    let mut sorted: Vec<&ServedDeployment> = deployments.iter().collect();
    sorted.sort_by_key(|deployment| deployment.id);
    let bundle = pack(&sorted);
    let manifest = StateManifest {
        manifest_version: version,
        bundle: bundle.as_ref().map(|(digest, bytes)| BundleRef {
            media_type: BUNDLE_MEDIA_TYPE.to_owned(),
            digest: digest.clone(),
            size_bytes: Some(bytes.len() as u64),
            url: bundle_url(digest),
        }),
        deployments: sorted
            .iter()
            .map(|deployment| DeploymentRef {
                deployment_id: deployment.id,
                digest: deployment.digest.clone(),
                size_bytes: Some(deployment.yaml.len() as u64),
                url: deployment_url(deployment.id, &deployment.digest),
            })
            .collect(),
    };
    let body = manifest.to_json();
    Ok(Publication { version, digest: Digest::of(&body), body, bundle })
}

/// DS-02: without deployments there is no bundle, not an empty one.
fn pack(deployments: &[&ServedDeployment]) -> Option<(Digest, Vec<u8>)> {
    if deployments.is_empty() {
        return None;
    }
    let entries: Vec<(DeploymentId, &[u8])> =
        deployments.iter().map(|deployment| (deployment.id, deployment.yaml.as_slice())).collect();
    let bytes = margo::bundle::pack(&entries);
    Some((Digest::of(&bytes), bytes))
}
