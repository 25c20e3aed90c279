//! Application packages from a folder, an OCI layout or an OCI registry.

mod descriptions;
mod layout;
pub(crate) mod registry;
pub(crate) mod registry_check;
mod upload;

pub use descriptions::Descriptions;
pub use registry_check::RegistryChecks;
pub use upload::{UPLOAD_BYTES_MAX, UploadNote};
pub(crate) use upload::{too_large, too_large_words};

use crate::app::access::Caller;
use crate::app::applications;
use crate::app::error::{AppError, AppResult};
use crate::state::ServerState;
use bytes::Bytes;
use margo::digest::Digest;
use margo::finding::Finding;
use margo::package::{Package, ResourceKind};
use margrave_api::applications::{ImportApplication, Imported};
use margrave_api::registries::RegistryUse;
use margrave_core::model::{Actor, ApplicationVersion, ResourceRef};
use margrave_store::StoreError;

/// A valid package.
#[derive(Debug, Clone)]
pub(crate) struct ValidPackage {
    pub(crate) package: Package,
    /// Digest of its OCI manifest.
    digest: Digest,
    warnings: Vec<String>,
}

/// Adds an uploaded package.
pub async fn upload(
    state: &ServerState,
    caller: &Caller,
    archive: Bytes,
    note: UploadNote,
    reason: Option<String>,
) -> AppResult<Imported> {
    let source = note.source_text()?;
    let found = tokio::task::spawn_blocking(move || upload::read(&archive, note.reference.as_deref()))
        .await
        .map_err(AppError::Task)??;
    check_components(state, &found, None).await;
    add_package(state, &caller.actor(reason), Some(caller), found, source).await
}

/// Pulls a package from a registry and adds it. Given credentials are used for this and not stored; without any,
/// the stored ones of the registry are used.
pub async fn import(state: &ServerState, caller: &Caller, body: ImportApplication) -> AppResult<Imported> {
    let reason = body.comment.clone();
    let (source, found) = registry::pull(state, body).await?;
    check_components(state, &found, Some(&source)).await;
    let reference = source.reference.to_string();
    add_package_from(state, &caller.actor(reason), Some(caller), found, reference, Some(source.used)).await
}

/// Checks whether registries have the components of a package, for its warnings.
pub(crate) async fn check_components(state: &ServerState, found: &ValidPackage, source: Option<&registry::Source>) {
    let Package { description, description_bytes, .. } = &found.package;
    registry_check::ask(state, &Digest::of(description_bytes), description, source, false).await;
}

/// Fails as [`add_package`] would, for callers with expensive work before it.
pub(crate) async fn check(state: &ServerState, found: &ValidPackage, source: &str) -> AppResult<()> {
    let (version, _) = version_of(state, found.clone(), source.to_owned());
    match state.store.version_get(&version.application, &version.version).await? {
        Some(known) if !same_content(&known, &version) => Err(other_content(&version)),
        _ => Ok(()),
    }
}

fn other_content(version: &ApplicationVersion) -> AppError {
    let what = format!("`{}` {}, with other content,", version.application, version.version);
    StoreError::Exists { what }.into()
}

/// Adds a package to the catalog; adding the same one again is allowed. The caller owns the idempotent answer.
pub(crate) async fn add_package(
    state: &ServerState,
    actor: &Actor,
    caller: Option<&Caller>,
    found: ValidPackage,
    source: String,
) -> AppResult<Imported> {
    add_package_from(state, actor, caller, found, source, None).await
}

async fn add_package_from(
    state: &ServerState,
    actor: &Actor,
    caller: Option<&Caller>,
    found: ValidPackage,
    source: String,
    registry: Option<RegistryUse>,
) -> AppResult<Imported> {
    let description = found.package.description.clone();
    let (version, blobs) = version_of(state, found, source);
    let made =
        Imported { added: true, application: applications::to_wire(state, version.clone(), &description), registry };
    let store = caller.map_or_else(|| state.store.clone(), |caller| caller.store(state, &made));
    let added = match store.version_add(actor, &version, &blobs).await {
        // The same content from another source has another manifest, and is still the same package.
        Err(StoreError::Exists { what }) => {
            match state.store.version_get(&version.application, &version.version).await? {
                Some(known) if same_content(&known, &version) => false,
                _ => return Err(StoreError::Exists { what: format!("{what}, with other content,") }.into()),
            }
        }
        other => other?,
    };
    if added {
        return Ok(made);
    }
    let (stored, description) = applications::described(state, &version.application, &version.version).await?;
    Ok(Imported { added, application: applications::to_wire(state, stored, &description), registry: made.registry })
}

/// The version of a package, and its blobs.
fn version_of(
    state: &ServerState,
    found: ValidPackage,
    source: String,
) -> (ApplicationVersion, Vec<(Digest, Vec<u8>)>) {
    let ValidPackage { package, digest, warnings } = found;
    let Package { description, description_bytes, resources } = package;
    let description_digest = Digest::of(&description_bytes);
    let mut blobs = vec![(description_digest.clone(), description_bytes)];
    let mut references = Vec::with_capacity(resources.len());
    for resource in resources {
        let digest = Digest::of(&resource.bytes);
        references.push(ResourceRef {
            kind: kind(resource.kind).to_owned(),
            path: resource.path,
            media_type: resource.media_type,
            digest: digest.clone(),
        });
        blobs.push((digest, resource.bytes));
    }
    let organizations: Vec<&str> =
        description.metadata.catalog.organization.iter().map(|organization| organization.name.as_str()).collect();
    let version = ApplicationVersion {
        application: description.id.clone(),
        version: description.metadata.version.clone(),
        name: description.metadata.name.clone(),
        tagline: description.metadata.catalog.application.as_ref().and_then(|known| known.tagline.clone()),
        vendor: organizations.join(", "),
        package_digest: digest,
        description_digest,
        source,
        resources: references,
        warnings,
        imported_at: state.now(),
    };
    (version, blobs)
}

fn same_content(one: &ApplicationVersion, other: &ApplicationVersion) -> bool {
    let digests = |version: &ApplicationVersion| {
        let mut list: Vec<(String, Digest)> =
            version.resources.iter().map(|resource| (resource.kind.clone(), resource.digest.clone())).collect();
        list.sort();
        list
    };
    one.description_digest == other.description_digest && digests(one) == digests(other)
}

fn kind(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Icon => "icon",
        ResourceKind::DescriptionFile => "descriptionFile",
        ResourceKind::LicenseFile => "licenseFile",
        ResourceKind::ReleaseNotes => "releaseNotes",
    }
}

fn texts(warnings: &[Finding]) -> impl Iterator<Item = String> + '_ {
    warnings.iter().map(ToString::to_string)
}
