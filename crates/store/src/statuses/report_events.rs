//! Which reports become events: another state, or the awaited version. The retries of a device are counted, not listed:
//! a deployment that fails for a day is one event (ADR 49).

use super::StatusWrite;
use crate::Result;
use crate::batched::select_in;
use crate::rows::Columns;
use margo::status::State;
use margrave_core::events::{About, NewEvent};
use serde_json::json;
use sqlx::AnyConnection;
use std::collections::{BTreeMap, BTreeSet};

/// The report that was replaced.
pub(super) struct Previous {
    pub(super) state: Option<String>,
    pub(super) adopted: Option<i64>,
    /// The manifest version of the failure that stood, if any.
    pub(super) failed: Option<i64>,
}

pub(super) struct Changed<'a> {
    /// Its index among the reports written together.
    pub(super) index: usize,
    pub(super) report: &'a StatusWrite,
    pub(super) adopted: i64,
    pub(super) previous: Previous,
}

impl Changed<'_> {
    /// Whether it can be an event at all; most repeated reports are not, and cost nothing more.
    pub(super) fn differs(&self) -> bool {
        self.has_new_state() || self.previous.adopted != Some(self.adopted)
    }

    fn has_new_state(&self) -> bool {
        self.previous.state.as_deref() != Some(self.report.status.state.as_str())
    }

    /// An attempt after a failure that stands, or its end in another failure.
    fn is_retry(&self, target_version: i64) -> bool {
        let failed_before = self.previous.failed.is_some_and(|version| version >= target_version);
        failed_before && !matches!(self.report.status.state, State::Installed | State::Removed)
    }

    /// Some agents report all deployments with every manifest: only the first report about the desired version counts.
    fn reaches(&self, target_version: i64) -> bool {
        self.previous.adopted.is_none_or(|adopted| adopted < target_version) && self.adopted >= target_version
    }
}

struct Deployment {
    application: String,
    version: String,
    revision: i64,
    target: String,
    target_version: i64,
}

pub(super) async fn events(connection: &mut AnyConnection, changed: &[Changed<'_>]) -> Result<Vec<NewEvent>> {
    let ids: BTreeSet<String> = changed.iter().map(|changed| changed.report.status.deployment_id.to_string()).collect();
    let ids: Vec<String> = ids.into_iter().collect();
    let rows = select_in(
        connection,
        "SELECT id, application, version, revision, target, target_version FROM deployments WHERE id IN",
        &ids,
        "",
        "find the reported deployments",
    )
    .await?;
    let mut deployments = BTreeMap::new();
    for row in &rows {
        let row = Columns::of("deployments", row);
        let (application, target) = (row.text("application")?, row.text("target")?);
        let (version, revision) = (row.text("version")?, row.number("revision")?);
        let target_version = row.number("target_version")?;
        let deployment = Deployment { application, version, revision, target, target_version };
        deployments.insert(row.text("id")?, deployment);
    }
    Ok(changed
        .iter()
        .filter_map(|changed| {
            let deployment = deployments.get(&changed.report.status.deployment_id.to_string())?;
            let target = deployment.target_version;
            let news = (changed.has_new_state() && !changed.is_retry(target)) || changed.reaches(target);
            news.then(|| event(changed, deployment))
        })
        .collect())
}

fn event(changed: &Changed<'_>, deployment: &Deployment) -> NewEvent {
    let StatusWrite { client, status, .. } = changed.report;
    let Deployment { application, version, revision, target, .. } = deployment;
    let state = status.state.as_str();
    let device = status.device_id.as_ref().map_or_else(|| target.clone(), ToString::to_string);
    let mut data = json!({
        "manifestVersion": changed.adopted,
        "before": changed.previous.state,
        "version": version,
        "revision": revision,
    });
    let component = status.components.iter().find_map(|component| component.error.as_ref());
    if let Some(error) = status.error.as_ref().or(component) {
        data["error"] = json!({ "code": error.code, "message": error.message });
    }
    let about = About {
        client: Some(client.to_string()),
        device: Some(device),
        deployment: Some(status.deployment_id.to_string()),
        application: Some(application.clone()),
        rollout: None,
    };
    NewEvent::new(format!("deployment.{state}"), about).by(format!("client:{client}")).with(data)
}
