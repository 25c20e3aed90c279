//! The embedded registry for operators, and the pull credentials of clients.

use super::access::Caller;
use super::clients::client_id;
use super::error::{AppError, AppResult, Code};
use super::idempotency::expired_before;
use super::paging::{Paging, page};
use crate::registry::hosted::Hosted;
use crate::registry::{Raise, RegistryError, RepositoryName, Usage};
use crate::state::ServerState;
use margo::ids::ClientId;
use margrave_api::page::Page;
use margrave_api::registry as wire;
use margrave_core::model::ClientState;
use secrecy::{ExposeSecret as _, SecretString};
use std::sync::Arc;

fn hosted(state: &ServerState) -> AppResult<&Arc<Hosted>> {
    let off = || AppError::refused(Code::NotFound, "the embedded registry is off; `registry.enabled` switches it on");
    state.registry.as_ref().ok_or_else(off)
}

/// Host and port, as in image references and for `docker login`.
pub fn address(state: &ServerState) -> String {
    let url = &state.urls.trust;
    url.strip_prefix("https://").unwrap_or(url).split('/').next().unwrap_or_default().to_owned()
}

pub fn get(state: &ServerState) -> AppResult<wire::Registry> {
    let Usage { bytes, blobs, manifests, tags } = hosted(state)?.registry.usage(None).unwrap_or_default();
    let settings = &state.config.registry;
    Ok(wire::Registry {
        address: address(state),
        bytes,
        bytes_max: settings.bytes_max,
        repository_bytes_max: settings.repository_bytes_max,
        blobs: blobs as u64,
        manifests: manifests as u64,
        tags: tags as u64,
    })
}

pub fn repositories(state: &ServerState, paging: &Paging) -> AppResult<Page<wire::Repository>> {
    let registry = &hosted(state)?.registry;
    let limit = paging.limit()?;
    let after: Option<RepositoryName> = paging.after()?;
    let names = registry.repositories(after.as_ref(), limit as usize + 1).items;
    Ok(page(names, limit, ToString::to_string, |name| {
        // A repository that was garbage-collected in the meantime is empty.
        let Usage { bytes, blobs, manifests, tags } = registry.usage(Some(&name)).unwrap_or_default();
        wire::Repository {
            name: name.to_string(),
            bytes,
            blobs: blobs as u64,
            manifests: manifests as u64,
            tags: tags as u64,
        }
    }))
}

/// Runs garbage collection now instead of at its interval.
pub async fn collect(state: &ServerState) -> AppResult<wire::Collection> {
    let collected = hosted(state)?.registry.collect().await.map_err(failed)?;
    Ok(wire::Collection {
        blobs: collected.blobs as u64,
        bytes: collected.bytes,
        uploads: collected.uploads as u64,
        repositories: collected.repositories as u64,
    })
}

pub async fn pull_credentials(state: &ServerState, id: &str) -> AppResult<wire::PullCredentials> {
    let hosted = hosted(state)?;
    let client = pulling(state, id).await?;
    Ok(credentials(state, &client, &hosted.pull.password(client.as_str())))
}

/// Replaces a client's password.
pub async fn replace_pull_credentials(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    body: wire::ReplacePullCredentials,
) -> AppResult<wire::PullCredentials> {
    let hosted = Arc::clone(hosted(state)?);
    let client = pulling(state, id).await?;
    // The generation and the key that raised it are in one file, so a crash cannot separate them.
    let by = caller.call.as_ref().map(|call| Raise { key: call.fingerprint(), at: state.now() });
    let known = by.as_ref().and_then(|by| hosted.pull.raised_by(client.as_str(), &by.key, expired_before(state)));
    if let Some(password) = known {
        return Ok(credentials(state, &client, &password));
    }
    let subject = format!("client/{client}");
    let actor = caller.actor(body.comment);
    state.store.audit_append(&actor, "client.pull-credentials", &subject, None, state.now()).await?;
    let name = client.to_string();
    let rotated = tokio::task::spawn_blocking(move || hosted.pull.rotate(&name, by)).await.map_err(AppError::Task)?;
    let password = rotated.map_err(|source| {
        failed(RegistryError::Storage { attempt: "write the generations of pull credentials", source })
    })?;
    Ok(credentials(state, &client, &password))
}

/// The pull credentials of an accepted client, for the client itself; `None` when the registry is off.
pub fn for_client(state: &ServerState, client: &ClientId) -> Option<wire::PullCredentials> {
    let password = state.registry.as_ref()?.pull.password(client.as_str());
    Some(credentials(state, client, &password))
}

/// A client that may pull.
async fn pulling(state: &ServerState, id: &str) -> AppResult<ClientId> {
    let id = client_id(id)?;
    let client = state.store.client_get(&id).await?;
    let client = client.ok_or_else(|| AppError::not_found(format_args!("client `{id}`")))?;
    if client.state != ClientState::Accepted {
        let detail = format!("client `{id}` is not accepted; accept it first, then it can pull");
        return Err(AppError::refused(Code::Invalid, detail));
    }
    Ok(id)
}

fn credentials(state: &ServerState, client: &ClientId, password: &SecretString) -> wire::PullCredentials {
    wire::PullCredentials {
        address: address(state),
        user: client.to_string(),
        password: password.expose_secret().to_owned(),
    }
}

fn failed(error: RegistryError) -> AppError {
    let source = std::error::Error::source(&error).map(ToString::to_string);
    tracing::error!(%error, source, "registry error");
    AppError::refused(Code::Internal, "the registry failed; see the log of the server")
}
