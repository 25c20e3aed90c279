//! Plans which artifacts a folder becomes and where they are pushed, before anything is sent.

use super::folder::Folder;
use margo::description::{ComponentSource, Outline, OutlinedComponent, ProfileType};
use margo::package::{Package, PackageFile};
use margrave_oci::build::{self, Artifact, ArtifactKind, IMAGE_BYTES_MAX};
use margrave_oci::reference::is_repository;
use margrave_oci::{Reference, Tag, mirror};
use std::path::Path;

/// Each component has its own folder here.
const COMPONENTS: &str = "components/";

/// The push target.
pub(super) struct Target {
    /// Registry host.
    pub(super) host: String,
    /// Whether it is the embedded registry, which also mirrors artifacts of other registries.
    pub(super) embedded: bool,
    /// Repository and tag given by the operator.
    pub(super) requested: Option<(String, Option<String>)>,
}

/// One artifact and its destination.
pub(super) struct Planned {
    pub(super) artifact: Artifact,
    pub(super) repository: String,
    /// The name in devices and descriptions, if it differs from the destination.
    pub(super) stands_for: Option<String>,
}

impl Planned {
    pub(super) fn reference(&self, host: &str) -> Reference {
        let tag = Tag::Name(self.artifact.tag.clone());
        Reference { host: host.to_owned(), repository: self.repository.clone(), tag }
    }
}

/// Everything to push, in order: components before the package that refers to them.
pub(super) struct Plan {
    pub(super) steps: Vec<Planned>,
    pub(super) package: Option<Package>,
    pub(super) warnings: Vec<String>,
    /// Components that are not in the folder.
    pub(super) elsewhere: Vec<String>,
}

/// Build options.
pub(super) struct Options<'a> {
    pub(super) version: Option<&'a str>,
    pub(super) components: bool,
}

