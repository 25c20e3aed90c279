//! The audit chain: every record carries the hash of the one before it.

#[cfg(test)]
mod tests;

use crate::model::AuditRecord;
use margo::digest::Digest;
use serde_json::json;

/// Hash before the first record.
pub const GENESIS: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// Hash of a record: SHA-256 over the canonical JSON of everything but `hash` itself.
pub fn hash(record: &AuditRecord) -> String {
    // Destructured without `..`, so that a new field cannot be forgotten here.
    let AuditRecord { seq, at, actor, comment, request_id, action, subject, before, after, previous_hash, hash: _ } =
        record;
    let document = json!({
        "seq": seq,
        "at": at.0,
        "actor": actor,
        "comment": comment,
        "requestId": request_id,
        "action": action,
        "subject": subject,
        "before": before,
        "after": after,
        "previousHash": previous_hash,
    });
    let bytes =
        serde_json_canonicalizer::to_vec(&document).expect("a JSON value has no keys or numbers JSON cannot hold");
    Digest::of(&bytes).to_string()
}
