//! Deployments and their revisions.

use crate::batched::select_in;
use crate::error::During;
use crate::rows::Columns;
use crate::seal::{Cell, Sealing};
use crate::statuses::read_reported;
use crate::{Result, Store, blobs};
use margo::ids::{ApplicationId, ClientId, DeploymentId, DeviceTarget};
use margrave_core::deployment_state::DeploymentState;
use margrave_core::model::{Deployment, DeploymentRevision, Desired, Reported, RolloutKind};
use margrave_core::policy::{Policy, PolicyUpdate};
use margrave_core::time::Timestamp;
use sqlx::any::AnyRow;
use std::fmt::{self, Display};
use uuid::Uuid;

/// The rules of [`margrave_core::deployment_state::state_of`] in SQL, over `d` (deployments), `s` (statuses) and `c`
/// (client_seen);
/// `$1` is the instant before which a client counts as offline. The conformance suite compares the two.
macro_rules! deployment_state_case {
    () => {
        "CASE
            WHEN d.desired = 'absent' AND s.state = 'removed' AND s.adopted_version <> 0 THEN 'removed'
            WHEN d.desired = 'absent' AND s.state IS NULL AND c.seen_at > d.updated_at THEN 'removed'
            WHEN d.desired = 'present' AND s.state = 'installed' AND s.adopted_version <> 0
                 AND s.adopted_version >= d.target_version THEN 'up-to-date'
            WHEN s.failed_version IS NOT NULL AND s.failed_version >= d.target_version THEN 'failed'
            WHEN c.seen_at IS NULL OR c.seen_at < $1 THEN 'device-offline'
            WHEN s.state IS NULL THEN 'pending'
            WHEN s.adopted_version <> 0 AND s.adopted_version < d.target_version
                 AND s.adopted_version >= d.changed_version THEN 'pending'
            WHEN s.adopted_version = 0 OR s.adopted_version < d.target_version
                 THEN CASE WHEN d.desired = 'absent' THEN 'pending' ELSE 'outdated' END
            WHEN d.desired = 'absent' THEN 'removing'
            ELSE 'updating'
         END"
    };
}
pub(crate) use deployment_state_case;

/// Deployments with their statuses.
macro_rules! deployments_with_status {
    () => {
        "deployments d JOIN statuses s ON s.deployment_id = d.id LEFT JOIN client_seen c ON c.client_id = d.client_id"
    };
}
pub(crate) use deployments_with_status;

/// Of `s` (statuses), what [`read_view`] reads.
macro_rules! reported_columns {
    () => {
        "s.state, s.adopted_version, s.body, s.received_at, s.failed_version, s.failed_body, s.failed_at,
         s.failed_since, s.failures"
    };
}
pub(crate) use reported_columns;

macro_rules! select_view {
    ($($rest:expr),+) => {
        concat!(
            "SELECT d.*, ", reported_columns!(), ", c.seen_at FROM ",
            deployments_with_status!(),
            $($rest),+
        )
    };
}

mod sorted;

