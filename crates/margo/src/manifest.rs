//! State Manifest: everything one client should run, by digest (requirements §5).

use crate::digest::Digest;
use crate::ids::DeploymentId;
use crate::node::Limits;
use crate::tree::{Members, Tree};
use crate::{ReadResult, json, reader};

mod read;

pub const MANIFEST_MEDIA_TYPE: &str = "application/vnd.margo.manifest.v1+json";
pub const BUNDLE_MEDIA_TYPE: &str = "application/vnd.margo.bundle.v1+tar+gzip";

/// The largest version this project issues: every JSON reader represents it exactly.
pub const MANIFEST_VERSION_ISSUED_MAX: u64 = (1 << 53) - 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateManifest {
    pub manifest_version: u64,
    /// `None` is written as `null`, never omitted (DS-02).
    pub bundle: Option<BundleRef>,
    pub deployments: Vec<DeploymentRef>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleRef {
    pub media_type: String,
    pub digest: Digest,
    /// Advisory only (DS-06).
    pub size_bytes: Option<u64>,
    pub url: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentRef {
    pub deployment_id: DeploymentId,
    pub digest: Digest,
    pub size_bytes: Option<u64>,
    pub url: String,
}

/// `/api/v1/bundles/{digest}` (DS-05).
pub fn bundle_url(digest: &Digest) -> String {
    format!("/api/v1/bundles/{digest}")
}

/// `/api/v1/deployments/{deploymentId}/{digest}` (DS-05).
pub fn deployment_url(id: DeploymentId, digest: &Digest) -> String {
    format!("/api/v1/deployments/{id}/{digest}")
}

impl StateManifest {
    /// Reads a manifest. An unknown digest algorithm anywhere makes the whole manifest invalid (DS-08).
    pub fn read(json: &[u8]) -> ReadResult<Self> {
        reader::read_json(json, Limits::MANIFEST, read::manifest)
    }

    /// The exact bytes to serve: deterministic JSON in the order of RFC 8785 (DS-14).
    pub fn to_json(&self) -> Vec<u8> {
        let bundle = self.bundle.as_ref().map(|bundle| {
            Members::new()
                .with("mediaType", &bundle.media_type)
                .with("digest", bundle.digest.as_str())
                .with_some("sizeBytes", bundle.size_bytes)
                .with("url", &bundle.url)
        });
        let deployments = self.deployments.iter().map(|deployment| {
            Members::new()
                .with("deploymentId", deployment.deployment_id.to_string())
                .with("digest", deployment.digest.as_str())
                .with_some("sizeBytes", deployment.size_bytes)
                .with("url", &deployment.url)
        });
        let tree = Members::new()
            .with("manifestVersion", self.manifest_version)
            .with("bundle", bundle.map_or(Tree::Null, Tree::from))
            .with("deployments", Tree::list(deployments));
        json::canonical(&tree.build())
    }
}

/// The last manifest that the client accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackFloor {
    pub version: u64,
    pub body_digest: Digest,
}

/// Whether a fetched manifest may be acted on (DS-22, DS-23).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Newer,
    /// Same version, same content: happens after a lost ETag.
    Unchanged,
    /// Older, or the same version with other content. A security event.
    Violation {
        floor: u64,
        offered: u64,
    },
}

pub fn compare(floor: Option<&RollbackFloor>, offered_version: u64, offered_body: &Digest) -> Verdict {
    match floor {
        None => Verdict::Newer,
        Some(floor) if offered_version > floor.version => Verdict::Newer,
        Some(floor) if offered_version == floor.version && *offered_body == floor.body_digest => Verdict::Unchanged,
        Some(floor) => Verdict::Violation { floor: floor.version, offered: offered_version },
    }
}

#[cfg(test)]
mod tests;
