//! Application package: a description and its resources, as files or as OCI layers (requirements §3.1, §3.2).

use crate::description::{ApplicationDescription, Outline};
use crate::digest::Digest;
use crate::{Findings, Read, ReadResult};

mod files;
mod oci;

pub const APP_ARTIFACT_TYPE: &str = "application/vnd.margo.app.v1+json";
pub const DESCRIPTION_MEDIA_TYPE: &str = "application/vnd.margo.app.description.v1+yaml";
pub const OCI_MANIFEST_MEDIA_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// The largest description accepted; real ones are a few kilobytes.
pub const DESCRIPTION_BYTES_MAX: usize = 1 << 19;
/// The largest resource (icon, license, notes) accepted.
pub const RESOURCE_BYTES_MAX: usize = 8 << 20;
/// The most files a package may hold.
pub const FILES_MAX: usize = 64;

/// The message for a file that the description does not reference: it is harmless, only not needed.
pub const SKIPPED_FILE: &str = "is not referenced by the description and is skipped";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageFile {
    /// Relative path in the package, such as `margo.yaml` or `resources/icon.png`.
    pub path: String,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Copy)]
pub enum ResourceKind {
    Icon,
    DescriptionFile,
    LicenseFile,
    ReleaseNotes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub kind: ResourceKind,
    pub media_type: String,
    pub path: String,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Package {
    pub description: ApplicationDescription,
    /// The description exactly as shipped.
    pub description_bytes: Vec<u8>,
    pub resources: Vec<Resource>,
}

/// An unusable package.
#[derive(Debug, Clone, PartialEq)]
pub struct Broken {
    /// Every problem, those of the package first, then those of its description in the order of its lines.
    pub findings: Findings,
    /// The readable parts of its description, for further checks.
    pub outline: Outline,
}

/// Reads a package from its files (AP-01): exactly one description in the root; every resource the
/// description names must exist. Returns all problems at once, those of the description, of its references and of the
/// files; a problem that prevents other checks says so ([`crate::reader::FIX_FIRST`]).
pub fn read(files: &[PackageFile]) -> ReadResult<Package> {
    files::read(files).map_err(|broken| broken.findings)
}

/// The same, for callers that check more than the package alone.
pub fn read_or_outline(files: &[PackageFile]) -> Result<Read<Package>, Broken> {
    files::read(files)
}

/// One layer of a package's OCI manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    /// `org.opencontainers.image.title`, else `None`.
    pub title: Option<String>,
    /// `org.margo.app.resource`, else `None`.
    pub resource: Option<String>,
}

/// The relevant parts of an OCI image manifest of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciManifest {
    pub layers: Vec<Layer>,
}

impl OciManifest {
    /// Checks artifact type, config and layer types (REG-05 to REG-07).
    pub fn read(json: &[u8]) -> ReadResult<Self> {
        oci::read_manifest(json)
    }
}

/// Reads a package from its OCI layers, whose digests the caller has verified.
pub fn read_layers(layers: &[(Layer, Vec<u8>)]) -> ReadResult<Package> {
    oci::read_layers(layers).map_err(|broken| broken.findings)
}

/// The OCI manifest and blobs of a package, ready to be written to a layout or pushed.
pub fn to_oci(package: &Package) -> (Vec<u8>, Vec<(Digest, Vec<u8>)>) {
    oci::write(package)
}

#[cfg(test)]
mod tests;
