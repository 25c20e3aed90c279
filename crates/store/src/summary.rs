//! Aggregated state, counted in SQL.

use crate::deployments::{convergence_case, deployments_with_status};
use crate::error::During;
use crate::rows::Columns;
use crate::{Result, Store};
use margo::ids::ApplicationId;
use margrave_core::convergence::Convergence;
use margrave_core::time::Timestamp;
use sqlx::any::AnyRow;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    pub clients_accepted: u64,
    pub clients_pending: u64,
    pub clients_retired: u64,
    /// Accepted clients that have not been heard of since the instant given.
    pub clients_silent: u64,
    pub devices: u64,
    pub applications: u64,
    /// Deployments that are desired; those dropped from a manifest are not counted.
    pub deployments: BTreeMap<Convergence, u64>,
    pub changes_unfinished: u64,
}

/// Devices of one site nobody hears of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilentPlace {
    /// The label `site`, where they have one.
    pub site: Option<String>,
    pub devices: u64,
    /// When the last of them was heard of.
    pub seen_at: Option<Timestamp>,
}

/// The label is compared as an expression, so that the labels of each device are found by the device. By the index of labels
/// SQLite would go through every site of the fleet for each device of it.
const SILENT_PLACES: &str = "SELECT site, COUNT(*) AS devices, MAX(seen_at) AS seen_at FROM (
         SELECT s.seen_at, (SELECT MIN(l.label_value) FROM device_labels l WHERE l.client_id = d.client_id
                            AND l.device_id = d.device_id AND l.label_key || '' = 'site') AS site
         FROM clients c JOIN devices d ON d.client_id = c.id LEFT JOIN client_seen s ON s.client_id = c.id
         WHERE c.state = 'accepted' AND (s.seen_at IS NULL OR s.seen_at < $1)) silent
     GROUP BY site ORDER BY COUNT(*) DESC, site LIMIT $2";

pub(crate) fn read_count(row: &AnyRow) -> Result<(Convergence, u64)> {
    let row = Columns::of("deployments", row);
    Ok((row.named("convergence", Convergence::parse)?, row.unsigned("deployment_count")?))
}

impl Store {
    pub async fn summary(&self, silent_since: Timestamp) -> Result<Summary> {
        let row = sqlx::query(
            "SELECT (SELECT COUNT(*) FROM clients WHERE state = 'accepted') AS accepted,
                    (SELECT COUNT(*) FROM clients WHERE state = 'pending') AS pending,
                    (SELECT COUNT(*) FROM clients WHERE state = 'retired') AS retired,
                    (SELECT COUNT(*) FROM clients c LEFT JOIN client_seen s ON s.client_id = c.id
                     WHERE c.state = 'accepted' AND (s.seen_at IS NULL OR s.seen_at < $1)) AS silent,
                    (SELECT COUNT(*) FROM devices) AS devices,
                    (SELECT COUNT(DISTINCT application) FROM application_versions) AS applications,
                    (SELECT COUNT(*) FROM changes WHERE finished_at IS NULL) AS unfinished",
        )
        .bind(silent_since.0)
        .fetch_one(&self.read)
        .await
        .during("summarise the fleet")?;
        let row = Columns::of("clients", &row);
        let counts = sqlx::query(concat!(
            "SELECT convergence, COUNT(*) AS deployment_count FROM (SELECT ",
            convergence_case!(),
            " AS convergence FROM ",
            deployments_with_status!(),
            " WHERE d.desired = 'present') counted GROUP BY convergence"
        ))
        .bind(silent_since.0)
        .fetch_all(&self.read)
        .await
        .during("count deployments")?;
        Ok(Summary {
            clients_accepted: row.unsigned("accepted")?,
            clients_pending: row.unsigned("pending")?,
            clients_retired: row.unsigned("retired")?,
            clients_silent: row.unsigned("silent")?,
            devices: row.unsigned("devices")?,
            applications: row.unsigned("applications")?,
            deployments: counts.iter().map(read_count).collect::<Result<_>>()?,
            changes_unfinished: row.unsigned("unfinished")?,
        })
    }

