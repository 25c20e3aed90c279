//! Application packages: from a folder, an OCI layout, an OCI registry.

mod descriptions;
mod layout;
mod registry;
mod upload;

pub use descriptions::Descriptions;
pub use upload::{UPLOAD_BYTES_MAX, UploadNote};

use crate::app::access::Caller;
use crate::app::applications;
use crate::app::error::{AppError, AppResult};
use crate::state::ServerState;
use bytes::Bytes;
use margo::digest::Digest;
use margo::finding::Finding;
use margo::package::{Package, ResourceKind};
use margrave_api::applications::{ImportApplication, Imported};
use margrave_core::model::{ApplicationVersion, ResourceRef};
use margrave_store::StoreError;

/// A package that was read and found good.
#[derive(Debug)]
struct Found {
    package: Package,
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
    add(state, caller, found, source, reason).await
}

/// Pulls a package from a registry and adds it. Credentials are used for this and then forgotten.
pub async fn import(state: &ServerState, caller: &Caller, body: ImportApplication) -> AppResult<Imported> {
    let reason = body.reason.clone();
    let (reference, found) = registry::pull(body).await?;
    add(state, caller, found, reference, reason).await
}

async fn add(
    state: &ServerState,
    caller: &Caller,
    found: Found,
    source: String,
    reason: Option<String>,
) -> AppResult<Imported> {
    let Found { package, digest, warnings } = found;
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
    let made = Imported { added: true, application: applications::to_wire(version.clone(), &description) };
    let added = match caller.store(state, &made).version_add(&caller.actor(reason), &version, &blobs).await {
        // The same content from another place has another manifest, and is still the same package.
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
    let (kept, description) = applications::described(state, &version.application, &version.version).await?;
    Ok(Imported { added, application: applications::to_wire(kept, &description) })
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