/// One page, after `$2` up to `$11`. `$driver` is found through an index; the rest is checked row by row.
macro_rules! page {
    ($driver:literal) => {
        page!(select_view!(" WHERE ", $driver), "d.id")
    };
    ($select:expr, $key:literal) => {
        concat!(
            $select,
            " AND ", $key, " > $2 AND ", $key, " <= $11 AND ($3 IS NULL OR d.client_id = $3) AND ($4 IS NULL OR d.rollout_id = $4)
              AND ($5 IS NULL OR d.application = $5) AND ($6 IS NULL OR d.version = $6) AND ($7 IS NULL OR d.target = $7)
              AND ($8 = 1 OR d.desired = 'present') AND ($9 IS NULL OR $9 = ",
            deployment_state_case!(),
            ") ORDER BY ", $key, " LIMIT $10"
        )
    };
}

/// Failed deployments, found through an index of their own: CROSS JOIN keeps SQLite from starting with all deployments.
macro_rules! failed_page {
    () => {
        page!(
            concat!(
                "SELECT d.*, ",
                reported_columns!(),
                ", c.seen_at
             FROM statuses s CROSS JOIN deployments d LEFT JOIN client_seen c ON c.client_id = d.client_id
             WHERE s.failed_version IS NOT NULL AND d.id = s.deployment_id"
            ),
            "s.deployment_id"
        )
    };
}

/// The statement that reads the fewest rows.
fn page_of(filter: &DeploymentFilter) -> &'static str {
    match filter {
        DeploymentFilter { rollout: Some(_), .. } => page!("d.rollout_id = $4"),
        DeploymentFilter { client: Some(_), .. } => page!("d.client_id = $3"),
        // Of a large application few deployments have failed.
        DeploymentFilter { deployment_state: Some(DeploymentState::Failed), .. } => failed_page!(),
        DeploymentFilter { application: Some(_), .. } => page!("d.application = $5"),
        _ => page!("1 = 1"),
    }
}

/// Greater than every id in any collation: ids are hexadecimal.
pub(crate) const BEHIND_ALL: &str = "g";

#[derive(Debug, Clone, Default)]
pub struct DeploymentFilter {
    pub application: Option<ApplicationId>,
    pub version: Option<String>,
    pub client: Option<ClientId>,
    pub target: Option<DeviceTarget>,
    pub rollout: Option<Uuid>,
    pub deployment_state: Option<DeploymentState>,
    /// Also deployments that left the manifest.
    pub with_absent: bool,
}

/// A deployment with the last report of its client.
#[derive(Debug, Clone, PartialEq)]
pub struct DeploymentView {
    pub deployment: Deployment,
    pub reported: Option<Reported>,
    pub last_seen_at: Option<Timestamp>,
}

pub(crate) fn read_deployment(row: Columns<'_>, sealing: &Sealing) -> Result<Deployment> {
    let id = row.parsed("id")?;
    let (values, sensitive) = row.json_sealed("parameter_values", values_cell(&id), sealing)?;
    Ok(Deployment {
        id,
        client: row.parsed("client_id")?,
        target: row.parsed("target")?,
        application: row.parsed("application")?,
        version: row.text("version")?,
        profile: row.text("profile")?,
        values,
        sensitive,
        policy: row.named("policy", PolicyUpdate::parse)?.over(Policy::default()),
        revision: row.number("revision")?,
        desired: row.named("desired", Desired::parse)?,
        yaml_digest: row.parsed("yaml_digest")?,
        changed_version: row.unsigned("changed_version")?,
        target_version: row.unsigned("target_version")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        rollout: row.parsed("rollout_id")?,
    })
}

/// A deployment of an application, with its device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub deployment: DeploymentId,
    pub client: ClientId,
    pub target: DeviceTarget,
}

/// The cell with the values of a deployment.
pub(crate) fn values_cell(id: &DeploymentId) -> Cell<'_> {
    Cell::new("deployments.parameter_values", id)
}

/// One revision of a deployment, by name.
pub(crate) struct RevisionName(pub(crate) DeploymentId, pub(crate) i64);

impl RevisionName {
    /// The cell with its values.
    pub(crate) fn values_cell(&self) -> Cell<'_> {
        Cell::new("deployment_revisions.parameter_values", self)
    }
}

impl Display for RevisionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

pub(crate) fn read_view(row: &AnyRow, sealing: &Sealing) -> Result<DeploymentView> {
    let row = Columns::of("deployments", row);
    Ok(DeploymentView {
        deployment: read_deployment(row, sealing)?,
        reported: read_reported(row)?,
        last_seen_at: row.time_maybe("seen_at")?,
    })
}

