//! Device search: by part of the name, labels and state; a page of devices, or a count.

mod sorted;

use super::{read, select_device};
use crate::batched::select_in;
use crate::error::During;
use crate::rows::{Columns, containing};
use crate::sql::Sql;
use crate::{Result, Store};
use margo::ids::{ApplicationId, ClientId, DeploymentId};
use margrave_core::model::{Device, DeviceKey, DeviceState};
use margrave_core::selector::{LabelSelector, Requirement};
use margrave_core::time::Timestamp;
use sqlx::any::AnyRow;
use std::collections::BTreeMap;

/// The search criteria; all must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceSearch {
    pub selector: LabelSelector,
    /// Part of the id of the device or its client, in any case.
    pub text: Option<String>,
    pub state: Option<DeviceState>,
    /// A client last seen before this instant counts as offline.
    pub offline_before: Timestamp,
    /// Only devices with this application assigned.
    pub runs: Option<Runs>,
}

/// An application on a device, or placed by its gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runs {
    pub application: ApplicationId,
    pub version: RunsVersion,
    /// Few devices run it, so that the application leads to them faster than they lead to it.
    pub few: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunsVersion {
    Any,
    Is(String),
    IsNot(String),
}

impl Runs {
    /// The condition on a deployment `r`. Its application drives the query only if the devices do not: for an
    /// application on nearly every device, all its deployments would be read for each device.
    fn condition(&self, sql: &mut Sql, leads: bool) -> String {
        let application = sql.text(self.application.to_string());
        let version = match &self.version {
            RunsVersion::Any => String::new(),
            RunsVersion::Is(version) => format!(" AND r.version = {}", sql.text(version.as_str())),
            RunsVersion::IsNot(version) => format!(" AND r.version <> {}", sql.text(version.as_str())),
        };
        let column = if leads { "r.application" } else { "r.application || ''" };
        format!("{column} = {application} AND r.desired = 'present'{version}")
    }
}

/// A deployment `r` is on the device `k`.
const ON_DEVICE: &str = "r.client_id = k.client_id AND (r.target = k.device_id OR r.target = k.device_id || '/*')";

const BLOCKED: &str = "EXISTS (SELECT 1 FROM clients x WHERE x.id = k.client_id AND x.state <> 'accepted')";
const FAILING: &str = "EXISTS (SELECT 1 FROM statuses f JOIN deployments d ON d.id = f.deployment_id
    WHERE f.client_id = k.client_id AND f.failed_version IS NOT NULL AND f.failed_version >= d.target_version
      AND (d.target = k.device_id OR d.target = k.device_id || '/*'))";
/// Some desired deployment has not failed.
const OTHERS: &str = "EXISTS (SELECT 1 FROM deployments o JOIN statuses g ON g.deployment_id = o.id
    WHERE o.client_id = k.client_id AND o.desired = 'present' AND (o.target = k.device_id OR o.target = k.device_id || '/*')
      AND (g.failed_version IS NULL OR g.failed_version < o.target_version))";
const UPDATING: &str = "EXISTS (SELECT 1 FROM deployments d JOIN statuses s ON s.deployment_id = d.id
    WHERE d.client_id = k.client_id AND (d.target = k.device_id OR d.target = k.device_id || '/*')
      AND NOT (d.desired = 'absent' AND COALESCE(s.state, '') = 'removed' AND COALESCE(s.adopted_version, 0) <> 0)
      AND NOT (d.desired = 'absent' AND s.state IS NULL
               AND EXISTS (SELECT 1 FROM client_seen n WHERE n.client_id = d.client_id AND n.seen_at > d.updated_at))
      AND NOT (d.desired = 'present' AND COALESCE(s.state, '') = 'installed' AND COALESCE(s.adopted_version, 0) <> 0
               AND COALESCE(s.adopted_version, 0) >= d.target_version))";

fn offline(since: &str) -> String {
    format!("NOT EXISTS (SELECT 1 FROM client_seen n WHERE n.client_id = k.client_id AND n.seen_at >= {since})")
}

/// The first state that applies, in the order of [`DeviceState`].
fn state_case(since: &str) -> String {
    let offline = offline(since);
    format!(
        "CASE WHEN {BLOCKED} THEN 'blocked' WHEN {FAILING} THEN CASE WHEN {OTHERS} THEN 'degraded' ELSE 'failed' END
              WHEN {offline} THEN 'offline'
              WHEN {UPDATING} THEN 'updating' ELSE 'online' END"
    )
}

