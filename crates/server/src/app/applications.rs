//! The application catalog for operators.

mod parameters;

use super::access::Caller;
use super::error::{AppError, AppResult, Code};
use super::lookup;
use super::paging::{Paging, page};
use super::summary;
use crate::catalog::registry_check;
use crate::state::ServerState;
use margo::description::ApplicationDescription;
use margo::ids::ApplicationId;
use margo::package::SKIPPED_FILE;
use margrave_api::applications as wire;
use margrave_api::lookup::LookupKind;
use margrave_api::page::Page;
use margrave_core::model::{ApplicationVersion, ResourceRef};
use std::collections::HashMap;
use std::sync::Arc;

/// Names cached; a catalog has a few dozen applications.
const NAMES_MAX: u32 = 10_000;

pub use parameters::parameters;
pub(crate) use parameters::rules;

pub(crate) fn application_id(text: &str) -> AppResult<ApplicationId> {
    text.parse().map_err(|error: margo::IdError| AppError::invalid("application", error.to_string()))
}

/// A version in the catalog with its description.
pub(crate) async fn described(
    state: &ServerState,
    application: &ApplicationId,
    version: &str,
) -> AppResult<(ApplicationVersion, Arc<ApplicationDescription>)> {
    let found = state.store.version_get(application, version).await?.ok_or_else(|| missing(application, version))?;
    let description = state.descriptions.get(&state.store, &found).await?;
    Ok((found, description))
}

pub async fn list(state: &ServerState, paging: &Paging) -> AppResult<Page<wire::Application>> {
    let limit = paging.limit()?;
    let after: Option<ApplicationId> = paging.after()?;
    let rows = state.store.applications_page(after.as_ref(), limit + 1).await?;
    let convert = |(newest, versions): (ApplicationVersion, u32)| wire::Application {
        id: newest.application.to_string(),
        name: newest.name,
        tagline: newest.tagline,
        vendor: newest.vendor,
        newest_version: newest.version,
        versions,
    };
    Ok(page(rows, limit, |(newest, _)| newest.application.to_string(), convert))
}

/// The display name of each application, by id.
pub async fn names(state: &ServerState) -> AppResult<HashMap<String, String>> {
    let named = state.store.application_names(NAMES_MAX).await?;
    Ok(named.into_iter().map(|one| (one.application.to_string(), one.name)).collect())
}

/// All versions of one application, newest import first; at least one.
pub async fn versions(state: &ServerState, id: &str) -> AppResult<Vec<wire::ApplicationVersion>> {
    let id = application_id(id)?;
    let versions = state.store.versions(&id).await?;
    if versions.is_empty() {
        return Err(lookup::unknown(state, LookupKind::Application, id.as_str()).await);
    }
    let mut shown = Vec::with_capacity(versions.len());
    for version in versions {
        let description = state.descriptions.get(&state.store, &version).await?;
        shown.push(to_wire(state, version, &description));
    }
    Ok(shown)
}

pub async fn get(state: &ServerState, id: &str) -> AppResult<wire::ApplicationDetail> {
    let shown = versions(state, id).await?;
    let name = shown.first().map(|newest| newest.name.clone()).unwrap_or_default();
    let id = application_id(id)?;
    let deployments = state.store.application_summary(&id, state.offline_before()).await?;
    let deployments = deployments.into_iter().map(|(version, counts)| (version, summary::counts(counts))).collect();
    Ok(wire::ApplicationDetail { id: id.to_string(), name, versions: shown, deployments })
}

pub async fn get_version(state: &ServerState, id: &str, version: &str) -> AppResult<wire::ApplicationVersion> {
    let (version, description) = described(state, &application_id(id)?, version).await?;
    Ok(to_wire(state, version, &description))
}

/// Checks again whether the registries have the components.
pub async fn check_components(state: &ServerState, id: &str, version: &str) -> AppResult<wire::ApplicationVersion> {
    if !state.config.catalog.check_registries {
        let detail = "registry checks are off; `catalog.check_registries` switches them on";
        return Err(AppError::refused(Code::NotFound, detail));
    }
    let (version, description) = described(state, &application_id(id)?, version).await?;
    registry_check::ask(state, &version.description_digest, &description, None, true).await;
    Ok(to_wire(state, version, &description))
}

