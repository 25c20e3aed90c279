//! Every client's policy and manifest head in memory; readers never wait for a writer.

use margo::ids::ClientId;
use margrave_core::time::Timestamp;
use margrave_store::{Head, SeenAt};
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct Heads {}

impl Heads {
    /// The head of a client, or `None` for one nobody has created.
    pub fn get(&self, client: &ClientId) -> Option<Arc<Head>> {
        let _ = client;
        todo!()
    }
    /// Takes a new head; an older version never replaces a newer one.
    pub fn put(&self, head: Head) {
        let _ = head;
        todo!()
    }
    /// Remembers that a client was heard of; written to the store in batches.
    pub fn seen(&self, client: &ClientId, at: Timestamp) {
        let _ = (client, at);
        todo!()
    }
    /// The freshest time a client was heard of, if it is fresher than what the store has.
    pub fn last_seen(&self, client: &ClientId) -> Option<Timestamp> {
        let _ = client;
        todo!()
    }
    /// Seen times not yet written.
    pub fn drain_seen(&self) -> Vec<SeenAt> {
        todo!()
    }
}
