//! Clients and their manifests.

use crate::audit::{self, Entry};
use crate::batched::select_in;
use crate::error::During;
use crate::open::commit;
use crate::rows::{Columns, version_column};
use crate::{Result, Store, StoreError, blobs};
use margo::digest::Digest;
use margo::ids::{ClientId, DeploymentId};
use margrave_core::model::{Actor, Client, ClientState};
use margrave_core::publish;
use margrave_core::time::Timestamp;
use serde_json::json;
use sqlx::AnyConnection;
use sqlx::any::AnyRow;
use std::collections::BTreeSet;

/// What the manifest cache keeps in memory for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub client: ClientId,
    pub state: ClientState,
    /// Revision of the client row: orders two heads that differ in `state`, as `version` orders two that differ in
    /// content.
    pub revision: i64,
    pub version: u64,
    pub digest: Digest,
}

macro_rules! select_client {
    ($rest:literal) => {
        concat!(
            "SELECT c.id, c.state, c.note, c.created_at, c.revision, s.seen_at, m.version, m.digest
             FROM clients c JOIN manifests m ON m.client_id = c.id LEFT JOIN client_seen s ON s.client_id = c.id ",
            $rest
        )
    };
}

mod search;
mod sorted;
mod pending;

pub use search::ClientSearch;

fn read(row: &AnyRow) -> Result<(Client, Head)> {
    let row = Columns::of("clients", row);
    let id: ClientId = row.parsed("id")?;
    let state = row.named("state", ClientState::parse)?;
    let version = row.unsigned("version")?;
    let revision = row.number("revision")?;
    let head = Head { client: id.clone(), state, revision, version, digest: row.parsed("digest")? };
    let client = Client {
        id,
        state,
        note: row.text_maybe("note")?,
        created_at: row.time("created_at")?,
        last_seen_at: row.time_maybe("seen_at")?,
        manifest_version: version,
        revision,
    };
    Ok((client, head))
}

async fn read_one(connection: &mut AnyConnection, id: &ClientId) -> Result<Option<(Client, Head)>> {
    let row = sqlx::query(select_client!("WHERE c.id = $1"))
        .bind(id.as_str())
        .fetch_optional(connection)
        .await
        .during("read a client")?;
    row.as_ref().map(read).transpose()
}

/// Inserts a client with its first manifest; false if it already exists.
pub(crate) async fn insert(
    connection: &mut AnyConnection,
    id: &ClientId,
    state: ClientState,
    note: Option<&str>,
    now: Timestamp,
) -> Result<bool> {
    let inserted = sqlx::query(
        "INSERT INTO clients (id, state, note, created_at, revision) VALUES ($1, $2, $3, $4, 1) ON CONFLICT (id) DO NOTHING",
    )
    .bind(id.as_str())
    .bind(state.as_str())
    .bind(note)
    .bind(now.0)
    .execute(&mut *connection)
    .await
    .during("create a client")?;
    if inserted.rows_affected() == 0 {
        return Ok(false);
    }
    // DS-01, DS-02: a client without any assignment has version 1 without deployments.
    let first = publish::next(0, &[])?;
    sqlx::query(
        "INSERT INTO manifests (client_id, version, digest, body, bundle_digest, published_at)
         VALUES ($1, $2, $3, $4, NULL, $5)",
    )
    .bind(id.as_str())
    .bind(version_column(first.version)?)
    .bind(first.digest.as_str())
    .bind(first.body)
    .bind(now.0)
    .execute(connection)
    .await
    .during("write the first manifest of a client")?;
    Ok(true)
}

/// Locks the row for the rest of the transaction and returns its state and revision.
pub(crate) async fn lock(connection: &mut AnyConnection, id: &ClientId) -> Result<Option<(ClientState, i64)>> {
    let row = sqlx::query("UPDATE clients SET revision = revision WHERE id = $1 RETURNING state, revision")
        .bind(id.as_str())
        .fetch_optional(connection)
        .await
        .during("lock a client")?;
    let Some(row) = row else { return Ok(None) };
    let row = Columns::of("clients", &row);
    Ok(Some((row.named("state", ClientState::parse)?, row.number("revision")?)))
}

/// Writes the state of a client whose row is locked.
pub(crate) async fn write_state(connection: &mut AnyConnection, id: &ClientId, state: ClientState) -> Result<()> {
    sqlx::query("UPDATE clients SET state = $2, revision = revision + 1 WHERE id = $1")
        .bind(id.as_str())
        .bind(state.as_str())
        .execute(&mut *connection)
        .await
        .during("change the state of a client")?;
    if state.is_excluded() {
        // Tokens issued before must not bring the client back.
        sqlx::query("DELETE FROM enrollment_tokens WHERE client_id = $1")
            .bind(id.as_str())
            .execute(connection)
            .await
            .during("revoke the enrollment tokens of a client")?;
    }
    Ok(())
}

