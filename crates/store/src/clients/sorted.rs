//! Clients in the order of a column.

use super::{ClientSearch, read};
use crate::batched::select_in;
use crate::error::During;
use crate::rows::{Columns, containing};
use crate::sql::{Order, Sql, read_value};
use crate::{Result, Store};
use margo::ids::ClientId;
use margrave_core::model::Client;
use margrave_core::sort::{ClientColumn, Column as _, Sort, SortValue};
use std::collections::HashMap;

impl Store {
    /// The ids of one page, each with its value, after a value and an id. Reads all matches, except in the order of the
    /// id.
    pub async fn clients_sorted(
        &self,
        search: &ClientSearch,
        sort: Sort<ClientColumn>,
        after: Option<&(SortValue, ClientId)>,
        limit: u32,
    ) -> Result<Vec<(SortValue, ClientId)>> {
        let mut sql = Sql::default();
        if let Some(state) = search.state {
            let state = sql.text(state.as_str());
            sql.and(format!("x.state = {state}"));
        }
        if let Some(text) = search.text.as_deref().filter(|text| !text.is_empty()) {
            let text = sql.text(containing(text));
            sql.and(format!("LOWER(x.id) LIKE {text} ESCAPE '\\'"));
        }
        let value = match sort.column {
            ClientColumn::Id => "x.id",
            ClientColumn::State => "x.state",
            ClientColumn::Registered => "x.created_at",
            ClientColumn::LastSeen => "COALESCE((SELECT n.seen_at FROM client_seen n WHERE n.client_id = x.id), 0)",
        };
        let order = Order { value, key: &["x.id"], descending: sort.descending };
        if let Some((value, id)) = after {
            let after = order.after(&mut sql, value, &[id.as_str()]);
            sql.and(after);
        }
        let (conditions, limit) = (sql.conditions(), sql.number(i64::from(limit)));
        let text = format!(
            "SELECT x.id, {value} AS sort_value FROM clients x WHERE {conditions} ORDER BY {} LIMIT {limit}",
            order.terms()
        );
        let rows = sql.query(text).fetch_all(&self.read).await.during("sort clients")?;
        let read = |row| {
            let row = Columns::of("clients", row);
            Ok((read_value(row, sort.column.values())?, row.parsed("id")?))
        };
        rows.iter().map(read).collect()
    }

    /// The clients with these ids, in this order; unknown ones are omitted.
    pub async fn clients_by_ids(&self, ids: &[ClientId]) -> Result<Vec<Client>> {
        const ATTEMPT: &str = "read clients";
        let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let mut connection = self.read.acquire().await.during(ATTEMPT)?;
        let rows = select_in(&mut connection, select_client!("WHERE c.id IN"), &texts, "", ATTEMPT).await?;
        let mut found = HashMap::new();
        for row in &rows {
            let (client, _) = read(row)?;
            found.insert(client.id.clone(), client);
        }
        Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
    }
}
