//! Devices, their capabilities, and labels from operators and devices.

mod page;
mod search;

pub use search::{DeviceSearch, Runs, RunsVersion};

use crate::audit::{self, Entry};
use crate::batched::{Insert, select_in};
use crate::error::During;
use crate::open::commit;
use crate::rows::{Columns, to_json};
use crate::{Result, Store, StoreError, events, seen};
use indexmap::IndexMap;
use margo::capabilities::DeviceCapabilities;
use margo::digest::Digest;
use margo::ids::ClientId;
use margrave_core::model::{Actor, Device, DeviceKey};
use margrave_core::runtime::is_simulated;
use margrave_core::selector::LabelSelector;
use margrave_core::time::Timestamp;
use serde_json::{Value, json};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DevicePut {
    Created,
    Updated,
    /// The parent of a child device has not been reported (GW-02).
    GatewayNotFound,
}

/// What a client reports about one of its devices.
#[derive(Debug, Clone)]
pub struct DeviceWrite {
    pub key: DeviceKey,
    pub capabilities: DeviceCapabilities,
    /// Stored as received.
    pub body: Vec<u8>,
    pub received_at: Timestamp,
}

#[derive(Debug, Clone, Default)]
pub struct DeviceFilter {
    pub client: Option<ClientId>,
    pub selector: LabelSelector,
}

/// Labels reported by a device: a key may have several values.
pub(crate) type ReportedLabels = BTreeMap<String, BTreeSet<String>>;

/// CAP-08: text as it is, numbers and booleans as their JSON text, arrays as several values.
fn reported_labels(labels: &IndexMap<String, Value>) -> ReportedLabels {
    labels
        .iter()
        .map(|(key, value)| (key.clone(), label_values(value)))
        .filter(|(_, values)| !values.is_empty())
        .collect()
}

fn label_values(value: &Value) -> BTreeSet<String> {
    match value {
        Value::String(text) => BTreeSet::from([text.clone()]),
        Value::Number(_) | Value::Bool(_) => BTreeSet::from([value.to_string()]),
        Value::Array(items) => items.iter().filter(|item| !item.is_array()).flat_map(label_values).collect(),
        Value::Null | Value::Object(_) => BTreeSet::new(),
    }
}

macro_rules! select_device {
    ($rest:literal) => {
        concat!(
            "SELECT d.client_id, d.device_id, d.capabilities, d.reported_labels, d.operator_labels, d.first_reported_at,
                    d.reported_at, d.revision, s.seen_at
             FROM devices d LEFT JOIN client_seen s ON s.client_id = d.client_id ",
            $rest
        )
    };
}
pub(crate) use select_device;

fn read(row: &AnyRow) -> Result<Device> {
    let row = Columns::of("devices", row);
    Ok(Device {
        key: DeviceKey { client: row.parsed("client_id")?, device: row.parsed("device_id")? },
        capabilities: row.bytes("capabilities")?,
        operator_labels: row.json("operator_labels")?,
        first_reported_at: row.time("first_reported_at")?,
        reported_at: row.time("reported_at")?,
        last_seen_at: row.time_maybe("seen_at")?,
        revision: row.number("revision")?,
    })
}

async fn read_one(connection: &mut AnyConnection, key: &DeviceKey) -> Result<Option<Device>> {
    let row = sqlx::query(select_device!("WHERE d.client_id = $1 AND d.device_id = $2"))
        .bind(key.client.as_str())
        .bind(key.device.as_str())
        .fetch_optional(connection)
        .await
        .during("read a device")?;
    row.as_ref().map(read).transpose()
}

/// Locks the row for the rest of the transaction.
async fn lock(connection: &mut AnyConnection, key: &DeviceKey) -> Result<bool> {
    let taken = sqlx::query("UPDATE devices SET revision = revision WHERE client_id = $1 AND device_id = $2")
        .bind(key.client.as_str())
        .bind(key.device.as_str())
        .execute(connection)
        .await
        .during("lock a device")?;
    Ok(taken.rows_affected() == 1)
}

