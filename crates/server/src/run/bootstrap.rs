//! What a starting server writes: the first API token, so that it can be used and nobody else can use it, and that it is here.

use super::StartError;
use crate::config::Config;
use crate::state::ServerState;
use crate::{files, secrets};
use margrave_core::events::{About, NewEvent};
use margrave_core::model::{Actor, ApiToken};
use margrave_core::time::Timestamp;
use margrave_store::Store;

/// In the data folder, readable for its owner only.
pub const ADMIN_TOKEN_FILE: &str = "admin-token";

/// Makes the admin token while the store knows no token at all. The file is written first: a crash in between
/// leaves a secret the next start takes up, never a token nobody has the secret of.
pub(super) async fn admin_token(store: &Store, config: &Config, now: Timestamp) -> Result<(), StartError> {
    if !store.tokens().await?.is_empty() {
        return Ok(());
    }
    let path = config.data_dir.join(ADMIN_TOKEN_FILE);
    let failed = |source| StartError::DataFolder { path: config.data_dir.clone(), source };
    let held = match std::fs::read_to_string(&path) {
        Ok(text) => Some(text.trim().to_owned()).filter(|secret| secret.starts_with(secrets::API_TOKEN_PREFIX)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(source) => return Err(failed(source)),
    };
    let secret = match held {
        Some(secret) => secret,
        None => {
            let secret = secrets::generate(secrets::API_TOKEN_PREFIX);
            files::write_atomically(&path, format!("{secret}\n").as_bytes(), files::PRIVATE_FILE).map_err(failed)?;
            secret
        }
    };
    let actor = Actor { name: "system".to_owned(), reason: Some("first start".to_owned()), request_id: None };
    let token = ApiToken {
        id: uuid::Uuid::new_v4(),
        name: "admin".to_owned(),
        created_at: now,
        expires_at: None,
        revoked_at: None,
    };
    store.token_create(&actor, &token, &secrets::hash(&secret)).await?;
    tracing::info!(path = %path.display(), "made the admin token");
    Ok(())
}

/// Whoever follows the events sees that there was a pause.
pub(super) async fn announce(state: &ServerState) -> Result<(), StartError> {
    let version = env!("CARGO_PKG_VERSION");
    let message = format!("server `{}` {version} started", state.identity.wfm());
    let event = NewEvent::new("server.started", About::default(), message)
        .by("system")
        .with(serde_json::json!({ "version": version }));
    Ok(state.store.event_append(event, state.now()).await?)
}
