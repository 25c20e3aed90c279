//! One-time enrolment tokens: only their SHA-256 is kept.

use crate::{Result, Store};
use margo::ids::ClientId;
use margrave_core::model::Actor;
use margrave_core::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnrolmentUse {
    /// The client this token enrols; the client row is there (accepted) afterwards.
    Granted(ClientId),
    Unknown,
    Expired,
    /// Used by another key, or by the same key too long ago.
    Used,
}

impl Store {
    pub async fn enrolment_create(&self, actor: &Actor, secret_hash: &str, client: &ClientId, expires_at: Timestamp, now: Timestamp) -> Result<()> { let _ = (actor, secret_hash, client, expires_at, now); todo!() }
    /// Uses a token for the key with this hash. The same key may come again until `retry_until` after the first use
    /// (an answer can get lost); a second key never may.
    pub async fn enrolment_use(&self, secret_hash: &str, key_hash: &str, retry_window: std::time::Duration, now: Timestamp) -> Result<EnrolmentUse> { let _ = (secret_hash, key_hash, retry_window, now); todo!() }
}
