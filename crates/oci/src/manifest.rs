//! What a manifest refers to, and for which platforms it is.

use margo::Digest;
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// Layers of these types must not be redistributed, so they are not copied.
const NOT_DISTRIBUTED: [&str; 2] =
    ["application/vnd.docker.image.rootfs.foreign.", "application/vnd.oci.image.layer.nondistributable."];
/// The largest manifest that is read: the size every registry must accept by the specification.
pub const MANIFEST_BYTES_MAX: usize = 4 << 20;
/// The most layers or platforms a manifest may list; real ones have a few dozen.
const DESCRIPTORS_MAX: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default)]
    pub platform: Option<Platform>,
}

/// The platform of an image.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Platform {
    pub os: String,
    pub architecture: String,
    #[serde(default)]
    pub variant: Option<String>,
}

impl Platform {
    /// Whether `offered` satisfies `self`; without a variant every variant does.
    pub fn matches(&self, offered: &Self) -> bool {
        self.os == offered.os
            && self.architecture == offered.architecture
            && (self.variant.is_none() || self.variant == offered.variant)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.iter().try_for_each(|variant| write!(f, "/{variant}"))
    }
}

impl FromStr for Platform {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('/');
        let word = |part: Option<&str>| {
            let fits = |part: &&str| {
                !part.is_empty()
                    && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_')
            };
            part.filter(fits).map(str::to_owned)
        };
        let odd = || format!("`{text}` is not a platform; write for example `linux/amd64` or `linux/arm/v7`");
        let (os, architecture) = (word(parts.next()).ok_or_else(odd)?, word(parts.next()).ok_or_else(odd)?);
        let variant = parts.next().map(|part| word(Some(part)).ok_or_else(odd)).transpose()?;
        if parts.next().is_some() { Err(odd()) } else { Ok(Self { os, architecture, variant }) }
    }
}

/// A manifest, as far as a copy needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub media_type: String,
    /// `artifactType`, otherwise the type of the configuration.
    pub artifact_type: Option<String>,
    /// Configuration and layers; none for an index.
    pub blobs: Vec<Descriptor>,
    /// The entries of an index.
    pub manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    media_type: Option<String>,
    artifact_type: Option<String>,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    manifests: Option<Vec<Descriptor>>,
}

impl Manifest {
    /// `content_type` is the one the registry sent.
    pub fn read(content_type: Option<&str>, bytes: &[u8]) -> Result<Self, String> {
        let raw: Raw = serde_json::from_slice(bytes).map_err(|error| format!("cannot be read: {error}"))?;
        let called = content_type.map(|text| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
        let media_type = raw.media_type.or(called).unwrap_or_default();
        let listed = raw.layers.len() + raw.manifests.as_ref().map_or(0, Vec::len);
        if listed > DESCRIPTORS_MAX {
            return Err(format!("lists more than {DESCRIPTORS_MAX} parts"));
        }
        let of_config = raw.config.as_ref().map(|config| config.media_type.clone());
        let artifact_type = raw.artifact_type.filter(|text| !text.is_empty()).or(of_config);
        let is_distributed =
            |layer: &Descriptor| !NOT_DISTRIBUTED.iter().any(|prefix| layer.media_type.starts_with(prefix));
        match media_type.as_str() {
            OCI_MANIFEST | DOCKER_MANIFEST => {
                let config = raw.config.ok_or("has no `config`")?;
                let layers = raw.layers.into_iter().filter(is_distributed);
                let blobs = std::iter::once(config).chain(layers).collect();
                Ok(Self { media_type, artifact_type, blobs, manifests: Vec::new() })
            }
            OCI_INDEX | DOCKER_LIST => {
                let manifests = raw.manifests.ok_or("has no `manifests`")?;
                Ok(Self { media_type, artifact_type, blobs: Vec::new(), manifests })
            }
            other => Err(format!("has the unsupported type `{}`", other.chars().take(100).collect::<String>())),
        }
    }

    pub fn is_index(&self) -> bool {
        matches!(self.media_type.as_str(), OCI_INDEX | DOCKER_LIST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_without_a_variant_matches_every_variant() {
        let platform = |text: &str| text.parse::<Platform>().unwrap();
        assert!(platform("linux/arm").matches(&platform("linux/arm/v7")));
        assert!(!platform("linux/arm/v6").matches(&platform("linux/arm/v7")));
        assert!(!platform("linux/arm64").matches(&platform("linux/arm/v7")));
        assert_eq!(platform("linux/arm/v7").to_string(), "linux/arm/v7");
        for odd in ["", "linux", "linux/", "/amd64", "linux/arm/v7/x", "linux/arm/"] {
            assert!(odd.parse::<Platform>().is_err(), "{odd}");
        }
    }

    #[test]
    fn distinguishes_manifests_and_indexes() {
        let digest = Digest::of(b"x");
        let part = serde_json::json!({ "mediaType": "a/b", "digest": digest, "size": 1 });
        let foreign = serde_json::json!({ "mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
            "digest": digest, "size": 1 });
        let image = serde_json::json!({ "mediaType": OCI_MANIFEST, "config": part, "layers": [part, foreign] });
        let read = Manifest::read(None, image.to_string().as_bytes()).unwrap();
        assert_eq!((read.blobs.len(), read.manifests.len(), read.artifact_type.as_deref()), (2, 0, Some("a/b")));
        let index = serde_json::json!({ "manifests": [part] });
        let read = Manifest::read(
            Some("application/vnd.oci.image.index.v1+json; charset=utf-8"),
            index.to_string().as_bytes(),
        );
        assert!(read.unwrap().is_index());
        assert!(Manifest::read(None, index.to_string().as_bytes()).is_err());
        assert!(Manifest::read(Some(OCI_MANIFEST), b"{}").is_err());
    }
}
