//! An application package (AP-01, REG-03 to REG-08).

use super::{Artifact, ArtifactKind, Problems};
use crate::reference::is_tag;
use margo::Severity;
use margo::description::{ApplicationDescription, Outline};
use margo::package::{Broken, Package, PackageFile};

/// Builds a package; its files are the description and everything under `resources/`.
pub fn package(files: &[PackageFile]) -> Result<(Artifact, Package), Problems> {
    package_with_outline(files).0
}

/// The same, with the readable parts of the description, so that dependent checks run in the same pass.
pub fn package_with_outline(files: &[PackageFile]) -> (Result<(Artifact, Package), Problems>, Outline) {
    let (read, outline) = match margo::package::read_or_outline(files) {
        Ok(read) => {
            let outline = ApplicationDescription::read_with_outline(&read.document.description_bytes).1;
            (Ok(read), outline)
        }
        Err(Broken { findings, outline }) => (Err(findings), outline),
    };
    // REG-04: the tag is the version.
    let tag = outline.version.as_deref().unwrap_or_default().replace('+', "_");
    let mut problems = Problems::new();
    if let Some(version) = outline.version.as_ref().filter(|_| !is_tag(&tag)) {
        problems.push(format!("`metadata.version`: `{version}` cannot be a tag; write for example `1.0.0`"));
    }
    let read = match read {
        Ok(read) if problems.is_empty() => read,
        Ok(_) => return (Err(problems), outline),
        Err(findings) => {
            let errors = findings.0.iter().filter(|finding| finding.severity == Severity::Error);
            let all = errors.map(ToString::to_string).chain(problems).collect();
            return (Err(all), outline);
        }
    };
    let package = read.document;
    let (manifest, blobs) = margo::package::to_oci(&package);
    let artifact = Artifact {
        kind: ArtifactKind::Package,
        name: package.description.id.to_string(),
        tag,
        manifest: manifest.into(),
        blobs: blobs.into_iter().map(|(digest, bytes)| (digest, bytes.into())).collect(),
        warnings: read.warnings.iter().map(ToString::to_string).collect(),
    };
    (Ok((artifact, package)), outline)
}
