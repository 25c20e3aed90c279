//! Clients by state and by part of their id.

use super::read;
use crate::error::During;
use crate::rows::{Columns, containing};
use crate::{Result, Store};
use margo::ids::ClientId;
use margrave_core::model::{Client, ClientState};
use std::collections::BTreeMap;

/// Which clients; an empty field does not filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientSearch {
    pub state: Option<ClientState>,
    /// Part of the id, in any case.
    pub text: Option<String>,
}

impl Store {
    /// In order of id.
    pub async fn clients_search(
        &self,
        search: &ClientSearch,
        after: Option<&ClientId>,
        limit: u32,
    ) -> Result<Vec<Client>> {
        // An empty text means "no filter"; no state and no id is empty.
        let rows = sqlx::query(select_client!(
            "WHERE ($1 = '' OR c.state = $1) AND ($2 = '' OR LOWER(c.id) LIKE $2 ESCAPE '\\') AND c.id > $3
             ORDER BY c.id LIMIT $4"
        ))
        .bind(search.state.map_or("", ClientState::as_str))
        .bind(search.text.as_deref().map(containing).unwrap_or_default())
        .bind(after.map_or("", ClientId::as_str))
        .bind(i64::from(limit))
        .fetch_all(&self.read)
        .await
        .during("search clients")?;
        rows.iter().map(|row| read(row).map(|(client, _)| client)).collect()
    }

    /// How many clients whose id contains the text are in each state; empty states are omitted.
    pub async fn clients_counted(&self, text: Option<&str>) -> Result<BTreeMap<&'static str, u64>> {
        let rows = sqlx::query(
            "SELECT state, COUNT(*) AS clients FROM clients WHERE $1 = '' OR LOWER(id) LIKE $1 ESCAPE '\\' GROUP BY state",
        )
        .bind(text.map(containing).unwrap_or_default())
        .fetch_all(&self.read)
        .await
        .during("count clients")?;
        let count = |row| {
            let row = Columns::of("clients", row);
            Ok((row.named("state", ClientState::parse)?.as_str(), row.unsigned("clients")?))
        };
        rows.iter().map(count).collect()
    }
}