/// Writes the note of a client whose row is locked; `None` keeps the current note.
async fn write_note(connection: &mut AnyConnection, id: &ClientId, note: Option<&str>) -> Result<()> {
    sqlx::query("UPDATE clients SET note = COALESCE($2, note) WHERE id = $1")
        .bind(id.as_str())
        .bind(note)
        .execute(connection)
        .await
        .during("write the note of a client")?;
    Ok(())
}

fn state_action(state: ClientState) -> &'static str {
    match state {
        ClientState::Pending => "client.suspend",
        ClientState::Accepted => "client.accept",
        ClientState::Rejected => "client.reject",
        ClientState::Decommissioned => "client.decommission",
    }
}

fn missing(id: &ClientId) -> StoreError {
    StoreError::NotFound { what: format!("client `{id}`") }
}

impl Store {
    /// Creates a client with its first manifest (version 1, no deployments; DS-01, DS-02), or fails with `Exists`. If
    /// the new client is to be accepted and already exists as pending, it is accepted.
    pub async fn client_create(
        &self,
        actor: &Actor,
        id: &ClientId,
        state: ClientState,
        note: Option<&str>,
        now: Timestamp,
    ) -> Result<(Client, Head)> {
        let mut transaction = self.begin().await?;
        let (mut action, mut before) = ("client.create", None);
        if !insert(&mut transaction, id, state, note, now).await? {
            let waits = lock(&mut transaction, id).await?.is_some_and(|(known, _)| known == ClientState::Pending);
            if !waits || state != ClientState::Accepted {
                return Err(StoreError::Exists { what: format!("client `{id}`") });
            }
            write_state(&mut transaction, id, state).await?;
            write_note(&mut transaction, id, note).await?;
            (action, before) = ("client.accept", Some(json!({ "state": ClientState::Pending.as_str() })));
        }
        let created = read_one(&mut transaction, id).await?.ok_or_else(|| missing(id))?;
        let after = Some(json!({ "state": state.as_str(), "note": note }));
        let entry = Entry { actor, action, subject: format!("client/{id}"), before, after };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(created)
    }

    /// Moves a client to another state; `expected` is the revision the caller saw. Setting the current state changes
    /// nothing.
    pub async fn client_set_state(
        &self,
        actor: &Actor,
        id: &ClientId,
        state: ClientState,
        expected: Option<i64>,
        now: Timestamp,
    ) -> Result<(Client, Head)> {
        let mut transaction = self.begin().await?;
        let (before, current) = lock(&mut transaction, id).await?.ok_or_else(|| missing(id))?;
        if let Some(expected) = expected.filter(|expected| *expected != current) {
            return Err(StoreError::Conflict { what: format!("client `{id}`"), expected, current });
        }
        if before != state {
            write_state(&mut transaction, id, state).await?;
        }
        let changed = read_one(&mut transaction, id).await?.ok_or_else(|| missing(id))?;
        if before != state {
            let entry = Entry {
                actor,
                action: state_action(state),
                subject: format!("client/{id}"),
                before: Some(json!({ "state": before.as_str() })),
                after: Some(json!({ "state": state.as_str() })),
            };
            audit::append(&mut transaction, vec![entry], now).await?;
        }
        commit(transaction).await?;
        Ok(changed)
    }

    pub async fn client_get(&self, id: &ClientId) -> Result<Option<Client>> {
        Ok(self.client_with_head(id).await?.map(|(client, _)| client))
    }

    /// A client with its head.
    pub async fn client_with_head(&self, id: &ClientId) -> Result<Option<(Client, Head)>> {
        let row = sqlx::query(select_client!("WHERE c.id = $1")).bind(id.as_str()).fetch_optional(&self.read).await;
        row.during("read a client")?.as_ref().map(read).transpose()
    }

    /// In order of id.
    pub async fn clients_page(&self, after: Option<&ClientId>, limit: u32) -> Result<Vec<Client>> {
        Ok(self.page(after, limit).await?.into_iter().map(|(client, _)| client).collect())
    }

    /// Clients in one state, in order of id.
    pub async fn clients_in(&self, state: ClientState, after: Option<&ClientId>, limit: u32) -> Result<Vec<Client>> {
        let rows = sqlx::query(select_client!("WHERE c.state = $1 AND c.id > $2 ORDER BY c.id LIMIT $3"))
            .bind(state.as_str())
            .bind(after.map_or("", ClientId::as_str))
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("list clients in one state")?;
        rows.iter().map(|row| read(row).map(|(client, _)| client)).collect()
    }

