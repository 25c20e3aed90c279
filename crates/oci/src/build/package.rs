//! An application package (AP-01, REG-03 to REG-08).

use super::{Artifact, ArtifactKind, Problems};
use crate::reference::is_tag;
use margo::package::{Package, PackageFile};

/// Builds a package; its files are the description and what is under `resources/`.
pub fn package(files: &[PackageFile]) -> Result<(Artifact, Package), Problems> {
    let read = margo::package::read(files)
        .map_err(|findings| findings.0.iter().map(ToString::to_string).collect::<Problems>())?;
    let package = read.document;
    // REG-04: the tag is the version.
    let tag = package.description.metadata.version.replace('+', "_");
    if !is_tag(&tag) {
        let version = &package.description.metadata.version;
        return Err(vec![format!("`metadata.version`: `{version}` cannot be a tag; write for example `1.0.0`")]);
    }
    let (manifest, blobs) = margo::package::to_oci(&package);
    let artifact = Artifact {
        kind: ArtifactKind::Package,
        name: package.description.id.to_string(),
        tag,
        manifest: manifest.into(),
        blobs: blobs.into_iter().map(|(digest, bytes)| (digest, bytes.into())).collect(),
        warnings: read.warnings.iter().map(ToString::to_string).collect(),
    };
    Ok((artifact, package))
}