fn subject(key: &DeviceKey) -> String {
    format!("device/{}/{}", key.client, key.device)
}

/// Replaces the index entries of one source.
async fn index_labels(
    connection: &mut AnyConnection,
    key: &DeviceKey,
    source: &'static str,
    labels: &[(&String, &String)],
) -> Result<()> {
    sqlx::query("DELETE FROM device_labels WHERE client_id = $1 AND device_id = $2 AND source = $3")
        .bind(key.client.as_str())
        .bind(key.device.as_str())
        .bind(source)
        .execute(&mut *connection)
        .await
        .during("replace the labels of a device")?;
    INSERT_LABELS
        .rows(connection, labels, |row, (label, value)| {
            row.bind(key.client.to_string())
                .bind(key.device.to_string())
                .bind(source)
                .bind((*label).clone())
                .bind((*value).clone())
        })
        .await
}

const INSERT_LABELS: Insert = Insert {
    into: "device_labels (client_id, device_id, source, label_key, label_value)",
    columns: 5,
    on_conflict: "",
    attempt: "replace the labels of a device",
};

async fn write_report(connection: &mut AnyConnection, report: &DeviceWrite) -> Result<()> {
    let DeviceWrite { key, capabilities, body, received_at } = report;
    let labels = reported_labels(&capabilities.labels);
    sqlx::query(
        "INSERT INTO devices (client_id, device_id, capabilities, reported_labels, operator_labels, first_reported_at,
                              reported_at, revision, simulated)
         VALUES ($1, $2, $3, $4, '{}', $5, $5, 1, $6)
         ON CONFLICT (client_id, device_id) DO UPDATE SET capabilities = excluded.capabilities,
             reported_labels = excluded.reported_labels, reported_at = excluded.reported_at,
             simulated = excluded.simulated",
    )
    .bind(key.client.as_str())
    .bind(key.device.as_str())
    .bind(body.as_slice())
    .bind(to_json(&labels))
    .bind(received_at.0)
    .bind(i64::from(is_simulated(capabilities)))
    .execute(&mut *connection)
    .await
    .during("write the report of a device")?;
    // Collected: a borrowed iterator across an await would make the future not `Send`.
    let pairs: Vec<_> =
        labels.iter().flat_map(|(label, values)| values.iter().map(move |value| (label, value))).collect();
    index_labels(connection, key, "device", &pairs).await
}

/// A report with new content, for the audit.
struct ReportChange {
    actor: Actor,
    subject: String,
    before: Option<Value>,
    after: Value,
}

impl ReportChange {
    fn entry(&self) -> Entry<'_> {
        Entry {
            actor: &self.actor,
            action: "device.report",
            subject: self.subject.clone(),
            before: self.before.clone(),
            after: Some(self.after.clone()),
        }
    }
}

async fn put(connection: &mut AnyConnection, report: &DeviceWrite) -> Result<(DevicePut, Option<ReportChange>)> {
    let DeviceWrite { key, body, received_at, .. } = report;
    // The client row orders two reports about one new device, and a child after the removal of its gateway.
    if crate::clients::lock(connection, &key.client).await?.is_none() {
        return Err(StoreError::NotFound { what: format!("client `{}`", key.client) });
    }
    if let Some(parent) = key.device.parent() {
        let parent = DeviceKey { client: key.client.clone(), device: parent };
        if read_one(connection, &parent).await?.is_none() {
            return Ok((DevicePut::GatewayNotFound, None));
        }
    }
    let before = read_one(connection, key).await?;
    if before.as_ref().is_some_and(|before| before.capabilities == *body) {
        sqlx::query("UPDATE devices SET reported_at = $3 WHERE client_id = $1 AND device_id = $2")
            .bind(key.client.as_str())
            .bind(key.device.as_str())
            .bind(received_at.0)
            .execute(connection)
            .await
            .during("note when a device reported")?;
        return Ok((DevicePut::Updated, None));
    }
    write_report(connection, report).await?;
    let rollout = ReportChange {
        actor: Actor { name: format!("client:{}", key.client), comment: None, request_id: None },
        subject: subject(key),
        before: before.as_ref().map(|before| json!({ "capabilities": Digest::of(&before.capabilities) })),
        after: json!({ "capabilities": Digest::of(body) }),
    };
    Ok((if before.is_some() { DevicePut::Updated } else { DevicePut::Created }, Some(rollout)))
}