    /// Deployments that are desired, by application, version and convergence.
    pub async fn deployment_counts(
        &self,
        silent_since: Timestamp,
    ) -> Result<BTreeMap<String, BTreeMap<String, BTreeMap<Convergence, u64>>>> {
        let rows = sqlx::query(concat!(
            "SELECT application, version, convergence, COUNT(*) AS deployment_count FROM (SELECT d.application, d.version, ",
            convergence_case!(),
            " AS convergence FROM ",
            deployments_with_status!(),
            " WHERE d.desired = 'present') counted GROUP BY application, version, convergence"
        ))
        .bind(silent_since.0)
        .fetch_all(&self.read)
        .await
        .during("count deployments by application")?;
        let mut counts: BTreeMap<String, BTreeMap<String, BTreeMap<Convergence, u64>>> = BTreeMap::new();
        for row in &rows {
            let (convergence, count) = read_count(row)?;
            let row = Columns::of("deployments", row);
            let versions = counts.entry(row.text("application")?).or_default();
            versions.entry(row.text("version")?).or_default().insert(convergence, count);
        }
        Ok(counts)
    }

    /// Silent devices of accepted clients by site, most first.
    pub async fn silent_places(&self, silent_since: Timestamp, limit: u32) -> Result<Vec<SilentPlace>> {
        let rows = sqlx::query(SILENT_PLACES)
            .bind(silent_since.0)
            .bind(i64::from(limit))
            .fetch_all(&self.read)
            .await
            .during("look for sites that are silent")?;
        let read = |row| {
            let row = Columns::of("devices", row);
            Ok(SilentPlace {
                site: row.text_maybe("site")?,
                devices: row.unsigned("devices")?,
                seen_at: row.time_maybe("seen_at")?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// Deployments of one application by convergence, per version.
    pub async fn application_summary(
        &self,
        application: &ApplicationId,
        silent_since: Timestamp,
    ) -> Result<BTreeMap<String, BTreeMap<Convergence, u64>>> {
        let rows = sqlx::query(concat!(
            "SELECT version, convergence, COUNT(*) AS deployment_count FROM (SELECT d.version, ",
            convergence_case!(),
            " AS convergence FROM ",
            deployments_with_status!(),
            " WHERE d.application = $2 AND d.desired = 'present') counted GROUP BY version, convergence"
        ))
        .bind(silent_since.0)
        .bind(application.as_str())
        .fetch_all(&self.read)
        .await
        .during("count the deployments of an application")?;
        let mut summary: BTreeMap<String, BTreeMap<Convergence, u64>> = BTreeMap::new();
        for row in &rows {
            let (convergence, count) = read_count(row)?;
            let version = Columns::of("deployments", row).text("version")?;
            summary.entry(version).or_default().insert(convergence, count);
        }
        Ok(summary)
    }

    /// Deployments of one change by convergence; removed ones count too, since removal may be what the change was for.
    pub async fn change_summary(
        &self,
        change: uuid::Uuid,
        silent_since: Timestamp,
    ) -> Result<BTreeMap<Convergence, u64>> {
        let rows = sqlx::query(concat!(
            "SELECT convergence, COUNT(*) AS deployment_count FROM (SELECT ",
            convergence_case!(),
            " AS convergence FROM ",
            deployments_with_status!(),
            " WHERE d.change_id = $2) counted GROUP BY convergence"
        ))
        .bind(silent_since.0)
        .bind(change.to_string())
        .fetch_all(&self.read)
        .await
        .during("count the deployments of a change")?;
        rows.iter().map(read_count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::SILENT_PLACES;
    use crate::{Store, StoreOptions};
    use sqlx::{AssertSqlSafe, Row as _};

    #[tokio::test]
    async fn the_site_of_a_silent_device_is_found_by_the_device() {
        let options = StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 };
        let store = Store::open(&options).await.unwrap();
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {SILENT_PLACES}")));
        let rows = explain.bind(0_i64).bind(6_i64).fetch_all(&store.read).await.unwrap();
        let details: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        let labels: Vec<&String> = details.iter().filter(|detail| detail.contains(" l ")).collect();
        assert!(!labels.is_empty(), "{details:?}");
        for detail in labels {
            assert!(detail.contains("(client_id=? AND device_id=?)"), "{detail}");
        }
    }
}