pub(super) fn plan(path: &Path, target: &Target, options: &Options<'_>) -> Result<Plan, Vec<String>> {
    if path.is_file() {
        return image(path, target);
    }
    let mut folder = Folder::read(path);
    let mut problems = std::mem::take(&mut folder.problems);
    if folder.files.is_empty() && !problems.is_empty() {
        return Err(problems);
    }
    let kind = match build::recognize(&folder.paths()) {
        Ok(kind) => kind,
        Err(problem) => {
            problems.push(problem);
            return Err(problems);
        }
    };
    let mut plan = Plan { steps: Vec::new(), package: None, warnings: Vec::new(), elsewhere: Vec::new() };
    if options.version.is_some() && !matches!(kind, ArtifactKind::Compose | ArtifactKind::Manifests) {
        let kind = kind.as_str();
        problems.push(format!("--version is for compose archives and manifests; a {kind} contains its version"));
    }
    let built = match kind {
        ArtifactKind::Package => {
            let components = folder.take(COMPONENTS);
            let (built, outline) = build::package_with_outline(&folder.files);
            let mut of_components = Vec::new();
            if options.components && outline.is_read {
                add_components(&outline, components, target, &mut plan, &mut of_components);
            }
            match built {
                Ok((artifact, package)) => {
                    problems.append(&mut of_components);
                    plan.package = Some(package);
                    Ok(artifact)
                }
                Err(mut found) => {
                    found.append(&mut of_components);
                    Err(found)
                }
            }
        }
        ArtifactKind::Chart => build::chart(&folder.files),
        ArtifactKind::Compose => {
            unversioned(path, target, options, |name, version| build::compose(&folder.files, name, version))
        }
        ArtifactKind::Manifests => {
            unversioned(path, target, options, |name, version| build::manifests(&folder.files, name, version))
        }
        ArtifactKind::Image => Err(vec!["push an image from its archive".to_owned()]),
    };
    match built {
        Ok(artifact) => {
            if let Some(step) = place(artifact, target, &mut problems) {
                plan.steps.push(step);
            }
        }
        Err(found) => problems.extend(found),
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let warnings = plan.steps.iter_mut().flat_map(|step| std::mem::take(&mut step.artifact.warnings));
    plan.warnings.extend(warnings.collect::<Vec<_>>());
    Ok(plan)
}

/// A container image archive. The image keeps its name, as components do.
fn image(path: &Path, target: &Target) -> Result<Plan, Vec<String>> {
    let cannot = |error: std::io::Error| vec![format!("cannot be read: {error}")];
    let bytes = std::fs::metadata(path).map_err(cannot)?.len();
    if bytes > IMAGE_BYTES_MAX {
        return Err(vec![format!("{bytes} bytes exceed the limit of {IMAGE_BYTES_MAX}; use `skopeo copy`")]);
    }
    let (mut artifact, named) = build::image(&std::fs::read(path).map_err(cannot)?.into())?;
    let mut plan = Plan { steps: Vec::new(), package: None, warnings: Vec::new(), elsewhere: Vec::new() };
    let (repository, stands_for) = match (&target.requested, named) {
        (Some((repository, tag)), _) => {
            artifact.tag = tag.clone().unwrap_or(artifact.tag);
            (Some(repository.clone()), None)
        }
        (None, Some(named)) if named.host == target.host => (Some(named.repository), None),
        (None, Some(named)) => (mirror::repository(&named.host, &named.repository), Some(named.image())),
        (None, None) => {
            return Err(vec!["the archive does not contain the image name; set it with --to".to_owned()]);
        }
    };
    let Some(repository) = repository.filter(|repository| is_repository(repository)) else {
        return Err(vec!["the image name is not valid here; set another with --to".to_owned()]);
    };
    plan.steps.push(Planned { artifact, repository, stands_for });
    Ok(plan)
}

/// Builds an artifact without a version of its own, named after its folder.
fn unversioned(
    path: &Path,
    target: &Target,
    options: &Options<'_>,
    build: impl Fn(&str, &str) -> Result<Artifact, Vec<String>>,
) -> Result<Artifact, Vec<String>> {
    let of_tag = target.requested.as_ref().and_then(|(_, tag)| tag.as_deref());
    let Some(version) = options.version.or(of_tag) else {
        let mut problems = vec!["the files contain no version; set one with --version 1.0.0".to_owned()];
        problems.extend(build("x", "0.0.0").err().into_iter().flatten());
        return Err(problems);
    };
    let name = path.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_str()?.to_ascii_lowercase()));
    build(name.as_deref().unwrap_or("component"), version)
}

/// Destination of the folder's own artifact.
fn place(artifact: Artifact, target: &Target, problems: &mut Vec<String>) -> Option<Planned> {
    let shelf = match artifact.kind {
        ArtifactKind::Package => "apps",
        ArtifactKind::Chart => "charts",
        ArtifactKind::Compose => "compose",
        ArtifactKind::Manifests => "manifests",
        ArtifactKind::Image => "images",
    };
    let repository = match &target.requested {
        Some((repository, tag)) => {
            if let Some(tag) = tag.as_ref().filter(|tag| **tag != artifact.tag) {
                problems.push(format!(
                    "--to has the tag `{tag}`, but the version is `{}`; the tag must be the version",
                    artifact.tag
                ));
                return None;
            }
            repository.clone()
        }
        None => format!("{shelf}/{}", artifact.name),
    };
    if !is_repository(&repository) {
        problems.push(format!("`{repository}` is not a valid repository name; set one with --to"));
        return None;
    }
    Some(Planned { artifact, repository, stands_for: None })
}