impl Store {
    /// Upserts the report of a client about one of its devices; `body` is stored as received. Audited only if it
    /// changed.
    pub async fn device_put(
        &self,
        key: &DeviceKey,
        capabilities: &DeviceCapabilities,
        body: &[u8],
        now: Timestamp,
    ) -> Result<DevicePut> {
        let report =
            DeviceWrite { key: key.clone(), capabilities: capabilities.clone(), body: body.to_vec(), received_at: now };
        let outcomes = self.devices_put(std::slice::from_ref(&report)).await?;
        outcomes.first().copied().ok_or_else(|| StoreError::Misuse("a report without an outcome".to_owned()))
    }

    /// Writes many reports in one transaction; one outcome per report, in order.
    pub async fn devices_put(&self, reports: &[DeviceWrite]) -> Result<Vec<DevicePut>> {
        let mut outcomes = vec![DevicePut::Updated; reports.len()];
        // In order of client, so that two batches never deadlock; reports of one client stay in the order
        // of arrival, a gateway before its children.
        let mut order: Vec<usize> = (0..reports.len()).collect();
        order.sort_by_key(|index| &reports[*index].key.client);
        let (mut changed, mut heard) = (Vec::new(), Vec::new());
        let mut transaction = self.begin().await?;
        for index in order {
            let DeviceWrite { key, received_at, .. } = &reports[index];
            let (outcome, rollout) = put(&mut transaction, &reports[index]).await?;
            if outcome == DevicePut::Created {
                // A reader that finds the new device must not see it as never connected.
                heard.extend(seen::first(&mut transaction, &key.client, *received_at).await?);
            }
            outcomes[index] = outcome;
            changed.extend(rollout);
        }
        let now = reports.iter().map(|report| report.received_at).max().unwrap_or(Timestamp(0));
        let entries = changed.iter().map(ReportChange::entry).collect();
        audit::append(&mut transaction, entries, now).await?;
        events::append(&mut transaction, heard, now).await?;
        commit(transaction).await?;
        Ok(outcomes)
    }

    /// Removes a device and its children; false if the client has no such device.
    pub async fn device_delete(&self, actor: &Actor, key: &DeviceKey, now: Timestamp) -> Result<bool> {
        let mut transaction = self.begin().await?;
        crate::clients::lock(&mut transaction, &key.client).await?;
        let children = format!("{}/", key.device);
        // Compares prefixes instead of LIKE: `_` is a letter in device ids, and LIKE differs between the engines.
        let labels = "DELETE FROM device_labels WHERE client_id = $1
                      AND (device_id = $2 OR SUBSTR(device_id, 1, LENGTH($3)) = $3)";
        let devices = "DELETE FROM devices WHERE client_id = $1
                       AND (device_id = $2 OR SUBSTR(device_id, 1, LENGTH($3)) = $3) RETURNING device_id";
        if !lock(&mut transaction, key).await? {
            return Ok(false);
        }
        sqlx::query(labels)
            .bind(key.client.as_str())
            .bind(key.device.as_str())
            .bind(&children)
            .execute(&mut *transaction)
            .await
            .during("remove the labels of a device")?;
        let removed = sqlx::query(devices)
            .bind(key.client.as_str())
            .bind(key.device.as_str())
            .bind(&children)
            .fetch_all(&mut *transaction)
            .await
            .during("remove a device")?;
        let mut entries = Vec::new();
        for row in &removed {
            let device = Columns::of("devices", row).parsed("device_id")?;
            let key = DeviceKey { client: key.client.clone(), device };
            entries.push(Entry { actor, action: "device.remove", subject: subject(&key), before: None, after: None });
        }
        audit::append(&mut transaction, entries, now).await?;
        commit(transaction).await?;
        Ok(true)
    }

