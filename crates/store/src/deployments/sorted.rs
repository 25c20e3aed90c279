//! Deployments in the order of a column.

use super::{DeploymentFilter, DeploymentView, read_view};
use crate::batched::select_in;
use crate::error::During;
use crate::rows::Columns;
use crate::sql::{Order, Sql, position, read_value};
use crate::{DeviceSearch, Result, Store};
use margo::ids::DeploymentId;
use margrave_core::deployment_state::DeploymentState;
use margrave_core::sort::{Column as _, DeploymentColumn, Sort, SortValue, deployment_severity};
use margrave_core::time::Timestamp;
use std::collections::HashMap;

impl Store {
    /// The ids of one page, each with its value, after a value and an id; with `devices`, only deployments on these.
    /// Reads all matches, except in the order of the application. `offline_before` as in
    /// [`margrave_core::deployment_state::state_of`].
    pub async fn deployments_sorted(
        &self,
        filter: &DeploymentFilter,
        devices: Option<&DeviceSearch>,
        offline_before: Timestamp,
        sort: Sort<DeploymentColumn>,
        after: Option<&(SortValue, DeploymentId)>,
        limit: u32,
    ) -> Result<Vec<(SortValue, DeploymentId)>> {
        let mut sql = Sql::default();
        // `$1` of the rules.
        let since = sql.number(offline_before.0);
        sql.and(format!("{since} >= {since}"));
        conditions(&mut sql, filter);
        if let Some(devices) = devices {
            devices.and_deployment(&mut sql);
        }
        let value = match sort.column {
            DeploymentColumn::Application => "d.application".to_owned(),
            DeploymentColumn::Device => "d.target".to_owned(),
            DeploymentColumn::State => {
                let severities = DeploymentState::ALL.map(|state| (state.as_str(), deployment_severity(state)));
                position(deployment_state_case!(), severities)
            }
            DeploymentColumn::LastReport => "COALESCE(s.received_at, 0)".to_owned(),
        };
        let order = Order { value: &value, key: &["d.id"], descending: sort.descending };
        if let Some((value, id)) = after {
            let after = order.after(&mut sql, value, &[&id.to_string()]);
            sql.and(after);
        }
        let (conditions, limit) = (sql.conditions(), sql.number(i64::from(limit)));
        let text = format!(
            "SELECT d.id, {value} AS sort_value FROM {} WHERE {conditions} ORDER BY {} LIMIT {limit}",
            deployments_with_status!(),
            order.terms()
        );
        let rows = sql.query(text).fetch_all(&self.read).await.during("sort deployments")?;
        let read = |row| {
            let row = Columns::of("deployments", row);
            Ok((read_value(row, sort.column.values())?, row.parsed("id")?))
        };
        rows.iter().map(read).collect()
    }

    /// The deployments with these ids, in this order; deleted ones are omitted.
    pub async fn deployments_by_ids(&self, ids: &[DeploymentId]) -> Result<Vec<DeploymentView>> {
        const ATTEMPT: &str = "read deployments";
        let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let mut connection = self.read.acquire().await.during(ATTEMPT)?;
        let rows = select_in(&mut connection, select_view!(" WHERE d.id IN"), &texts, "", ATTEMPT).await?;
        let mut found = HashMap::new();
        for row in &rows {
            let view = read_view(row, &self.sealing)?;
            found.insert(view.deployment.id, view);
        }
        Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
    }
}

fn conditions(sql: &mut Sql, filter: &DeploymentFilter) {
    let DeploymentFilter { application, version, client, target, rollout, deployment_state, with_absent } = filter;
    let equal = [
        ("d.application", application.as_ref().map(ToString::to_string)),
        ("d.version", version.clone()),
        ("d.client_id", client.as_ref().map(ToString::to_string)),
        ("d.target", target.as_ref().map(ToString::to_string)),
        ("d.rollout_id", rollout.map(|id| id.to_string())),
    ];
    for (column, value) in equal {
        if let Some(value) = value {
            let place = sql.text(value);
            sql.and(format!("{column} = {place}"));
        }
    }
    if !with_absent {
        sql.and("d.desired = 'present'".to_owned());
    }
    if let Some(state) = deployment_state {
        let place = sql.text(state.as_str());
        sql.and(format!("{} = {place}", deployment_state_case!()));
    }
}
