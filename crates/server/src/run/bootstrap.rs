//! What a starting server writes: the first API token and the first password, so that it can be used and nobody else can use it,
//! and that it is here.

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
/// Beside it, until the password is changed.
pub const ADMIN_PASSWORD_FILE: &str = "admin-password";

/// Makes the admin token while the store knows no token at all. The file is written first: a crash in between
/// leaves a secret the next start takes up, never a token nobody has the secret of.
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
    tracing::info!(path = %path.display(), "made the admin token");
    Ok(())
}

/// Makes the operator `admin` with a password while the store knows no operator at all, in the same order as the token.
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
    tracing::info!(path = %path.display(), "made the operator `{ADMIN}` with a password");
    Ok(())
}

fn first_start() -> Actor {
    Actor { name: "system".to_owned(), reason: Some("first start".to_owned()), request_id: None }
}

/// What the file holds, if it is one; else a new one, which is in the file afterwards.
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

/// Whoever follows the events sees that there was a pause.
pub(super) async fn announce(state: &ServerState) -> Result<(), StartError> {
    let version = env!("CARGO_PKG_VERSION");
    let message = format!("server `{}` {version} started", state.identity.wfm());
    let event = NewEvent::new("server.started", About::default(), message)
        .by("system")
        .with(serde_json::json!({ "version": version }));
    Ok(state.store.event_append(event, state.now()).await?)
}
