//! A package in an OCI image layout: `oci-layout`, `index.json`, `blobs/sha256/...`. Every digest is verified (REG-09).

use super::upload::rejected;
use super::{ValidPackage, texts};
use crate::app::error::{AppError, AppResult, Code};
use crate::app::versions;
use margo::archive::Entry;
use margo::digest::Digest;
use margo::package::{self, APP_ARTIFACT_TYPE, Layer, OciManifest};
use serde::Deserialize;
use std::collections::HashMap;

const REF_NAME: &str = "org.opencontainers.image.ref.name";

#[derive(Debug, Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    digest: String,
    #[serde(default)]
    artifact_type: Option<String>,
    #[serde(default)]
    annotations: HashMap<String, String>,
}

impl Descriptor {
    fn tag(&self) -> Option<&str> {
        self.annotations.get(REF_NAME).map(String::as_str)
    }
    /// The tag, or else the digest.
    fn name(&self) -> &str {
        self.tag().unwrap_or(&self.digest)
    }
}

pub(super) fn read(entries: &[Entry], reference: Option<&str>) -> AppResult<ValidPackage> {
    let file = |path: &str| entries.iter().find(|entry| entry.path == path).map(|entry| entry.bytes.as_slice());
    let index = file("index.json").ok_or_else(|| broken("the OCI layout has no `index.json`"))?;
    let index: Index =
        serde_json::from_slice(index).map_err(|error| broken(&format!("`index.json` cannot be read: {error}")))?;
    let chosen = choose(&index, reference)?;
    let blob = |digest: &Digest| -> AppResult<&[u8]> {
        let path = format!("blobs/sha256/{}", digest.hex());
        let bytes = file(&path).ok_or_else(|| broken(&format!("the OCI layout lacks `{path}`")))?;
        let actual = Digest::of(bytes);
        if actual == *digest { Ok(bytes) } else { Err(broken(&format!("`{path}` has digest {actual}"))) }
    };
    let digest: Digest = chosen.digest.parse().map_err(|error| broken(&format!("`index.json`: {error}")))?;
    if let Some(refusal) = rejected::image(blob(&digest)?) {
        return Err(refusal);
    }
    let manifest = OciManifest::read(blob(&digest)?).map_err(|findings| AppError::broken_package(&findings))?;
    let mut layers: Vec<(Layer, Vec<u8>)> = Vec::with_capacity(manifest.document.layers.len());
    for layer in manifest.document.layers {
        let bytes = blob(&layer.digest)?.to_vec();
        layers.push((layer, bytes));
    }
    let read = package::read_layers(&layers).map_err(|findings| AppError::broken_package(&findings))?;
    let mut warnings: Vec<String> = texts(&manifest.warnings).chain(texts(&read.warnings)).collect();
    let version = &read.document.description.metadata.version;
    warnings.extend(tag_warning(chosen.tag(), version));
    warnings.extend(version_warning(version));
    Ok(ValidPackage { package: read.document, digest, warnings })
}

fn choose<'a>(index: &'a Index, reference: Option<&str>) -> AppResult<&'a Descriptor> {
    let is_package =
        |descriptor: &&Descriptor| descriptor.artifact_type.as_deref().is_none_or(|kind| kind == APP_ARTIFACT_TYPE);
    let packages: Vec<&Descriptor> = index.manifests.iter().filter(is_package).collect();
    let names: Vec<&str> = packages.iter().map(|descriptor| descriptor.name()).collect();
    match (reference, packages.as_slice()) {
        (_, []) => Err(broken("the OCI layout contains no application package")),
        (None, [only]) => Ok(only),
        (None, _) => Err(AppError::invalid(
            "reference",
            format!("the OCI layout contains several packages; name one of {}", names.join(", ")),
        )),
        (Some(requested), _) => packages
            .iter()
            .find(|descriptor| descriptor.tag() == Some(requested) || descriptor.digest == requested)
            .copied()
            .ok_or_else(|| {
                AppError::invalid(
                    "reference",
                    format!("`{requested}` is not in the OCI layout; it contains {}", names.join(", ")),
                )
            }),
    }
}

/// REG-04: the tag of a package is its version.
pub(super) fn tag_warning(tag: Option<&str>, version: &str) -> Option<String> {
    tag.filter(|tag| *tag != version)
        .map(|tag| format!("the tag `{tag}` differs from the version `{version}` of the package; the version is used"))
}

/// Upgrades and the newest version go by the order of versions.
pub(super) fn version_warning(version: &str) -> Option<String> {
    (!versions::has_order(version)).then(|| {
        format!(
            "`metadata.version` is `{version}`, which is no version such as `1.2.0`: it cannot be ordered, so upgrades, \
             downgrades and the newest version are not recognized"
        )
    })
}

fn broken(detail: &str) -> AppError {
    AppError::refused(Code::BrokenPackage, detail)
}
