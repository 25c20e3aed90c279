//! Operator API tokens: only their SHA-256 is kept.

use crate::{Result, Store};
use margrave_core::model::{Actor, ApiToken};
use margrave_core::time::Timestamp;
use uuid::Uuid;

impl Store {
    pub async fn token_create(&self, actor: &Actor, token: &ApiToken, secret_hash: &str) -> Result<()> { let _ = (actor, token, secret_hash); todo!() }
    /// A token that is neither revoked nor expired.
    pub async fn token_find(&self, secret_hash: &str, now: Timestamp) -> Result<Option<ApiToken>> { let _ = (secret_hash, now); todo!() }
    pub async fn tokens(&self) -> Result<Vec<ApiToken>> { todo!() }
    pub async fn token_revoke(&self, actor: &Actor, id: Uuid, now: Timestamp) -> Result<bool> { let _ = (actor, id, now); todo!() }
}
