//! Clients and their manifests.

use crate::{Result, Store};
use margo::digest::Digest;
use margo::ids::{ClientId, DeploymentId};
use margrave_core::model::{Actor, Client, ClientState};
use margrave_core::time::Timestamp;

/// What the hot path keeps in memory for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub client: ClientId,
    pub state: ClientState,
    pub version: u64,
    pub digest: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenAt {
    pub client: ClientId,
    pub at: Timestamp,
}

impl Store {
    /// Creates a client with its first manifest (version 1, no deployments; DS-01, DS-02), or fails with `Exists`.
    pub async fn client_create(&self, actor: &Actor, id: &ClientId, state: ClientState, note: Option<&str>, now: Timestamp) -> Result<(Client, Head)> { let _ = (actor, id, state, note, now); todo!() }
    /// Moves a client to another state; `expected` is the revision the caller saw.
    pub async fn client_set_state(&self, actor: &Actor, id: &ClientId, state: ClientState, expected: Option<i64>, now: Timestamp) -> Result<(Client, Head)> { let _ = (actor, id, state, expected, now); todo!() }
    pub async fn client_get(&self, id: &ClientId) -> Result<Option<Client>> { let _ = id; todo!() }
    /// In order of id.
    pub async fn clients_page(&self, after: Option<&ClientId>, limit: u32) -> Result<Vec<Client>> { let _ = (after, limit); todo!() }
    /// Every client's head, for filling the memory at start: a page in order of id.
    pub async fn heads_page(&self, after: Option<&ClientId>, limit: u32) -> Result<Vec<Head>> { let _ = (after, limit); todo!() }
    /// The manifest as served: version, digest and exact bytes.
    pub async fn manifest(&self, client: &ClientId) -> Result<Option<(u64, Digest, Vec<u8>)>> { let _ = client; todo!() }
    /// One YAML of this client, current or recently replaced; `None` for anybody else's (GEN-09).
    pub async fn deployment_yaml(&self, client: &ClientId, deployment: DeploymentId, digest: &Digest) -> Result<Option<Vec<u8>>> { let _ = (client, deployment, digest); todo!() }
    /// One bundle of this client, current or recently replaced.
    pub async fn bundle(&self, client: &ClientId, digest: &Digest) -> Result<Option<Vec<u8>>> { let _ = (client, digest); todo!() }
    /// Writes last-seen times in one transaction, away from the client rows; an older time never replaces a newer one.
    pub async fn seen_write(&self, seen: &[SeenAt]) -> Result<()> { let _ = seen; todo!() }
}