/// Builds the components in `components/` and finds their destinations in the description, as far as it is readable.
fn add_components(
    outline: &Outline,
    files: Vec<PackageFile>,
    target: &Target,
    plan: &mut Plan,
    problems: &mut Vec<String>,
) {
    let mut left = Folder::of(files);
    let mut taken: Vec<(String, Vec<PackageFile>)> = Vec::new();
    for OutlinedComponent { name, profile_type, source } in &outline.components {
        // A name that occurs in profiles of both types needs a folder for each.
        let types: &[ProfileType] = match profile_type {
            Some(kind) => std::slice::from_ref(kind),
            None => &[ProfileType::Helm, ProfileType::Compose, ProfileType::Custom],
        };
        let mut own: Vec<String> = types.iter().map(|kind| format!("{}/{name}/", kind.as_str())).collect();
        own.push(format!("{name}/"));
        if matches!(source, Some(ComponentSource::Location { .. })) {
            continue;
        }
        for folder in &own {
            if taken.iter().all(|(known, _)| known != folder) {
                let files = left.take(folder);
                if !files.is_empty() {
                    taken.push((folder.clone(), files));
                }
            }
        }
        // Problems of the description are already reported; only check the folder.
        let (Some(kind), Some(ComponentSource::Oci { repository, revision })) = (*profile_type, source) else {
            continue;
        };
        let is_match = |files: &[PackageFile]| {
            let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
            matches!(
                (build::recognize(&paths), kind),
                (Ok(ArtifactKind::Chart), ProfileType::Helm)
                    | (Ok(ArtifactKind::Compose), ProfileType::Compose)
                    | (Ok(ArtifactKind::Manifests), ProfileType::Custom)
            )
        };
        let found = taken.iter().filter(|(folder, _)| own.contains(folder));
        let found: Vec<&(String, Vec<PackageFile>)> = found.collect();
        match found.iter().find(|(_, files)| is_match(files)) {
            Some((folder, files)) => {
                let place = format!("{COMPONENTS}{}", folder.trim_end_matches('/'));
                let built = match kind {
                    ProfileType::Helm => build::chart(files),
                    ProfileType::Custom => build::manifests(files, name, revision),
                    ProfileType::Compose => build::compose(files, name, revision),
                };
                match built {
                    Ok(artifact) => add(artifact, &place, repository, revision, target, plan, problems),
                    Err(found) => problems.extend(found.iter().map(|problem| format!("{place}/{problem}"))),
                }
            }
            // It may belong to another profile; unused folders are reported at the end.
            None => plan.elsewhere.push(format!("{name} ({repository}:{revision})")),
        }
    }
    let mut unused: Vec<String> = left.files.iter().map(|file| file.path.clone()).collect();
    for (folder, files) in &taken {
        let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
        if let Err(problem) = build::recognize(&paths) {
            problems.push(format!("{COMPONENTS}{folder}: {problem}"));
        }
    }
    unused.dedup_by_key(|path| path.split('/').next().map(str::to_owned));
    // A component with an unreadable name may be the one this folder belongs to.
    for path in unused.into_iter().filter(|_| outline.has_all_components) {
        let folder = path.split('/').next().unwrap_or_default();
        problems.push(format!("{COMPONENTS}{folder}: the description has no component `{folder}`"));
    }
    plan.elsewhere.dedup();
}

fn add(
    artifact: Artifact,
    place: &str,
    repository: &str,
    revision: &str,
    target: &Target,
    plan: &mut Plan,
    problems: &mut Vec<String>,
) {
    if artifact.tag != revision {
        problems.push(format!("{place}: its version is `{}`, but the description requires `{revision}`", artifact.tag));
        return;
    }
    let named = format!("{repository}:{revision}");
    let reference = match Reference::parse(&named) {
        Ok(reference) => reference,
        Err(problem) => return problems.push(format!("{place}: `{named}` {problem}")),
    };
    if artifact.kind == ArtifactKind::Chart && reference.repository.rsplit('/').next() != Some(&artifact.name) {
        plan.warnings
            .push(format!("{place}: the chart name is `{}`, but its repository is `{repository}`", artifact.name));
    }
    let (repository, stands_for) = if reference.host == target.host {
        (Some(reference.repository.clone()), None)
    } else if target.embedded {
        (mirror::repository(&reference.host, &reference.repository), Some(named.clone()))
    } else {
        problems.push(format!(
            "{place}: the description names registry `{}`, not `{}`; push it there separately, or skip components with --no-components",
            reference.host, target.host
        ));
        return;
    };
    let Some(repository) = repository else {
        return problems.push(format!("{place}: `{}` cannot be mirrored", reference.host));
    };
    let known = plan.steps.iter().any(|step| step.repository == repository && step.artifact.tag == artifact.tag);
    if !known {
        plan.steps.push(Planned { artifact, repository, stands_for });
    }
}
