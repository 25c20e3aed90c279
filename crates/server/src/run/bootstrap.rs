//! What a starting server writes: the initial API token and password, so that it is usable and secure from the start,
//! and an event.

use super::StartError;
use crate::app::passwords::{ADMIN, Hashing};
use crate::config::Config;
use crate::state::ServerState;
use crate::{files, secrets};
use margrave_core::events::{About, NewEvent};
use margrave_core::model::{Actor, ApiToken};
use margrave_core::time::Timestamp;
use margrave_store::{Operator, Store};
use secrecy::SecretString;
use std::path::Path;

/// In the data folder, readable for its owner only.
pub const ADMIN_TOKEN_FILE: &str = "admin-token";
/// Next to it, until the password is changed.
pub const ADMIN_PASSWORD_FILE: &str = "admin-password";

/// Creates the admin token if the store has no token. The file is written first: a crash in between
/// leaves a secret that the next start uses, never a token without a known secret.
pub(super) async fn admin_token(store: &Store, config: &Config, now: Timestamp) -> Result<(), StartError> {
    if !store.tokens().await?.is_empty() {
        return Ok(());
    }
    let path = config.data_dir.join(ADMIN_TOKEN_FILE);
    let failed = |source| StartError::DataFolder { path: config.data_dir.clone(), source };
    let is_one = |text: &str| text.starts_with(secrets::API_TOKEN_PREFIX);
    let secret = held(&path, is_one, || secrets::generate(secrets::API_TOKEN_PREFIX)).map_err(failed)?;
    let token = ApiToken {
        id: uuid::Uuid::new_v4(),
        name: "admin".to_owned(),
        created_at: now,
        expires_at: None,
        revoked_at: None,
    };
    store.token_create(&first_start(), &token, &secrets::hash(&secret)).await?;
    tracing::info!(path = %path.display(), "created the admin token");
    Ok(())
}

/// Creates the operator `admin` with a password if the store has no operator, in the same order as the token.
pub(super) async fn admin(store: &Store, config: &Config, hashing: &Hashing, now: Timestamp) -> Result<(), StartError> {
    if !store.operators().await?.is_empty() {
        return Ok(());
    }
    let path = config.data_dir.join(ADMIN_PASSWORD_FILE);
    let failed = |source| StartError::DataFolder { path: config.data_dir.clone(), source };
    let is_one = |text: &str| crate::app::passwords::good(ADMIN, &SecretString::from(text)).is_ok();
    let password = held(&path, is_one, secrets::password).map_err(failed)?;
    let hash = hashing.hash(SecretString::from(password)).await.map_err(StartError::Password)?;
    let id = uuid::Uuid::new_v4();
    let operator = Operator { id, name: ADMIN.to_owned(), created_at: now, password_at: now };
    store.operator_create(&first_start(), &operator, &hash).await?;
    tracing::info!(path = %path.display(), "created the operator `{ADMIN}` with a password");
    Ok(())
}

fn first_start() -> Actor {
    Actor { name: "system".to_owned(), comment: Some("first start".to_owned()), request_id: None }
}

/// The secret in the file, if valid; otherwise a new one, which is then in the file.
fn held(path: &Path, is_one: impl Fn(&str) -> bool, make: impl Fn() -> String) -> std::io::Result<String> {
    match std::fs::read_to_string(path) {
        Ok(text) if is_one(text.trim()) => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let secret = make();
    files::write_atomically(path, format!("{secret}\n").as_bytes(), files::PRIVATE_FILE)?;
    Ok(secret)
}

/// Makes a restart visible in the events.
pub(super) async fn announce(state: &ServerState) -> Result<(), StartError> {
    let version = env!("CARGO_PKG_VERSION");
    let data = serde_json::json!({ "server": state.identity.wfm().to_string(), "version": version });
    let event = NewEvent::new("server.started", About::default()).by("system").with(data);
    Ok(state.store.event_append(event, state.now()).await?)
}
