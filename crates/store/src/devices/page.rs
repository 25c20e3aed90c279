//! Devices by selector. A requirement that names values uses the label index; everything else is
//! checked row by row.

use super::{DeviceFilter, ReportedLabels, read, select_device};
use crate::error::During;
use crate::rows::Columns;
use crate::{Result, Store};
use margrave_core::model::{Device, DeviceKey};
use margrave_core::selector::{LabelSelector, Requirement};
use sqlx::any::AnyRow;

/// Rows read at a time while filtering: enough to fill most pages with one read, few enough for a slow disk.
const CHUNK_MAX: u32 = 500;

/// How many values of one `in` use the index; longer lists fall back to the key alone.
const DRIVER_VALUES: usize = 8;

/// What to look up in the label index.
enum Driver<'a> {
    None,
    Key(&'a str),
    Values(&'a str, [&'a str; DRIVER_VALUES]),
}

impl<'a> Driver<'a> {
    /// The most selective requirement: one value, then few values, then only the presence of a key.
    fn of(selector: &'a LabelSelector) -> Self {
        let driver = |requirement: &'a Requirement| match requirement {
            Requirement::Equals(key, value) => Self::Values(key, [value; DRIVER_VALUES]),
            Requirement::In(key, values) if values.len() <= DRIVER_VALUES && !values.is_empty() => {
                // Unused placeholders repeat the last value, so that the statement stays the same.
                let at = |place: usize| values[place.min(values.len() - 1)].as_str();
                Self::Values(key, std::array::from_fn(at))
            }
            Requirement::In(key, _) | Requirement::Exists(key) => Self::Key(key),
            _ => Self::None,
        };
        let worth = |requirement: &&Requirement| match requirement {
            Requirement::Equals(..) => 3,
            Requirement::In(_, values) if values.len() <= DRIVER_VALUES => 2,
            Requirement::In(..) | Requirement::Exists(_) => 1,
            _ => 0,
        };
        selector.requirements.iter().rev().max_by_key(worth).map_or(Self::None, driver)
    }
}

impl Store {
    /// In order of key. Uses the label index if the selector names a value; the rest is filtered while reading.
    pub async fn devices_page(
        &self,
        filter: &DeviceFilter,
        after: Option<&DeviceKey>,
        limit: u32,
    ) -> Result<Vec<Device>> {
        let chunk = if filter.selector.requirements.len() > 1 { limit.max(CHUNK_MAX) } else { limit };
        let mut found = Vec::new();
        let mut after = after.cloned();
        loop {
            let rows = self.devices_chunk(filter, after.as_ref(), chunk).await?;
            for row in &rows {
                let device = read(row)?;
                after = Some(device.key.clone());
                if matches(&filter.selector, row, &device)? {
                    found.push(device);
                }
                if found.len() == limit as usize {
                    return Ok(found);
                }
            }
            if rows.len() < chunk as usize {
                return Ok(found);
            }
        }
    }

    async fn devices_chunk(&self, filter: &DeviceFilter, after: Option<&DeviceKey>, chunk: u32) -> Result<Vec<AnyRow>> {
        let (client, device) = after.map_or(("", ""), |key| (key.client.as_str(), key.device.as_str()));
        let only = filter.client.as_ref().map(margo::ids::ClientId::as_str);
        // A page of one client starts at that client, wherever the whole list would start.
        let (client, device) = match only {
            Some(only) if client != only => (only, ""),
            _ => (client, device),
        };
        let query = match (Driver::of(&filter.selector), only.is_some()) {
            (Driver::None, false) => sqlx::query(select_device!(
                "WHERE (d.client_id, d.device_id) > ($1, $2) AND $3 IS NULL ORDER BY d.client_id, d.device_id LIMIT $4"
            )),
            (Driver::None, true) => sqlx::query(select_device!(
                "WHERE d.client_id = $1 AND d.device_id > $2 AND d.client_id = $3 ORDER BY d.client_id, d.device_id LIMIT $4"
            )),
            (Driver::Key(_), _) => sqlx::query(select_device!(
                "JOIN (SELECT DISTINCT client_id, device_id FROM device_labels
                       WHERE label_key = $5 AND (client_id, device_id) > ($1, $2) AND ($3 IS NULL OR client_id = $3)
                       ORDER BY client_id, device_id LIMIT $4) l ON l.client_id = d.client_id AND l.device_id = d.device_id
                 ORDER BY d.client_id, d.device_id"
            )),
            (Driver::Values(..), _) => sqlx::query(select_device!(
                "JOIN (SELECT DISTINCT client_id, device_id FROM device_labels
                       WHERE label_key = $5 AND label_value IN ($6, $7, $8, $9, $10, $11, $12, $13)
                         AND (client_id, device_id) > ($1, $2) AND ($3 IS NULL OR client_id = $3)
                       ORDER BY client_id, device_id LIMIT $4) l ON l.client_id = d.client_id AND l.device_id = d.device_id
                 ORDER BY d.client_id, d.device_id"
            )),
        };
        let query =
            query.bind(client.to_owned()).bind(device.to_owned()).bind(only.map(str::to_owned)).bind(i64::from(chunk));
        let query = match Driver::of(&filter.selector) {
            Driver::None => query,
            Driver::Key(key) => query.bind(key.to_owned()),
            Driver::Values(key, values) => {
                values.iter().fold(query.bind(key.to_owned()), |query, value| query.bind((*value).to_owned()))
            }
        };
        query.fetch_all(&self.read).await.during("list devices")
    }
}

fn matches(selector: &LabelSelector, row: &AnyRow, device: &Device) -> Result<bool> {
    if selector.requirements.is_empty() {
        return Ok(true);
    }
    let reported: ReportedLabels = Columns::of("devices", row).json("reported_labels")?;
    Ok(selector.matches(|key| {
        let own = reported.get(key).into_iter().flatten().map(String::as_str);
        own.chain(device.operator_labels.get(key).map(String::as_str)).collect()
    }))
}
