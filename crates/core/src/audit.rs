//! The audit chain: every record carries the hash of the one before it.

use crate::model::AuditRecord;

/// Hash before the first record.
pub const GENESIS: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// Hash of a record: SHA-256 over the canonical JSON of everything but `hash` itself.
pub fn hash(record: &AuditRecord) -> String {
    let _ = record;
    todo!()
}
