//! Clients with a valid identity that are not accepted.

use super::{Head, insert, missing, read_one};
use crate::audit::{self, Entry};
use crate::error::During;
use crate::open::commit;
use crate::rows::Columns;
use crate::{Result, Store};
use margo::ids::ClientId;
use margrave_core::model::{Actor, ClientState};
use margrave_core::time::Timestamp;
use serde_json::json;

impl Store {
    /// Records an unknown client as pending, unless `waiting_max` clients are pending already: then nothing is written
    /// and there is no head. A known client stays as it is, so a decommissioned one stays decommissioned however often
    /// it connects.
    pub async fn client_record_pending(
        &self,
        actor: &Actor,
        id: &ClientId,
        waiting_max: u64,
        now: Timestamp,
    ) -> Result<Option<Head>> {
        let mut transaction = self.begin().await?;
        // Another server, or another request of the same client, may have recorded it first.
        if let Some((_, head)) = read_one(&mut transaction, id).await? {
            return Ok(Some(head));
        }
        let row = sqlx::query("SELECT COUNT(*) AS waiting FROM clients WHERE state = $1")
            .bind(ClientState::Pending.as_str())
            .fetch_one(&mut *transaction)
            .await
            .during("count pending clients")?;
        if Columns::of("clients", &row).unsigned("waiting")? >= waiting_max {
            return Ok(None);
        }
        if insert(&mut transaction, id, ClientState::Pending, None, now).await? {
            let after = Some(json!({ "state": ClientState::Pending.as_str() }));
            let entry = Entry { actor, action: "client.request", subject: format!("client/{id}"), before: None, after };
            audit::append(&mut transaction, vec![entry], now).await?;
        }
        let (_, head) = read_one(&mut transaction, id).await?.ok_or_else(|| missing(id))?;
        commit(transaction).await?;
        Ok(Some(head))
    }
}
