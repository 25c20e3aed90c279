//! Preloaded desired states: read and verified against the trust bundle of the device, otherwise not used.
//! [`margrave_core::preload`] and ADR 25 describe the file and its trust model.

mod archive;
mod verify;

pub(crate) use archive::{ImageWriter, image_archive};

use crate::identity::Identity;
use archive::{contents, head};
use margo::Digest;
use margo::manifest::StateManifest;
use margrave_core::preload::{Artifact, Image, Statement};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Layers of components, manifests and deployments are text.
const CONTENT_BYTES_MAX: u64 = margrave_oci::build::BYTES_MAX;
/// All of them together, without images: a device has little memory.
const CONTENTS_BYTES_MAX: u64 = 4 * CONTENT_BYTES_MAX;

#[derive(Debug, thiserror::Error)]
pub enum PreloadError {
    #[error("read `{}`: {reason}", path.display())]
    Read { path: PathBuf, reason: String },
    #[error("{0}")]
    Refused(String),
}

/// A verified preloaded desired state.
#[derive(Debug, Clone)]
pub struct Preload {
    pub file: PathBuf,
    /// The manifest, as the server would send it.
    pub body: String,
    pub etag: String,
    /// Deployment documents by digest.
    pub documents: Vec<(Digest, Arc<[u8]>)>,
    pub artifacts: Vec<Artifact>,
    /// The layers of the artifacts.
    pub layers: HashMap<Digest, Vec<u8>>,
    /// Their layers are verified when the engine loads them.
    pub images: Vec<Image>,
}

/// Reads a file and checks everything but the layers of images.
pub fn read(path: &Path, identity: &Identity) -> Result<Preload, PreloadError> {
    let refused = |reason: String| PreloadError::Refused(reason);
    let head = head(path)?;
    let Statement { kind: _, client, issued_at: _, manifest, etag, artifacts, images } =
        verify::statement(&head, identity).map_err(refused)?;
    let own = identity.client.to_string();
    if client != own {
        return Err(refused(format!("it is for `{client}`, this device is `{own}`")));
    }
    let lacks = |digest: &Digest| PreloadError::Refused(format!("it lacks {digest}, which it names"));
    let mut found = contents(path, &HashSet::from([manifest.clone()]), CONTENT_BYTES_MAX)?;
    let body = found.remove(&manifest).ok_or_else(|| lacks(&manifest))?;
    let body = String::from_utf8(body).map_err(|_| refused("its manifest is not text".to_owned()))?;
    let read = StateManifest::read(body.as_bytes()).map_err(|error| refused(format!("its manifest: {error}")))?;
    let named: Vec<Digest> = read.document.deployments.iter().map(|listed| listed.digest.clone()).collect();
    let layers: Vec<Digest> = artifacts.iter().map(|artifact| artifact.layer.clone()).collect();
    let mut found = contents(path, &named.iter().chain(&layers).cloned().collect(), CONTENTS_BYTES_MAX)?;
    let mut documents = Vec::new();
    for digest in named {
        let bytes: Arc<[u8]> = found.get(&digest).ok_or_else(|| lacks(&digest))?.as_slice().into();
        documents.push((digest, bytes));
    }
    if let Some(missing) = layers.iter().find(|layer| !found.contains_key(*layer)) {
        return Err(lacks(missing));
    }
    found.retain(|digest, _| layers.contains(digest));
    Ok(Preload { file: path.to_owned(), body, etag, documents, artifacts, layers: found, images })
}