    /// The heads of all clients, for filling the manifest cache at start: a page in order of id.
    pub async fn heads_page(&self, after: Option<&ClientId>, limit: u32) -> Result<Vec<Head>> {
        Ok(self.page(after, limit).await?.into_iter().map(|(_, head)| head).collect())
    }

    /// The heads of these clients; ids of unknown clients are skipped.
    pub async fn heads_of(&self, clients: &[ClientId]) -> Result<Vec<Head>> {
        const ATTEMPT: &str = "read the heads of clients";
        let ids: Vec<String> = clients.iter().map(ToString::to_string).collect();
        let mut connection = self.read.acquire().await.during(ATTEMPT)?;
        let rows = select_in(&mut connection, select_client!("WHERE c.id IN"), &ids, "", ATTEMPT).await?;
        self.settle().await?;
        rows.iter().map(|row| read(row).map(|(_, head)| head)).collect()
    }

    /// The heads of all clients with audit records after this sequence number, and the sequence number read up to.
    ///
    /// A transaction that changes a head appends to the chain last, with the end of the chain locked: records become
    /// visible in their order, and none is missed. Reads at most `limit` records.
    pub async fn heads_changed_since(&self, place: i64, limit: u32) -> Result<(i64, Vec<Head>)> {
        let rows = sqlx::query("SELECT seq, subject FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2")
            .bind(place)
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("read new audit records")?;
        let (mut place, mut clients, mut deployments) = (place, BTreeSet::new(), BTreeSet::new());
        for row in &rows {
            let row = Columns::of("audit", row);
            place = row.number("seq")?;
            match row.text("subject")?.split_once('/') {
                Some(("client", id)) => clients.extend(id.parse::<ClientId>().ok()),
                Some(("deployment", id)) => {
                    deployments.insert(id.to_owned());
                }
                _ => {}
            }
        }
        if !deployments.is_empty() {
            const ATTEMPT: &str = "find the clients of deployments";
            let ids = Vec::from_iter(deployments);
            let mut connection = self.read.acquire().await.during(ATTEMPT)?;
            let sql = "SELECT DISTINCT client_id FROM deployments WHERE id IN";
            for row in &select_in(&mut connection, sql, &ids, "", ATTEMPT).await? {
                clients.insert(Columns::of("deployments", row).parsed("client_id")?);
            }
        }
        let heads = if clients.is_empty() { Vec::new() } else { self.heads_of(&Vec::from_iter(clients)).await? };
        Ok((place, heads))
    }

    async fn page(&self, after: Option<&ClientId>, limit: u32) -> Result<Vec<(Client, Head)>> {
        let rows = sqlx::query(select_client!("WHERE c.id > $1 ORDER BY c.id LIMIT $2"))
            .bind(after.map_or("", ClientId::as_str))
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("list clients")?;
        rows.iter().map(read).collect()
    }

    /// The manifest as served: version, digest and exact bytes.
    pub async fn manifest(&self, client: &ClientId) -> Result<Option<(u64, Digest, Vec<u8>)>> {
        let row = sqlx::query("SELECT version, digest, body FROM manifests WHERE client_id = $1")
            .bind(client.as_str())
            .fetch_optional(&self.read)
            .await
            .during("read a manifest")?;
        let Some(row) = row else { return Ok(None) };
        // Invariant 2: a version that was served to a device is never withdrawn.
        self.settle().await?;
        let row = Columns::of("manifests", &row);
        Ok(Some((row.unsigned("version")?, row.parsed("digest")?, row.bytes("body")?)))
    }

    /// One YAML of this client, current or recently replaced; `None` for any other client's (GEN-09).
    pub async fn deployment_yaml(
        &self,
        client: &ClientId,
        deployment: DeploymentId,
        digest: &Digest,
    ) -> Result<Option<Vec<u8>>> {
        self.artifact(client, "yaml", &deployment.to_string(), digest).await
    }

    /// One bundle of this client, current or recently replaced.
    pub async fn bundle(&self, client: &ClientId, digest: &Digest) -> Result<Option<Vec<u8>>> {
        self.artifact(client, "bundle", "", digest).await
    }

    async fn artifact(
        &self,
        client: &ClientId,
        kind: &str,
        deployment: &str,
        digest: &Digest,
    ) -> Result<Option<Vec<u8>>> {
        let row = sqlx::query(
            "SELECT b.body, b.sealed_with FROM artifacts a JOIN blobs b ON b.digest = a.digest
             WHERE a.client_id = $1 AND a.kind = $2 AND a.deployment_id = $3 AND a.digest = $4",
        )
        .bind(client.as_str())
        .bind(kind)
        .bind(deployment)
        .bind(digest.as_str())
        .fetch_optional(&self.read)
        .await
        .during("read an artifact")?;
        row.map(|row| blobs::read(Columns::of("blobs", &row), digest, &self.sealing)).transpose()
    }
}
