//! Aggregated state, counted in SQL.

use crate::deployments::{deployment_state_case, deployments_with_status};
use crate::error::During;
use crate::rows::Columns;
use crate::{Result, Store};
use margo::ids::ApplicationId;
use margrave_core::deployment_state::DeploymentState;
use margrave_core::time::Timestamp;
use sqlx::any::AnyRow;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    pub clients_accepted: u64,
    pub clients_pending: u64,
    pub clients_decommissioned: u64,
    /// Accepted clients not seen since the given instant.
    pub clients_offline: u64,
    pub devices: u64,
    pub applications: u64,
    /// Desired deployments; removed ones are not counted.
    pub deployments: BTreeMap<DeploymentState, u64>,
    pub rollouts_unfinished: u64,
}

/// Offline devices of one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfflineSite {
    /// The label `site`, if they have one.
    pub site: Option<String>,
    pub devices: u64,
    /// When the last of them was seen.
    pub seen_at: Option<Timestamp>,
}

/// Compares the label as an expression, so that SQLite finds labels by device. With the label index
/// it would read every site of the fleet for each device.
const OFFLINE_LOCATIONS: &str = "SELECT site, COUNT(*) AS devices, MAX(seen_at) AS seen_at FROM (
         SELECT s.seen_at, (SELECT MIN(l.label_value) FROM device_labels l WHERE l.client_id = d.client_id
                            AND l.device_id = d.device_id AND l.label_key || '' = 'site') AS site
         FROM clients c JOIN devices d ON d.client_id = c.id LEFT JOIN client_seen s ON s.client_id = c.id
         WHERE c.state = 'accepted' AND (s.seen_at IS NULL OR s.seen_at < $1)) silent
     GROUP BY site ORDER BY COUNT(*) DESC, site LIMIT $2";

pub(crate) fn read_count(row: &AnyRow) -> Result<(DeploymentState, u64)> {
    let row = Columns::of("deployments", row);
    Ok((row.named("deployment_state", DeploymentState::parse)?, row.unsigned("deployment_count")?))
}

impl Store {
    pub async fn summary(&self, offline_before: Timestamp) -> Result<Summary> {
        let row = sqlx::query(
            "SELECT (SELECT COUNT(*) FROM clients WHERE state = 'accepted') AS accepted,
                    (SELECT COUNT(*) FROM clients WHERE state = 'pending') AS pending,
                    (SELECT COUNT(*) FROM clients WHERE state = 'decommissioned') AS decommissioned,
                    (SELECT COUNT(*) FROM clients c LEFT JOIN client_seen s ON s.client_id = c.id
                     WHERE c.state = 'accepted' AND (s.seen_at IS NULL OR s.seen_at < $1)) AS offline,
                    (SELECT COUNT(*) FROM devices) AS devices,
                    (SELECT COUNT(DISTINCT application) FROM application_versions) AS applications,
                    (SELECT COUNT(*) FROM rollouts WHERE finished_at IS NULL) AS unfinished",
        )
        .bind(offline_before.0)
        .fetch_one(&self.read)
        .await
        .during("summarize the fleet")?;
        let row = Columns::of("clients", &row);
        let counts = sqlx::query(concat!(
            "SELECT deployment_state, COUNT(*) AS deployment_count FROM (SELECT ",
            deployment_state_case!(),
            " AS deployment_state FROM ",
            deployments_with_status!(),
            " WHERE d.desired = 'present') counted GROUP BY deployment_state"
        ))
        .bind(offline_before.0)
        .fetch_all(&self.read)
        .await
        .during("count deployments")?;
        Ok(Summary {
            clients_accepted: row.unsigned("accepted")?,
            clients_pending: row.unsigned("pending")?,
            clients_decommissioned: row.unsigned("decommissioned")?,
            clients_offline: row.unsigned("offline")?,
            devices: row.unsigned("devices")?,
            applications: row.unsigned("applications")?,
            deployments: counts.iter().map(read_count).collect::<Result<_>>()?,
            rollouts_unfinished: row.unsigned("unfinished")?,
        })
    }

