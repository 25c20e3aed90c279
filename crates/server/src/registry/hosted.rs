//! The registry as part of the server: opened from its settings, available to operators and accepted clients.

use super::auth::{Access, Action, Credentials, RegistryAuth, Rollout};
use super::names::RepositoryName;
use super::pull::{PULL_PREFIX, PullCredentials};
use super::{OpenError, Registry, RegistryError, RegistryOptions, router};
use crate::app::access;
use crate::config::Config;
use crate::copies::Copies;
use crate::state::ServerState;
use axum::Router;
use futures_util::future::BoxFuture;
use margo::ids::ClientId;
use margrave_core::model::{Actor, ClientState};
use margrave_core::time::Clock;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Folder of the registry, inside the data folder.
const FOLDER: &str = "registry";

/// The embedded registry, the pull credentials of devices, and the copies.
pub struct Hosted {
    pub registry: Registry,
    pub pull: PullCredentials,
    /// Copies from external registries.
    pub copies: Copies,
}

#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("read the pull credentials in `{}`", folder.display())]
    Pull {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Hosted {
    /// Opens the registry unless it is switched off.
    pub async fn open(config: &Config, clock: &Arc<dyn Clock>) -> Result<Option<Arc<Self>>, HostError> {
        let settings = &config.registry;
        if !settings.enabled {
            return Ok(None);
        }
        let folder = config.data_dir.join(FOLDER);
        let options = RegistryOptions {
            bytes_max: settings.bytes_max,
            repository_bytes_max: settings.repository_bytes_max,
            blob_bytes_max: settings.blob_bytes_max,
            uploads_at_once: settings.uploads_at_once,
            uploads_open_max: settings.uploads_open_max,
            upload_expiry: settings.upload_expiry.0,
            grace: settings.unreferenced_blobs.0,
            gc_every: settings.gc_every.0,
            ..RegistryOptions::new(&folder)
        };
        let registry = Registry::open(options, Arc::clone(clock)).await?;
        let pull = PullCredentials::open(&folder).map_err(|source| HostError::Pull { folder, source })?;
        Ok(Some(Arc::new(Self { registry, pull, copies: Copies::default() })))
    }
}

/// The routes under `/v2`, or none when the registry is off.
pub fn routes(state: &ServerState) -> Router {
    match &state.registry {
        Some(hosted) => router(hosted.registry.clone(), Arc::new(ServerAuth(state.clone()))),
        None => Router::new(),
    }
}

/// Operators have full access with their API token; accepted clients pull with derived credentials.
struct ServerAuth(ServerState);

impl RegistryAuth for ServerAuth {
    fn authorize<'a>(
        &'a self,
        credentials: Option<&'a Credentials>,
        action: Action,
        _: Option<&'a RepositoryName>,
    ) -> BoxFuture<'a, Access> {
        Box::pin(async move {
            match credentials {
                Some(Credentials::Basic { user, password }) if password.expose_secret().starts_with(PULL_PREFIX) => {
                    self.client(user, password, action)
                }
                Some(Credentials::Basic { password: secret, .. } | Credentials::Bearer(secret)) => {
                    self.operator(secret).await
                }
                None => Access::Unknown,
            }
        })
    }

    fn record(&self, rollout: Rollout) -> BoxFuture<'_, Result<(), RegistryError>> {
        Box::pin(async move {
            let Rollout { who, action, repository, reference, digest } = rollout;
            let state = &self.0;
            let actor = Actor { name: who, comment: None, request_id: None };
            let after = json!({ "reference": reference, "digest": digest.map(|digest| digest.to_string()) });
            let subject = format!("repository/{repository}");
            let recorded = state.store.audit_append(&actor, action, &subject, Some(after), state.now()).await;
            recorded.map(drop).map_err(|error| {
                state.metrics.store_error();
                let (error, who) = (&error as &dyn std::error::Error, actor.name);
                tracing::error!(error, %repository, reference, who, action, "cannot record a change of the registry");
                RegistryError::Unrecorded
            })
        })
    }
}

impl ServerAuth {
    async fn operator(&self, secret: &SecretString) -> Access {
        match access::authenticate(&self.0, secret.expose_secret()).await {
            Ok(Some(token)) => Access::Granted(format!("token:{}", token.name)),
            Ok(None) => Access::Unknown,
            Err(error) => {
                self.0.metrics.store_error();
                tracing::error!(error = &error as &dyn std::error::Error, "cannot check a token for the registry");
                Access::Unavailable
            }
        }
    }

    /// From memory only: pulls of a fleet do not load the database.
    fn client(&self, user: &str, password: &SecretString, action: Action) -> Access {
        let Some(hosted) = &self.0.registry else { return Access::Unknown };
        let Ok(client) = user.parse::<ClientId>() else { return Access::Unknown };
        let state = self.0.heads.get(&client).map(|head| head.state);
        if !hosted.pull.verify(user, password) || state != Some(ClientState::Accepted) {
            return Access::Unknown;
        }
        match action {
            Action::Pull => Access::Granted(format!("client:{client}")),
            Action::Push | Action::Delete | Action::Admin => {
                Access::Denied("devices may only pull; push and delete with an operator's API token".to_owned())
            }
        }
    }
}
