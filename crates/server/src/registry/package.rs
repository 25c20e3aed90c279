//! For the server's own code: adds application packages and other artifacts without HTTP.

use super::Registry;
use super::document::OCI_MANIFEST;
use super::error::Result;
use super::manifests::PutManifest;
use super::names::{Digest, Reference, RepositoryName, Tag};
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The content of every empty configuration.
const EMPTY: &[u8] = b"{}";
const EMPTY_MEDIA_TYPE: &str = "application/vnd.oci.empty.v1+json";

/// A layer of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    pub annotations: BTreeMap<String, String>,
}

impl Descriptor {
    fn to_json(&self) -> Value {
        let mut descriptor =
            json!({ "mediaType": self.media_type, "digest": self.digest.to_string(), "size": self.size });
        if !self.annotations.is_empty() {
            descriptor["annotations"] = json!(self.annotations);
        }
        descriptor
    }
}

impl Registry {
    /// Adds an application package under a tag (REG-03 to REG-07).
    pub async fn put_package(
        &self,
        repository: &RepositoryName,
        tag: &Tag,
        package: &margo::package::Package,
    ) -> Result<PutManifest> {
        let (manifest, blobs) = margo::package::to_oci(package);
        for (_, content) in blobs {
            self.put_blob(repository, content.into()).await?;
        }
        self.put_blob(repository, Bytes::from_static(EMPTY)).await?;
        self.put_manifest(repository, &Reference::Tag(tag.clone()), Some(OCI_MANIFEST), manifest.into()).await
    }

    /// Adds an artifact whose layers are already blobs of the repository, such as a chart or a compose archive.
    /// Without its own configuration it gets the empty one.
    pub async fn put_artifact(
        &self,
        repository: &RepositoryName,
        tag: &Tag,
        artifact_type: &str,
        config: Option<Descriptor>,
        layers: &[Descriptor],
    ) -> Result<PutManifest> {
        let config = match config {
            Some(config) => config,
            None => Descriptor {
                media_type: EMPTY_MEDIA_TYPE.to_owned(),
                digest: self.put_blob(repository, Bytes::from_static(EMPTY)).await?,
                size: EMPTY.len() as u64,
                annotations: BTreeMap::new(),
            },
        };
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "artifactType": artifact_type,
            "config": config.to_json(),
            "layers": layers.iter().map(Descriptor::to_json).collect::<Vec<_>>(),
        });
        let bytes = Bytes::from(manifest.to_string());
        self.put_manifest(repository, &Reference::Tag(tag.clone()), Some(OCI_MANIFEST), bytes).await
    }
}