    pub async fn device_get(&self, key: &DeviceKey) -> Result<Option<Device>> {
        let row = sqlx::query(select_device!("WHERE d.client_id = $1 AND d.device_id = $2"))
            .bind(key.client.as_str())
            .bind(key.device.as_str())
            .fetch_optional(&self.read)
            .await
            .during("read a device")?;
        row.as_ref().map(read).transpose()
    }

    /// All devices of these clients, in no order; one query for many clients.
    pub async fn devices_of(&self, clients: &[ClientId]) -> Result<Vec<Device>> {
        const ATTEMPT: &str = "list the devices of clients";
        let ids: Vec<String> = clients.iter().map(ToString::to_string).collect();
        let mut connection = self.read.acquire().await.during(ATTEMPT)?;
        let rows = select_in(&mut connection, select_device!("WHERE d.client_id IN"), &ids, "", ATTEMPT).await?;
        rows.iter().map(read).collect()
    }

    /// The devices of these clients whose agent announces the simulated runtime; one query for many clients.
    pub async fn devices_simulated(&self, clients: &[ClientId]) -> Result<HashSet<DeviceKey>> {
        const ATTEMPT: &str = "look for simulated devices";
        let ids: Vec<String> = clients.iter().map(ToString::to_string).collect();
        let mut connection = self.read.acquire().await.during(ATTEMPT)?;
        let select = "SELECT client_id, device_id FROM devices WHERE simulated = 1 AND client_id IN";
        let rows = select_in(&mut connection, select, &ids, "", ATTEMPT).await?;
        let key = |row: &AnyRow| {
            let row = Columns::of("devices", row);
            Ok(DeviceKey { client: row.parsed("client_id")?, device: row.parsed("device_id")? })
        };
        rows.iter().map(key).collect()
    }

    pub async fn devices_count(&self) -> Result<u64> {
        let row = sqlx::query("SELECT COUNT(*) AS devices FROM devices").fetch_one(&self.read).await;
        Columns::of("devices", &row.during("count devices")?).unsigned("devices")
    }

    /// Sets (`Some`) or removes (`None`) operator labels.
    pub async fn device_labels_set(
        &self,
        actor: &Actor,
        key: &DeviceKey,
        labels: &IndexMap<String, Option<String>>,
        expected: Option<i64>,
        now: Timestamp,
    ) -> Result<Device> {
        let what = || format!("device `{}` of client `{}`", key.device, key.client);
        let mut transaction = self.begin().await?;
        lock(&mut transaction, key).await?;
        let mut device = read_one(&mut transaction, key).await?.ok_or_else(|| StoreError::NotFound { what: what() })?;
        if let Some(expected) = expected.filter(|expected| *expected != device.revision) {
            return Err(StoreError::Conflict { what: what(), expected, current: device.revision });
        }
        let before = device.operator_labels.clone();
        for (label, value) in labels {
            match value {
                Some(value) => device.operator_labels.insert(label.clone(), value.clone()),
                None => device.operator_labels.shift_remove(label),
            };
        }
        device.operator_labels.sort_unstable_keys();
        if device.operator_labels == before {
            return Ok(device);
        }
        device.revision += 1;
        write_operator_labels(&mut transaction, &device).await?;
        let entry = Entry {
            actor,
            action: "device.label",
            subject: subject(key),
            before: Some(json!({ "labels": before })),
            after: Some(json!({ "labels": device.operator_labels })),
        };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(device)
    }
}

async fn write_operator_labels(connection: &mut AnyConnection, device: &Device) -> Result<()> {
    sqlx::query("UPDATE devices SET operator_labels = $3, revision = $4 WHERE client_id = $1 AND device_id = $2")
        .bind(device.key.client.as_str())
        .bind(device.key.device.as_str())
        .bind(to_json(&device.operator_labels))
        .bind(device.revision)
        .execute(&mut *connection)
        .await
        .during("label a device")?;
    let pairs: Vec<_> = device.operator_labels.iter().collect();
    index_labels(connection, &device.key, "operator", &pairs).await
}