fn read_revision(row: &AnyRow, sealing: &Sealing) -> Result<DeploymentRevision> {
    let row = Columns::of("deployment_revisions", row);
    let (deployment, revision) = (row.parsed("deployment_id")?, row.number("revision")?);
    let (values, _) = row.json_sealed("parameter_values", RevisionName(deployment, revision).values_cell(), sealing)?;
    Ok(DeploymentRevision {
        deployment,
        revision,
        action: row.named("action", RolloutKind::parse)?,
        version: row.text("version")?,
        profile: row.text("profile")?,
        values,
        yaml_digest: row.parsed("yaml_digest")?,
        manifest_version: row.unsigned("manifest_version")?,
        at: row.time("at")?,
        actor: row.text("actor")?,
        comment: row.text_maybe("comment")?,
        rollout: row.parsed("rollout_id")?,
        rollback_to: row.number_maybe("rollback_to")?,
    })
}

impl Store {
    pub async fn deployment_get(&self, id: DeploymentId) -> Result<Option<DeploymentView>> {
        let row = sqlx::query(select_view!(" WHERE d.id = $1")).bind(id.to_string()).fetch_optional(&self.read).await;
        row.during("read a deployment")?.map(|row| read_view(&row, &self.sealing)).transpose()
    }

    /// In order of id. `offline_before` as in [`margrave_core::deployment_state::state_of`], needed for the state filter.
    pub async fn deployments_page(
        &self,
        filter: &DeploymentFilter,
        offline_before: Timestamp,
        after: Option<DeploymentId>,
        limit: u32,
    ) -> Result<Vec<DeploymentView>> {
        self.deployments_up_to(filter, offline_before, after, BEHIND_ALL, limit).await
    }

    /// The same with bounded work: in a large fleet reads at most `read_max` deployments if no index leads to the
    /// matches.
    /// Also returns the last one that was read if there may be more after it.
    pub async fn deployments_search_bounded(
        &self,
        filter: &DeploymentFilter,
        offline_before: Timestamp,
        after: Option<DeploymentId>,
        limit: u32,
        read_max: u32,
    ) -> Result<(Vec<DeploymentView>, Option<DeploymentId>)> {
        let DeploymentFilter { client, rollout, deployment_state, target, version, .. } = filter;
        let led = client.is_some() || rollout.is_some() || *deployment_state == Some(DeploymentState::Failed);
        let all_match = deployment_state.is_none() && target.is_none() && version.is_none();
        let last = if led || all_match { None } else { self.deployment_id_after(after, read_max).await? };
        let bound = last.map(|id| id.to_string());
        let bound = bound.as_deref().unwrap_or(BEHIND_ALL);
        let found = self.deployments_up_to(filter, offline_before, after, bound, limit).await?;
        let next = if found.len() < limit as usize { last } else { found.last().map(|view| view.deployment.id) };
        Ok((found, next))
    }

    /// The id so many rows later, if there are that many.
    async fn deployment_id_after(&self, after: Option<DeploymentId>, places: u32) -> Result<Option<DeploymentId>> {
        let row = sqlx::query("SELECT id FROM deployments WHERE id > $1 ORDER BY id LIMIT 1 OFFSET $2")
            .bind(after.map(|id| id.to_string()).unwrap_or_default())
            .bind(i64::from(places) - 1)
            .fetch_optional(&self.read)
            .await
            .during("find the end of a page")?;
        row.map(|row| Columns::of("deployments", &row).parsed("id")).transpose()
    }

    async fn deployments_up_to(
        &self,
        filter: &DeploymentFilter,
        offline_before: Timestamp,
        after: Option<DeploymentId>,
        last: &str,
        limit: u32,
    ) -> Result<Vec<DeploymentView>> {
        let rows = sqlx::query(page_of(filter))
            .bind(offline_before.0)
            .bind(after.map(|id| id.to_string()).unwrap_or_default())
            .bind(filter.client.as_ref().map(ClientId::as_str))
            .bind(filter.rollout.map(|id| id.to_string()))
            .bind(filter.application.as_ref().map(ApplicationId::as_str))
            .bind(filter.version.as_deref())
            .bind(filter.target.as_ref().map(DeviceTarget::as_str))
            .bind(i64::from(filter.with_absent))
            .bind(filter.deployment_state.map(DeploymentState::as_str))
            .bind(i64::from(limit))
            .bind(last)
            .fetch_all(&self.read)
            .await
            .during("list deployments")?;
        rows.iter().map(|row| read_view(row, &self.sealing)).collect()
    }

