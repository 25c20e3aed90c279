//! A package as a folder: its description and the resources it names (AP-01).

use super::{
    Broken, DESCRIPTION_BYTES_MAX, FILES_MAX, Package, PackageFile, RESOURCE_BYTES_MAX, Resource, SKIPPED_FILE,
};
use crate::description::{ApplicationDescription, Outline, OutlinedResource};
use crate::finding::{Finding, Findings, Read, Severity};
use crate::reader::{FIX_FIRST, shown};

pub(super) fn note(severity: Severity, path: &str, message: impl Into<String>) -> Finding {
    Finding { severity, path: path.to_owned(), line: None, message: message.into() }
}

/// A relative path without `.`; `None` if it would leave the package.
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

pub(super) fn read(files: &[PackageFile]) -> Result<Read<Package>, Broken> {
    let mut findings = Vec::new();
    if files.len() > FILES_MAX {
        findings.push(note(Severity::Error, "", format!("the package holds more than {FILES_MAX} files")));
    }
    for file in files {
        if file.bytes.len() > RESOURCE_BYTES_MAX {
            findings.push(note(Severity::Error, &file.path, format!("is larger than {RESOURCE_BYTES_MAX} bytes")));
        }
        if inner_path(&file.path).is_none() {
            findings.push(note(Severity::Error, &file.path, "is not a path inside the package"));
        }
    }
    let Some(file) = find_description(files, &mut findings) else {
        return finish(None, Outline::default(), Vec::new(), Vec::new(), findings);
    };
    let (description, outline) = describe(&file.path, &file.bytes, &mut findings);
    let mut resources = Vec::new();
    if outline.is_read {
        for named in &outline.resources {
            resources.extend(find_resource(files, named, &mut findings));
        }
        let others = files.iter().filter(|other| other.path != file.path);
        let unneeded = others.filter(|other| {
            inner_path(&other.path)
                .is_some_and(|path| resources.iter().all(|resource: &Resource| resource.path != path))
        });
        findings.extend(unneeded.take(FILES_MAX).map(|other| note(Severity::Warning, &other.path, SKIPPED_FILE)));
    }
    finish(description, outline, file.bytes.clone(), resources, findings)
}

/// Reads a description as part of a package: findings about the whole text get the name of the file.
pub(super) fn describe(
    name: &str,
    bytes: &[u8],
    findings: &mut Vec<Finding>,
) -> (Option<ApplicationDescription>, Outline) {
    let (read, outline) = ApplicationDescription::read_with_outline(bytes);
    let (description, mut found) = match read {
        Ok(read) => (Some(read.document), read.warnings),
        Err(Findings(found)) => (None, found),
    };
    for finding in found.iter_mut().filter(|finding| finding.path.is_empty() && finding.line.is_some()) {
        name.clone_into(&mut finding.path);
    }
    if let Some(last) = found.last_mut().filter(|_| !outline.is_read) {
        name.clone_into(&mut last.path);
        last.message = format!("{}; {FIX_FIRST}", last.message);
    }
    findings.extend(found);
    (description, outline)
}

pub(super) fn finish(
    description: Option<ApplicationDescription>,
    outline: Outline,
    description_bytes: Vec<u8>,
    resources: Vec<Resource>,
    findings: Vec<Finding>,
) -> Result<Read<Package>, Broken> {
    let mut findings = Findings(findings);
    match description {
        Some(description) if !findings.has_errors() => {
            Ok(Read { document: Package { description, description_bytes, resources }, warnings: findings.0 })
        }
        _ => {
            // The finding about unlisted problems stays last.
            let closing = findings.0.iter().position(Finding::is_closing).map(|index| findings.0.remove(index));
            findings.0.sort_by_key(|finding| finding.line);
            findings.0.extend(closing);
            Err(Broken { findings, outline })
        }
    }
}

/// Exactly one YAML file in the root is the description, whatever its name.
fn find_description<'a>(files: &'a [PackageFile], findings: &mut Vec<Finding>) -> Option<&'a PackageFile> {
    let in_root: Vec<_> = files
        .iter()
        .filter(|file| inner_path(&file.path).is_some_and(|path| !path.contains('/')))
        .filter(|file| matches!(extension(&file.path).as_str(), "yaml" | "yml"))
        .collect();
    let is_small_enough =
        |file: &&&PackageFile| file.bytes.len() <= DESCRIPTION_BYTES_MAX && looks_like_description(&file.bytes);
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
        _ => match in_root.iter().filter(is_small_enough).collect::<Vec<_>>()[..] {
            [only] => Some(*only),
            [] => {
                let message = format!("none of the YAML files in the root is a description; {FIX_FIRST}");
                findings.push(note(Severity::Error, "", message));
                None
            }
            _ => {
                let message = format!("more than one YAML file in the root is a description; {FIX_FIRST}");
                findings.push(note(Severity::Error, "", message));
                None
            }
        },
    };
    found.filter(|file| {
        let is_small_enough = file.bytes.len() <= DESCRIPTION_BYTES_MAX;
        if !is_small_enough {
            let message = format!("is larger than {DESCRIPTION_BYTES_MAX} bytes; {FIX_FIRST}");
            findings.push(note(Severity::Error, &file.path, message));
        }
        is_small_enough
    })
}

/// Decided by the text alone, so that a package full of YAML costs nothing.
fn looks_like_description(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"deploymentProfiles:"))
}

fn find_resource(files: &[PackageFile], named: &OutlinedResource, findings: &mut Vec<Finding>) -> Option<Resource> {
    let OutlinedResource { kind, name, line } = named;
    let mut refuse = |message: String| {
        findings.push(Finding { line: Some(*line), ..note(Severity::Error, kind.field(), message) });
        None
    };
    let Some(path) = inner_path(name) else {
        return refuse(format!("`{}` is not a path inside the package", shown(name)));
    };
    let Some(file) = files.iter().find(|file| inner_path(&file.path).as_deref() == Some(&path)) else {
        return refuse(format!("names `{}`, which is not in the package", shown(name)));
    };
    Some(Resource { kind: *kind, media_type: kind.media_type(&path), path, bytes: file.bytes.clone() })
}

/// The part after the last dot of the file name, in lower case.
pub(super) fn extension(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default()
}