/// Only the conditions needed for one state: in a large fleet the first condition excludes most devices.
fn state_condition(state: DeviceState, since: &str) -> String {
    let offline = offline(since);
    match state {
        DeviceState::Blocked => BLOCKED.to_owned(),
        DeviceState::Failed => format!("{FAILING} AND NOT {BLOCKED} AND NOT {OTHERS}"),
        DeviceState::Degraded => format!("{FAILING} AND NOT {BLOCKED} AND {OTHERS}"),
        DeviceState::Offline => format!("{offline} AND NOT {BLOCKED} AND NOT {FAILING}"),
        DeviceState::Updating => format!("NOT ({offline}) AND {UPDATING} AND NOT {BLOCKED} AND NOT {FAILING}"),
        DeviceState::Online => format!("NOT ({offline}) AND NOT {UPDATING} AND NOT {BLOCKED} AND NOT {FAILING}"),
    }
}

/// The labels of the device `k` with a key.
fn labels(key: &str) -> String {
    format!(
        "SELECT 1 FROM device_labels l WHERE l.client_id = k.client_id AND l.device_id = k.device_id AND l.label_key = {key}"
    )
}

fn requirement(sql: &mut Sql, requirement: &Requirement) -> String {
    let key = sql.text(requirement.key());
    let labels = labels(&key);
    match requirement {
        Requirement::Equals(_, value) => format!("EXISTS ({labels} AND l.label_value = {})", sql.text(value.as_str())),
        Requirement::NotEquals(_, value) => {
            format!("NOT EXISTS ({labels} AND l.label_value = {})", sql.text(value.as_str()))
        }
        Requirement::In(_, values) => format!("EXISTS ({labels} AND l.label_value IN ({}))", sql.texts(values)),
        Requirement::NotIn(_, values) => format!("NOT EXISTS ({labels} AND l.label_value IN ({}))", sql.texts(values)),
        Requirement::Exists(_) => format!("EXISTS ({labels})"),
        Requirement::DoesNotExist(_) => format!("NOT EXISTS ({labels})"),
    }
}

/// Where keys come from: the label index if a value is named, otherwise all devices.
fn source(sql: &mut Sql, selector: &LabelSelector) -> (String, Option<usize>) {
    let named = |requirement: &Requirement| matches!(requirement, Requirement::Equals(..) | Requirement::In(..));
    let Some(index) = selector.requirements.iter().position(named) else { return ("devices".to_owned(), None) };
    let driver = &selector.requirements[index];
    let key = sql.text(driver.key());
    let values = match driver {
        Requirement::Equals(_, value) => sql.text(value.as_str()),
        Requirement::In(_, values) => sql.texts(values),
        _ => String::new(),
    };
    let text = format!(
        "(SELECT DISTINCT client_id, device_id FROM device_labels WHERE label_key = {key} AND label_value IN ({values}))"
    );
    (text, Some(index))
}

impl DeviceSearch {
    /// The source of keys and the conditions on them.
    fn begin(&self, sql: &mut Sql) -> String {
        let (mut source, driver) = source(sql, &self.selector);
        if let Some(runs) = &self.runs {
            let leads = runs.few && driver.is_none();
            let condition = runs.condition(sql, leads);
            if leads {
                source = format!(
                    "(SELECT DISTINCT r.client_id, CASE WHEN r.target LIKE '%/*' THEN SUBSTR(r.target, 1, LENGTH(r.target) - 2)
                             ELSE r.target END AS device_id FROM deployments r WHERE {condition})"
                );
            } else {
                sql.and(format!("EXISTS (SELECT 1 FROM deployments r WHERE {ON_DEVICE} AND {condition})"));
            }
        }
        for (index, wanted) in self.selector.requirements.iter().enumerate() {
            if driver != Some(index) {
                let condition = requirement(sql, wanted);
                sql.and(condition);
            }
        }
        if let Some(text) = self.text.as_deref().filter(|text| !text.is_empty()) {
            let place = sql.text(containing(text));
            sql.and(format!(
                "(LOWER(k.device_id) LIKE {place} ESCAPE '\\' OR LOWER(k.client_id) LIKE {place} ESCAPE '\\')"
            ));
        }
        source
    }
}