    /// Desired deployments, by application, version and state.
    pub async fn deployment_counts(
        &self,
        offline_before: Timestamp,
    ) -> Result<BTreeMap<String, BTreeMap<String, BTreeMap<DeploymentState, u64>>>> {
        let rows = sqlx::query(concat!(
            "SELECT application, version, deployment_state, COUNT(*) AS deployment_count FROM (SELECT d.application, d.version, ",
            deployment_state_case!(),
            " AS deployment_state FROM ",
            deployments_with_status!(),
            " WHERE d.desired = 'present') counted GROUP BY application, version, deployment_state"
        ))
        .bind(offline_before.0)
        .fetch_all(&self.read)
        .await
        .during("count deployments by application")?;
        let mut counts: BTreeMap<String, BTreeMap<String, BTreeMap<DeploymentState, u64>>> = BTreeMap::new();
        for row in &rows {
            let (deployment_state, count) = read_count(row)?;
            let row = Columns::of("deployments", row);
            let versions = counts.entry(row.text("application")?).or_default();
            versions.entry(row.text("version")?).or_default().insert(deployment_state, count);
        }
        Ok(counts)
    }

    /// Offline devices of accepted clients by site, most first.
    pub async fn offline_sites(&self, offline_before: Timestamp, limit: u32) -> Result<Vec<OfflineSite>> {
        let rows = sqlx::query(OFFLINE_LOCATIONS)
            .bind(offline_before.0)
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("find sites with offline devices")?;
        let read = |row| {
            let row = Columns::of("devices", row);
            Ok(OfflineSite {
                site: row.text_maybe("site")?,
                devices: row.unsigned("devices")?,
                seen_at: row.time_maybe("seen_at")?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// Deployments of one application by state, per version.
    pub async fn application_summary(
        &self,
        application: &ApplicationId,
        offline_before: Timestamp,
    ) -> Result<BTreeMap<String, BTreeMap<DeploymentState, u64>>> {
        let rows = sqlx::query(concat!(
            "SELECT version, deployment_state, COUNT(*) AS deployment_count FROM (SELECT d.version, ",
            deployment_state_case!(),
            " AS deployment_state FROM ",
            deployments_with_status!(),
            " WHERE d.application = $2 AND d.desired = 'present') counted GROUP BY version, deployment_state"
        ))
        .bind(offline_before.0)
        .bind(application.as_str())
        .fetch_all(&self.read)
        .await
        .during("count the deployments of an application")?;
        let mut summary: BTreeMap<String, BTreeMap<DeploymentState, u64>> = BTreeMap::new();
        for row in &rows {
            let (deployment_state, count) = read_count(row)?;
            let version = Columns::of("deployments", row).text("version")?;
            summary.entry(version).or_default().insert(deployment_state, count);
        }
        Ok(summary)
    }

    /// Deployments of one rollout by state; removed ones count too, since the rollout may be a removal.
    pub async fn rollout_summary(
        &self,
        rollout: uuid::Uuid,
        offline_before: Timestamp,
    ) -> Result<BTreeMap<DeploymentState, u64>> {
        let rows = sqlx::query(concat!(
            "SELECT deployment_state, COUNT(*) AS deployment_count FROM (SELECT ",
            deployment_state_case!(),
            " AS deployment_state FROM ",
            deployments_with_status!(),
            " WHERE d.rollout_id = $2) counted GROUP BY deployment_state"
        ))
        .bind(offline_before.0)
        .bind(rollout.to_string())
        .fetch_all(&self.read)
        .await
        .during("count the deployments of a rollout")?;
        rows.iter().map(read_count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::OFFLINE_LOCATIONS;
    use crate::{Store, StoreOptions};
    use sqlx::{AssertSqlSafe, Row as _};

    #[tokio::test]
    async fn finds_the_site_of_an_offline_device_by_device() {
        let options = StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 };
        let store = Store::open(&options).await.unwrap();
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {OFFLINE_LOCATIONS}")));
        let rows = explain.bind(0_i64).bind(6_i64).fetch_all(&store.read).await.unwrap();
        let details: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        let labels: Vec<&String> = details.iter().filter(|detail| detail.contains(" l ")).collect();
        assert!(!labels.is_empty(), "{details:?}");
        for detail in labels {
            assert!(detail.contains("(client_id=? AND device_id=?)"), "{detail}");
        }
    }
}
