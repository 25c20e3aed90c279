//! A package as a folder: its description and the resources it names (AP-01).

use super::{
    DESCRIPTION_BYTES_MAX, FILES_MAX, LEFT_OUT, Package, PackageFile, RESOURCE_BYTES_MAX, Resource, ResourceKind,
};
use crate::description::ApplicationDescription;
use crate::finding::{Finding, Findings, Read, ReadResult, Severity};
use crate::reader::shown;

pub(super) fn note(severity: Severity, path: &str, message: impl Into<String>) -> Finding {
    Finding { severity, path: path.to_owned(), line: None, message: message.into() }
}

/// A relative path without `.`; `None` when it would leave the package.
pub(super) fn inner_path(path: &str) -> Option<String> {
    let mut segments = Vec::new();
    if path.starts_with('/') || path.contains('\\') {
        return None;
    }
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => return None,
            _ => segments.push(segment),
        }
    }
    (!segments.is_empty()).then(|| segments.join("/"))
}

pub(super) fn read(files: &[PackageFile]) -> ReadResult<Package> {
    let mut findings = Vec::new();
    if files.len() > FILES_MAX {
        return Err(Findings::one("", format!("the package holds more than {FILES_MAX} files")));
    }
    for file in files {
        if file.bytes.len() > RESOURCE_BYTES_MAX {
            findings.push(note(Severity::Error, &file.path, format!("is larger than {RESOURCE_BYTES_MAX} bytes")));
        }
        if inner_path(&file.path).is_none() {
            findings.push(note(Severity::Error, &file.path, "is not a path inside the package"));
        }
    }
    let description_file = find_description(files, &mut findings);
    let Some(file) = description_file else { return Err(Findings(findings)) };
    let (description, warnings) = match ApplicationDescription::read(&file.bytes) {
        Ok(read) => (Some(read.document), read.warnings),
        Err(Findings(found)) => (None, found),
    };
    findings.extend(warnings);
    let mut resources = Vec::new();
    if let Some(description) = &description {
        for (kind, named) in named_resources(description) {
            if let Some(resource) = find_resource(files, kind, named, &mut findings) {
                resources.push(resource);
            }
        }
        for file in files.iter().filter(|other| other.path != file.path) {
            if inner_path(&file.path).is_some_and(|path| resources.iter().all(|resource| resource.path != path)) {
                findings.push(note(Severity::Warning, &file.path, LEFT_OUT));
            }
        }
    }
    finish(description, file.bytes.clone(), resources, findings)
}

pub(super) fn finish(
    description: Option<ApplicationDescription>,
    description_bytes: Vec<u8>,
    resources: Vec<Resource>,
    findings: Vec<Finding>,
) -> ReadResult<Package> {
    let findings = Findings(findings);
    match description {
        Some(description) if !findings.has_errors() => {
            Ok(Read { document: Package { description, description_bytes, resources }, warnings: findings.0 })
        }
        _ => Err(findings),
    }
}

/// Exactly one YAML file in the root is the description, whatever its name.
fn find_description<'a>(files: &'a [PackageFile], findings: &mut Vec<Finding>) -> Option<&'a PackageFile> {
    let in_root: Vec<_> = files
        .iter()
        .filter(|file| inner_path(&file.path).is_some_and(|path| !path.contains('/')))
        .filter(|file| matches!(extension(&file.path).as_str(), "yaml" | "yml"))
        .collect();
    let fits = |file: &&&PackageFile| file.bytes.len() <= DESCRIPTION_BYTES_MAX && looks_like_description(&file.bytes);
    let found = match in_root[..] {
        [only] => Some(only),
        [] => {
            findings.push(note(
                Severity::Error,
                "",
                "the package has no YAML description in its root, such as margo.yaml",
            ));
            None
        }
        _ => match in_root.iter().filter(fits).collect::<Vec<_>>()[..] {
            [only] => Some(*only),
            [] => {
                findings.push(note(Severity::Error, "", "none of the YAML files in the root is a description"));
                None
            }
            _ => {
                findings.push(note(Severity::Error, "", "more than one YAML file in the root is a description"));
                None
            }
        },
    };
    found.filter(|file| {
        let fits = file.bytes.len() <= DESCRIPTION_BYTES_MAX;
        if !fits {
            findings.push(note(Severity::Error, &file.path, format!("is larger than {DESCRIPTION_BYTES_MAX} bytes")));
        }
        fits
    })
}

/// Told by its text alone, so that a package full of YAML costs nothing.
fn looks_like_description(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"deploymentProfiles:"))
}

/// The resources a description names, with the names as written.
pub(super) fn named_resources(description: &ApplicationDescription) -> Vec<(ResourceKind, &str)> {
    let Some(application) = &description.metadata.catalog.application else { return Vec::new() };
    [
        (ResourceKind::Icon, &application.icon),
        (ResourceKind::DescriptionFile, &application.description_file),
        (ResourceKind::LicenseFile, &application.license_file),
        (ResourceKind::ReleaseNotes, &application.release_notes),
    ]
    .into_iter()
    .filter_map(|(kind, named)| Some((kind, named.as_deref()?)))
    .collect()
}

fn find_resource(
    files: &[PackageFile],
    kind: ResourceKind,
    named: &str,
    findings: &mut Vec<Finding>,
) -> Option<Resource> {
    let field = kind.field();
    let Some(path) = inner_path(named) else {
        findings.push(note(Severity::Error, field, format!("`{}` is not a path inside the package", shown(named))));
        return None;
    };
    let Some(file) = files.iter().find(|file| inner_path(&file.path).as_deref() == Some(&path)) else {
        findings.push(note(Severity::Error, field, format!("names `{}`, which is not in the package", shown(named))));
        return None;
    };
    Some(Resource { kind, media_type: kind.media_type(&path), path, bytes: file.bytes.clone() })
}

/// What follows the last dot of the file name, in lower case.
pub(super) fn extension(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default()
}