impl DeviceSearch {
    /// Only deployments `d` on matching devices.
    pub(crate) fn and_deployment(&self, sql: &mut Sql) {
        let (source, conditions) = sql.inner(|sql| {
            let source = self.begin(sql);
            if let Some(state) = self.state {
                let since = sql.number(self.offline_before.0);
                sql.and(state_condition(state, &since));
            }
            source
        });
        sql.and(format!(
            "EXISTS (SELECT 1 FROM {source} k WHERE k.client_id = d.client_id
                     AND (d.target = k.device_id OR d.target = k.device_id || '/*') AND {conditions})"
        ));
    }
}

impl Store {
    /// The first device of each of these clients: its own, if it has the name of the client. One query for many
    /// clients.
    pub async fn devices_first(&self, clients: &[ClientId]) -> Result<BTreeMap<String, String>> {
        const ATTEMPT: &str = "look for the devices of clients";
        let ids: Vec<String> = clients.iter().map(ToString::to_string).collect();
        let mut connection = self.read.acquire().await.during(ATTEMPT)?;
        // An unused placeholder repeats the last client, which does not change its group.
        let select = "SELECT client_id, MIN(CASE WHEN device_id = client_id THEN '' ELSE device_id END) AS device
                      FROM devices WHERE client_id IN";
        let rows = select_in(&mut connection, select, &ids, "GROUP BY client_id", ATTEMPT).await?;
        let first = |row: &AnyRow| {
            let row = Columns::of("devices", row);
            let (client, device) = (row.text("client_id")?, row.text("device")?);
            Ok(if device.is_empty() { (client.clone(), client) } else { (client, device) })
        };
        rows.iter().map(first).collect()
    }

    /// In order of key. In a large fleet reads at most `read_max` devices if no index leads to the matches. Also
    /// returns where to continue if there may be more.
    pub async fn devices_search_bounded(
        &self,
        search: &DeviceSearch,
        after: Option<&DeviceKey>,
        limit: u32,
        read_max: u32,
    ) -> Result<(Vec<Device>, Option<DeviceKey>)> {
        let last = match search.state {
            None | Some(DeviceState::Failed | DeviceState::Degraded) => None,
            Some(_) => self.device_key_after(after, read_max).await?,
        };
        let mut found = self.devices_between(search, after, last.as_ref(), limit.saturating_add(1)).await?;
        let more = found.len() > limit as usize;
        found.truncate(limit as usize);
        let next = if more { found.last().map(|device| device.key.clone()) } else { last };
        Ok((found, next))
    }

    /// The key so many rows later, if there are that many.
    async fn device_key_after(&self, after: Option<&DeviceKey>, places: u32) -> Result<Option<DeviceKey>> {
        let row = sqlx::query(
            "SELECT client_id, device_id FROM devices WHERE (client_id, device_id) > ($1, $2)
             ORDER BY client_id, device_id LIMIT 1 OFFSET $3",
        )
        .bind(after.map(|key| key.client.to_string()).unwrap_or_default())
        .bind(after.map(|key| key.device.to_string()).unwrap_or_default())
        .bind(i64::from(places) - 1)
        .fetch_optional(&self.read)
        .await
        .during("find the end of a page")?;
        let Some(row) = &row else { return Ok(None) };
        let row = Columns::of("devices", row);
        Ok(Some(DeviceKey { client: row.parsed("client_id")?, device: row.parsed("device_id")? }))
    }

