//! The audit chain: append-only, hash-chained, in the same transaction as the change.

use crate::{Result, Store};
use margrave_core::model::{Actor, AuditRecord};
use margrave_core::time::Timestamp;

impl Store {
    /// For events without a row of their own, such as a server start.
    pub async fn audit_append(&self, actor: &Actor, action: &str, subject: &str, after: Option<serde_json::Value>, now: Timestamp) -> Result<AuditRecord> { let _ = (actor, action, subject, after, now); todo!() }
    /// Newest first, below `before`; optionally of one subject.
    pub async fn audit_page(&self, subject: Option<&str>, before: Option<i64>, limit: u32) -> Result<Vec<AuditRecord>> { let _ = (subject, before, limit); todo!() }
    /// Walks the whole chain; `Ok(Err(seq))` names the first record that does not fit.
    pub async fn audit_verify(&self) -> Result<std::result::Result<u64, i64>> { todo!() }
}
