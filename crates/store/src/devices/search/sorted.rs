//! Matching devices in the order of a column.

use super::{DeviceSearch, state_case, state_condition};
use crate::error::During;
use crate::rows::Columns;
use crate::sql::{Order, Sql, position, read_value};
use crate::{Result, Store};
use margrave_core::model::{Device, DeviceKey, DeviceState};
use margrave_core::sort::{Column as _, DeviceColumn, SITE_LABEL, Sort, SortValue, device_severity};
use std::collections::HashMap;

impl Store {
    /// The keys of one page, each with its value, after a value and a key. Reads all matches, except in the order of the
    /// name.
    pub async fn devices_sorted(
        &self,
        search: &DeviceSearch,
        sort: Sort<DeviceColumn>,
        after: Option<&(SortValue, DeviceKey)>,
        limit: u32,
    ) -> Result<Vec<(SortValue, DeviceKey)>> {
        let mut sql = Sql::default();
        let source = search.begin(&mut sql);
        let since = sql.number(search.offline_before.0);
        if let Some(state) = search.state {
            sql.and(state_condition(state, &since));
        } else {
            // The instant is bound in any case, and PostgreSQL has to know its type.
            sql.and(format!("{since} >= {since}"));
        }
        let value = value(&mut sql, sort.column, &since);
        let key: &[&str] = match sort.column {
            // The order of the index.
            DeviceColumn::Device => &["k.device_id", "k.client_id"],
            _ => &["k.client_id", "k.device_id"],
        };
        let order = Order { value: &value, key, descending: sort.descending };
        if let Some((value, DeviceKey { client, device })) = after {
            let after = match sort.column {
                DeviceColumn::Device => order.after(&mut sql, value, &[device.as_str(), client.as_str()]),
                _ => order.after(&mut sql, value, &[client.as_str(), device.as_str()]),
            };
            sql.and(after);
        }
        let (conditions, limit) = (sql.conditions(), sql.number(i64::from(limit)));
        let text = format!(
            "SELECT k.client_id, k.device_id, {value} AS sort_value FROM {source} k WHERE {conditions}
             ORDER BY {} LIMIT {limit}",
            order.terms()
        );
        let rows = sql.query(text).fetch_all(&self.read).await.during("sort devices")?;
        let read = |row| {
            let row = Columns::of("devices", row);
            let key = DeviceKey { client: row.parsed("client_id")?, device: row.parsed("device_id")? };
            Ok((read_value(row, sort.column.values())?, key))
        };
        rows.iter().map(read).collect()
    }

    /// The devices with these keys, in this order; deleted ones are omitted.
    pub async fn devices_by_keys(&self, keys: &[DeviceKey]) -> Result<Vec<Device>> {
        let mut clients: Vec<_> = keys.iter().map(|key| key.client.clone()).collect();
        clients.sort_unstable();
        clients.dedup();
        let found = self.devices_of(&clients).await?;
        let mut found: HashMap<DeviceKey, Device> =
            found.into_iter().map(|device| (device.key.clone(), device)).collect();
        Ok(keys.iter().filter_map(|key| found.remove(key)).collect())
    }
}

fn value(sql: &mut Sql, column: DeviceColumn, since: &str) -> String {
    match column {
        DeviceColumn::Device => "k.device_id".to_owned(),
        DeviceColumn::State => {
            position(&state_case(since), DeviceState::ALL.map(|state| (state.as_str(), device_severity(state))))
        }
        // The operator's label counts more than the one that the device reports.
        DeviceColumn::Site => format!(
            "COALESCE((SELECT l.label_value FROM device_labels l
                       WHERE l.client_id = k.client_id AND l.device_id = k.device_id AND l.label_key = {}
                       ORDER BY l.source DESC LIMIT 1), '')",
            sql.text(SITE_LABEL)
        ),
        DeviceColumn::LastSeen => {
            "COALESCE((SELECT n.seen_at FROM client_seen n WHERE n.client_id = k.client_id), 0)".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Store, StoreOptions};
    use sqlx::Row as _;

    #[tokio::test]
    async fn sorts_by_name_through_the_index() {
        let store = Store::open(&StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 }).await.unwrap();
        for direction in ["", " DESC"] {
            let text = format!(
                "EXPLAIN QUERY PLAN SELECT k.client_id, k.device_id FROM devices k
                 WHERE (k.device_id, k.client_id) > ('a', 'b')
                 ORDER BY k.device_id{direction}, k.client_id{direction} LIMIT 100"
            );
            let rows = sqlx::query(sqlx::AssertSqlSafe(text)).fetch_all(&store.read).await.unwrap();
            let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
            assert!(plan.iter().any(|step| step.contains("devices_by_name")), "{plan:?}");
            assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
        }
    }
}
