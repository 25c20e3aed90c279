//! Maintenance of a server's data while no server runs: resets a forgotten password without a token.

use super::{ADMIN_PASSWORD_FILE, StartError, addresses};
use crate::app::error::{AppError, Code};
use crate::app::passwords::{ADMIN, Hashing, good};
use crate::config::Config;
use margrave_core::model::Actor;
use margrave_core::time::Clock;
use margrave_store::{Operator, Store, StoreOptions};
use secrecy::SecretString;
use uuid::Uuid;

/// Sets the password of an operator and ends all of their web sessions; returns their number. Creates the operator
/// `admin` if there is none yet. Requires write access to the data folder.
pub async fn set_password(
    config: &Config,
    clock: &dyn Clock,
    name: &str,
    password: SecretString,
) -> Result<u64, StartError> {
    good(name, &password).map_err(StartError::Password)?;
    let _lock = addresses::take(config)?;
    let store = Store::open(&StoreOptions { url: config.store_url(), readers: 1 }).await?;
    let hash = Hashing::default().hash(password).await.map_err(StartError::Password)?;
    let (now, name) = (clock.now(), name.trim().to_lowercase());
    let reason = Some("set on the server's machine".to_owned());
    let actor = Actor { name: "system".to_owned(), comment: reason, request_id: None };
    let ended = match store.operator_password(&actor, &name, &hash, None, now).await? {
        Some(ended) => ended,
        None if name == ADMIN => {
            let operator = Operator { id: Uuid::new_v4(), name: name.clone(), created_at: now, password_at: now };
            store.operator_create(&actor, &operator, &hash).await?;
            0
        }
        None => {
            let detail = format!("operator `{name}` does not exist; omit the name for `{ADMIN}`");
            return Err(StartError::Password(AppError::refused(Code::NotFound, detail)));
        }
    };
    store.close().await;
    if name == ADMIN {
        // It contained the initial password, which is no longer valid.
        let _ = std::fs::remove_file(config.data_dir.join(ADMIN_PASSWORD_FILE));
    }
    Ok(ended)
}