    /// All deployments of these clients, present or being removed, in no order; one query for many clients.
    pub async fn deployments_of(&self, clients: &[ClientId]) -> Result<Vec<DeploymentView>> {
        const ATTEMPT: &str = "list the deployments of clients";
        let ids: Vec<String> = clients.iter().map(ToString::to_string).collect();
        let mut connection = self.read.acquire().await.during(ATTEMPT)?;
        let rows = select_in(&mut connection, select_view!(" WHERE d.client_id IN"), &ids, "", ATTEMPT).await?;
        rows.iter().map(|row| read_view(row, &self.sealing)).collect()
    }

    /// Where these clients have the application, in no order; one query for many clients.
    pub async fn application_locations(&self, application: &ApplicationId, clients: &[ClientId]) -> Result<Vec<Place>> {
        let ids: Vec<String> = clients.iter().map(ToString::to_string).collect();
        let mut connection = self.read.acquire().await.during("find deployments of an application")?;
        let rows = select_in(
            &mut connection,
            "SELECT id, client_id, target, application FROM deployments WHERE desired = 'present' AND client_id IN",
            &ids,
            "",
            "find deployments of an application",
        )
        .await?;
        let mut places = Vec::new();
        for row in &rows {
            let row = Columns::of("deployments", row);
            if row.text("application")? == application.as_str() {
                let (deployment, client, target) = (row.parsed("id")?, row.parsed("client_id")?, row.parsed("target")?);
                places.push(Place { deployment, client, target });
            }
        }
        Ok(places)
    }

    /// Newest first, at most the retained number.
    pub async fn deployment_revisions(&self, id: DeploymentId) -> Result<Vec<DeploymentRevision>> {
        let rows = sqlx::query("SELECT * FROM deployment_revisions WHERE deployment_id = $1 ORDER BY revision DESC")
            .bind(id.to_string())
            .fetch_all(&self.read)
            .await
            .during("read the revisions of a deployment")?;
        rows.iter().map(|row| read_revision(row, &self.sealing)).collect()
    }

    /// The YAML currently or formerly served for this deployment.
    pub async fn deployment_document(&self, id: DeploymentId, revision: i64) -> Result<Option<Vec<u8>>> {
        let row = sqlx::query(
            "SELECT b.digest, b.body, b.sealed_with FROM deployment_revisions r JOIN blobs b ON b.digest = r.yaml_digest
             WHERE r.deployment_id = $1 AND r.revision = $2",
        )
        .bind(id.to_string())
        .bind(revision)
        .fetch_optional(&self.read)
        .await
        .during("read the document of a deployment")?;
        let Some(row) = row else { return Ok(None) };
        let row = Columns::of("blobs", &row);
        blobs::read(row, &row.parsed("digest")?, &self.sealing).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::{DeploymentFilter, DeploymentState, page_of};
    use crate::{Store, StoreOptions};
    use sqlx::{AssertSqlSafe, Row as _};

    #[tokio::test]
    async fn finds_failed_deployments_of_an_application_through_the_failure_index() {
        let options = StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 };
        let store = Store::open(&options).await.unwrap();
        let application = Some("press-vision".parse().unwrap());
        let filter =
            DeploymentFilter { application, deployment_state: Some(DeploymentState::Failed), ..Default::default() };
        let explain = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", page_of(&filter))));
        let rows = explain.fetch_all(&store.read).await.unwrap();
        let first: String = rows[0].get("detail");
        assert!(first.contains("statuses_unsuccessful_deployments"), "{first}");
    }
}
