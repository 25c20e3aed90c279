//! Parses a manifest: its kind, its references and its metadata.

use super::error::{RegistryError, Result};
use super::names::Digest;
use serde::Deserialize;
use std::collections::BTreeMap;

pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const OCI_ARTIFACT: &str = "application/vnd.oci.artifact.manifest.v1+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

/// Layers of these types may be stored elsewhere and need not be pushed.
const NOT_DISTRIBUTED: [&str; 2] =
    ["application/vnd.docker.image.rootfs.foreign.", "application/vnd.oci.image.layer.nondistributable."];

/// Largest manifest accepted: the size that the specification requires registries to accept.
pub const MANIFEST_BYTES_MAX: usize = 4 << 20;

/// The parts of a manifest that a registry needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) media_type: String,
    /// Blobs it needs, with the sizes it states.
    pub(super) blobs: Vec<(Digest, u64)>,
    /// Manifests an index lists, with the sizes it states.
    pub(super) manifests: Vec<(Digest, u64)>,
    pub(super) subject: Option<Digest>,
    pub(super) artifact_type: Option<String>,
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    schema_version: Option<u64>,
    media_type: Option<String>,
    artifact_type: Option<String>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    blobs: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
    subject: Option<Descriptor>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
}

impl Descriptor {
    fn read(&self) -> Result<(Digest, u64)> {
        let digest = self.digest.parse().map_err(|error| RegistryError::ManifestInvalid(format!("{error}")))?;
        Ok((digest, self.size))
    }
    fn is_distributed(&self) -> bool {
        !NOT_DISTRIBUTED.iter().any(|prefix| self.media_type.starts_with(prefix))
    }
}

/// Parses a manifest. `content_type` is what the client sent; it must match the `mediaType` of the document.
pub(super) fn read(content_type: Option<&str>, bytes: &[u8]) -> Result<Document> {
    let invalid = |message: String| RegistryError::ManifestInvalid(message);
    let raw: Raw = serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
    // Parameters such as a charset do not change the type.
    let content_type = content_type.map(|text| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    let media_type = match (content_type.filter(|text| !text.is_empty()), &raw.media_type) {
        (Some(called), Some(own)) if called != *own => {
            return Err(invalid(format!("its Content-Type is `{called}` but its `mediaType` is `{own}`")));
        }
        (Some(called), _) => called,
        (None, Some(own)) => own.clone(),
        (None, None) => return Err(invalid("neither Content-Type nor `mediaType` is given".to_owned())),
    };
    if media_type != OCI_ARTIFACT && raw.schema_version != Some(2) {
        return Err(invalid("`schemaVersion` must be 2".to_owned()));
    }
    let (blobs, manifests) = references(&media_type, &raw)?;
    let subject = raw.subject.as_ref().map(Descriptor::read).transpose()?.map(|(digest, _)| digest);
    // An image without an artifact type is identified by the type of its configuration.
    let of_config = || raw.config.as_ref().map(|config| config.media_type.clone());
    let artifact_type = raw.artifact_type.clone().filter(|text| !text.is_empty()).or_else(of_config);
    let annotations = raw.annotations.unwrap_or_default();
    Ok(Document { media_type, blobs, manifests, subject, artifact_type, annotations })
}

type References = Vec<(Digest, u64)>;

fn references(media_type: &str, raw: &Raw) -> Result<(References, References)> {
    let invalid = |message: &str| Err(RegistryError::ManifestInvalid(message.to_owned()));
    let read = |descriptors: &Option<Vec<Descriptor>>| -> Result<References> {
        descriptors.iter().flatten().filter(|item| item.is_distributed()).map(Descriptor::read).collect()
    };
    match media_type {
        OCI_MANIFEST | DOCKER_MANIFEST => {
            // A document of two kinds at once would mean different things to different readers.
            if raw.manifests.is_some() {
                return invalid("an image manifest has no `manifests`");
            }
            let Some(config) = &raw.config else { return invalid("`config` is missing") };
            let mut blobs = vec![config.read()?];
            blobs.extend(read(&raw.layers)?);
            Ok((blobs, Vec::new()))
        }
        OCI_INDEX | DOCKER_LIST => {
            if raw.config.is_some() || raw.layers.is_some() {
                return invalid("an index has neither `config` nor `layers`");
            }
            if raw.manifests.is_none() {
                return invalid("`manifests` is missing");
            }
            Ok((Vec::new(), read(&raw.manifests)?))
        }
        OCI_ARTIFACT => Ok((read(&raw.blobs)?, Vec::new())),
        other => invalid(&format!(
            "media type `{other}` is not supported: send an OCI image manifest or index, or a Docker schema 2 manifest or list"
        )),
    }
}

#[cfg(test)]
mod tests;
