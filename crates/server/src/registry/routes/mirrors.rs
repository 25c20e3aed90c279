//! Pulls by the original name of an artifact: how container runtimes use a mirror.
//!
//! - containerd and K3s request `press` with `?ns=registry.example`;
//! - Docker requests `library/nginx` and means its own registry;
//! - Podman and skopeo request the prefix in their configuration, which may omit `mirror/`.
//!
//! A namespace is binding: our own content of the same name is not what was requested. Without one, our own content
//! wins.

use super::Call;
use super::path::Route;
use crate::registry::Registry;
use crate::registry::error::{RegistryError, Result};
use crate::registry::names::RepositoryName;
use http::header::HOST;
use margrave_oci::mirror;

/// The same request for the mirrored repository.
pub(super) fn resolve(call: &Call, route: Route) -> Result<Route> {
    let in_repository = |name: RepositoryName| repository(call, name);
    Ok(match route {
        Route::Tags(name) => Route::Tags(in_repository(name)?),
        Route::Referrers(name, digest) => Route::Referrers(in_repository(name)?, digest),
        Route::Blob(name, digest) => Route::Blob(in_repository(name)?, digest),
        Route::Manifest(name, reference) => Route::Manifest(in_repository(name)?, reference),
        other @ (Route::Base | Route::Catalog | Route::Uploads(_) | Route::Upload(..)) => other,
    })
}

fn repository(call: &Call, name: RepositoryName) -> Result<RepositoryName> {
    let namespace = call.query("ns").filter(|namespace| !namespace.is_empty());
    // A request for our own content needs no mirror.
    let namespace = namespace.filter(|namespace| call.host().as_deref() != Some(namespace));
    match namespace {
        Some(namespace) => inside(&namespace, name),
        None => Ok(anywhere(&call.registry, name)),
    }
}

fn inside(namespace: &str, name: RepositoryName) -> Result<RepositoryName> {
    let whole = mirror::repository(namespace, "").is_some_and(|prefix| name.as_str().starts_with(&prefix));
    if whole {
        return Ok(name);
    }
    let mirrored = mirror::repository(namespace, name.as_str()).and_then(|text| text.parse().ok());
    mirrored.ok_or_else(|| RegistryError::RepositoryUnknown(name.to_string()))
}

fn anywhere(registry: &Registry, name: RepositoryName) -> RepositoryName {
    if registry.knows(&name) {
        return name;
    }
    let without_prefix = Some(format!("{}{name}", mirror::PREFIX));
    let candidates = [without_prefix, mirror::repository(mirror::DOCKER_HUB, name.as_str())];
    let candidates = candidates.into_iter().flatten().filter_map(|text| text.parse::<RepositoryName>().ok());
    candidates.into_iter().find(|candidate| registry.knows(candidate)).unwrap_or(name)
}

impl Call {
    /// Host and port that the client used.
    fn host(&self) -> Option<String> {
        let authority = self.parts.uri.authority().map(ToString::to_string);
        authority.or_else(|| self.header(&HOST).map(str::to_owned))
    }
}