    /// After `after`, up to `last`.
    async fn devices_between(
        &self,
        search: &DeviceSearch,
        after: Option<&DeviceKey>,
        last: Option<&DeviceKey>,
        limit: u32,
    ) -> Result<Vec<Device>> {
        let mut sql = Sql::default();
        let source = search.begin(&mut sql);
        if let Some(state) = search.state {
            let since = sql.number(search.offline_before.0);
            sql.and(state_condition(state, &since));
        }
        if let Some(after) = after {
            let (client, device) = (sql.text(after.client.as_str()), sql.text(after.device.as_str()));
            sql.and(format!("(k.client_id, k.device_id) > ({client}, {device})"));
        }
        if let Some(last) = last {
            let (client, device) = (sql.text(last.client.as_str()), sql.text(last.device.as_str()));
            sql.and(format!("(k.client_id, k.device_id) <= ({client}, {device})"));
        }
        let (conditions, limit) = (sql.conditions(), sql.number(i64::from(limit)));
        let text = format!(
            "{} JOIN (SELECT k.client_id, k.device_id FROM {source} k WHERE {conditions}
                      ORDER BY k.client_id, k.device_id LIMIT {limit}) f
                  ON f.client_id = d.client_id AND f.device_id = d.device_id ORDER BY d.client_id, d.device_id",
            select_device!("")
        );
        let rows = sql.query(text).fetch_all(&self.read).await.during("look for devices")?;
        rows.iter().map(read).collect()
    }

    /// The keys of all matches, up to `limit`, in order; with [`DeviceSearch::runs`] each with the deployment on it.
    pub async fn device_keys(
        &self,
        search: &DeviceSearch,
        limit: u32,
    ) -> Result<Vec<(DeviceKey, Option<DeploymentId>)>> {
        let mut sql = Sql::default();
        let source = search.begin(&mut sql);
        if let Some(state) = search.state {
            let since = sql.number(search.offline_before.0);
            sql.and(state_condition(state, &since));
        }
        let (column, join) = match &search.runs {
            Some(runs) => {
                let condition = runs.condition(&mut sql, false);
                (", r.id", format!(" JOIN deployments r ON {ON_DEVICE} AND {condition}"))
            }
            None => ("", String::new()),
        };
        let (conditions, limit) = (sql.conditions(), sql.number(i64::from(limit)));
        let text = format!(
            "SELECT k.client_id, k.device_id{column} FROM {source} k{join} WHERE {conditions}
             ORDER BY k.client_id, k.device_id LIMIT {limit}"
        );
        let runs = search.runs.is_some();
        let rows = sql.query(text).fetch_all(&self.read).await.during("list device keys")?;
        let read = |row| {
            let row = Columns::of("devices", row);
            let key = DeviceKey { client: row.parsed("client_id")?, device: row.parsed("device_id")? };
            Ok((key, if runs { Some(row.parsed("id")?) } else { None }))
        };
        rows.iter().map(read).collect()
    }

    /// The number of devices per state; ignores `state` of the search.
    pub async fn devices_counted(&self, search: &DeviceSearch) -> Result<BTreeMap<DeviceState, u64>> {
        let mut sql = Sql::default();
        let source = search.begin(&mut sql);
        let since = sql.number(search.offline_before.0);
        let text = format!(
            "SELECT device_state, COUNT(*) AS devices FROM (SELECT {} AS device_state FROM {source} k WHERE {}) counted
             GROUP BY device_state",
            state_case(&since),
            sql.conditions()
        );
        let rows = sql.query(text).fetch_all(&self.read).await.during("count devices")?;
        let read = |row| {
            let row = Columns::of("devices", row);
            Ok((row.named("device_state", DeviceState::parse)?, row.unsigned("devices")?))
        };
        rows.iter().map(read).collect()
    }

    /// The number of matching devices; ignores `state` of the search.
    pub async fn devices_matching(&self, search: &DeviceSearch) -> Result<u64> {
        let mut sql = Sql::default();
        let source = search.begin(&mut sql);
        let text = format!("SELECT COUNT(*) AS devices FROM {source} k WHERE {}", sql.conditions());
        let row = sql.query(text).fetch_one(&self.read).await.during("count devices that match")?;
        Columns::of("devices", &row).unsigned("devices")
    }

    /// The values of a label on all devices, in order; at most `limit`.
    pub async fn label_values(&self, key: &str, limit: u32) -> Result<Vec<String>> {
        let rows = sqlx::query(
            "SELECT DISTINCT label_value FROM device_labels WHERE label_key = $1 ORDER BY label_value LIMIT $2",
        )
        .bind(key)
        .bind(i64::from(limit))
        .fetch_all(&self.read)
        .await
        .during("list the values of a label")?;
        rows.iter().map(|row| Columns::of("device_labels", row).text("label_value")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreOptions;
    use sqlx::Row as _;

    #[tokio::test]
    async fn searches_by_device_for_an_application_on_most_devices() {
        let store = Store::open(&StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 }).await.unwrap();
        for (few, index) in [(false, "deployments_by_client"), (true, "deployments_by_application")] {
            let runs = Runs { application: "beta".parse().unwrap(), version: RunsVersion::Any, few };
            let search = DeviceSearch { runs: Some(runs), ..DeviceSearch::default() };
            let mut sql = Sql::default();
            let source = search.begin(&mut sql);
            let text = format!("EXPLAIN QUERY PLAN SELECT k.client_id FROM {source} k WHERE {}", sql.conditions());
            let rows = sql.query(text).fetch_all(&store.read).await.unwrap();
            let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
            assert!(plan.iter().any(|step| step.contains(index)), "{few}: {plan:?}");
        }
    }
}