pub async fn delete_version(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    version: &str,
    reason: Option<String>,
) -> AppResult<()> {
    let id = application_id(id)?;
    let deleted = state.store.version_delete(&caller.actor(reason), &id, version, state.now()).await?;
    if deleted { Ok(()) } else { Err(missing(&id, version)) }
}

/// Media type and bytes of an icon, license, description or release notes.
pub async fn resource(state: &ServerState, id: &str, version: &str, kind: &str) -> AppResult<(String, Vec<u8>)> {
    let id = application_id(id)?;
    let found = state.store.version_get(&id, version).await?.ok_or_else(|| missing(&id, version))?;
    let no_resource = || AppError::not_found(format_args!("resource `{kind}` of application `{id}` {version}"));
    let ResourceRef { digest, media_type, .. } =
        found.resources.into_iter().find(|resource| resource.kind == kind).ok_or_else(no_resource)?;
    let bytes = state.store.blob_get(&digest).await?.ok_or_else(no_resource)?;
    Ok((media_type, bytes))
}

fn missing(application: &ApplicationId, version: &str) -> AppError {
    AppError::not_found(format_args!("version `{version}` of application `{application}`"))
}

pub(crate) fn to_wire(
    state: &ServerState,
    version: ApplicationVersion,
    description: &ApplicationDescription,
) -> wire::ApplicationVersion {
    let check = registry_check::last_result(state, &version.description_digest);
    let profiles = description
        .deployment_profiles
        .iter()
        .map(|profile| wire::Profile {
            id: profile.id.clone(),
            profile_type: profile.profile_type.as_str().to_owned(),
            description: profile.description.clone(),
            components: profile.components.iter().map(|component| component.name.clone()).collect(),
        })
        .collect();
    let resources = version
        .resources
        .into_iter()
        .map(|ResourceRef { kind, path, media_type, digest: _ }| wire::Resource { kind, path, media_type })
        .collect();
    let (unneeded, mut warnings): (Vec<_>, Vec<_>) =
        version.warnings.into_iter().partition(|warning| skipped(warning).is_some());
    warnings.extend(check.iter().flat_map(|check| check.problems.iter().map(|problem| problem.text.clone())));
    let components_checked = check.map(|check| wire::ComponentsChecked {
        at: check.at.to_string(),
        artifacts: check.artifacts as u64,
        missing: check.missing() as u64,
        unknown: (check.problems.len() - check.missing()) as u64,
    });
    wire::ApplicationVersion {
        id: version.application.to_string(),
        version: version.version,
        name: version.name,
        tagline: version.tagline,
        vendor: version.vendor,
        package_digest: version.package_digest.to_string(),
        source: version.source,
        imported_at: version.imported_at.to_string(),
        profiles,
        resources,
        skipped: unneeded.iter().filter_map(|warning| skipped(warning)).map(str::to_owned).collect(),
        warnings,
        components_checked,
    }
}

/// The file that a warning names as not needed by the catalog, if it is such a warning.
fn skipped(warning: &str) -> Option<&str> {
    warning.strip_suffix(SKIPPED_FILE)?.strip_suffix("`: ")?.strip_prefix('`')
}

#[cfg(test)]
mod tests {
    use super::skipped;
    use margo::package::{PackageFile, read};

    #[test]
    fn separates_unneeded_files_from_other_warnings() {
        let yaml = include_bytes!("../../../../samples/line-monitor/1.1.0/margo.yaml");
        let file = |path: &str, bytes: &[u8]| PackageFile { path: path.to_owned(), bytes: bytes.to_vec() };
        let named = ["icon.svg", "description.md", "release-notes.md", "license.txt"];
        let mut files = vec![file("margo.yaml", yaml), file("components/a `b`.yaml", b"a: 1")];
        files.extend(named.iter().map(|name| file(&format!("resources/{name}"), b"text")));
        let warnings = read(&files).unwrap().warnings;
        let about: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let left: Vec<&str> = about.iter().filter_map(|warning| skipped(warning)).collect();
        assert_eq!(left, ["components/a `b`.yaml"], "{about:?}");
        assert_eq!(skipped("line 3: `metadata`: is old"), None);
    }
}
