//! Which reports are news: another state, or the version that was waited for.

use super::StatusWrite;
use crate::Result;
use crate::many::select_in;
use crate::rows::Columns;
use margo::status::State;
use margrave_core::events::{About, NewEvent};
use serde_json::json;
use sqlx::AnyConnection;
use std::collections::{BTreeMap, BTreeSet};

/// What a report replaced.
pub(super) struct Previous {
    pub(super) state: Option<String>,
    pub(super) adopted: Option<i64>,
}

pub(super) struct Changed<'a> {
    /// Its place among the reports written together.
    pub(super) index: usize,
    pub(super) report: &'a StatusWrite,
    pub(super) adopted: i64,
    pub(super) previous: Previous,
}

impl Changed<'_> {
    /// Whether it can be news at all; most reports that come again are not, and cost nothing more.
    pub(super) fn differs(&self) -> bool {
        self.is_another_state() || self.previous.adopted != Some(self.adopted)
    }

    fn is_another_state(&self) -> bool {
        self.previous.state.as_deref() != Some(self.report.status.state.as_str())
    }

    /// After a failure, with the same manifest.
    fn tries_again(&self) -> bool {
        self.previous.state.as_deref() == Some(State::Failed.as_str()) && self.previous.adopted == Some(self.adopted)
    }

    /// Some agents report everything they have with every manifest: only the first word about what is wanted now counts.
    fn reaches(&self, target_version: i64) -> bool {
        self.previous.adopted.is_none_or(|adopted| adopted < target_version) && self.adopted >= target_version
    }
}

struct Deployment {
    application: String,
    target: String,
    target_version: i64,
}

pub(super) async fn events(connection: &mut AnyConnection, changed: &[Changed<'_>]) -> Result<Vec<NewEvent>> {
    let ids: BTreeSet<String> = changed.iter().map(|changed| changed.report.status.deployment_id.to_string()).collect();
    let ids: Vec<String> = ids.into_iter().collect();
    let rows = select_in(
        connection,
        "SELECT id, application, target, target_version FROM deployments WHERE id IN",
        &ids,
        "",
        "look for what was reported about",
    )
    .await?;
    let mut deployments = BTreeMap::new();
    for row in &rows {
        let row = Columns::of("deployments", row);
        let (application, target) = (row.text("application")?, row.text("target")?);
        let target_version = row.number("target_version")?;
        deployments.insert(row.text("id")?, Deployment { application, target, target_version });
    }
    Ok(changed
        .iter()
        .filter_map(|changed| {
            let deployment = deployments.get(&changed.report.status.deployment_id.to_string())?;
            let news = changed.is_another_state() || changed.reaches(deployment.target_version);
            news.then(|| event(changed, deployment))
        })
        .collect())
}

fn event(changed: &Changed<'_>, deployment: &Deployment) -> NewEvent {
    let StatusWrite { client, status, .. } = changed.report;
    let Deployment { application, target, .. } = deployment;
    let state = status.state.as_str();
    let device = status.device_id.as_ref().map_or_else(|| target.clone(), ToString::to_string);
    let does = match status.state {
        State::Failed => "failed".to_owned(),
        // A device that tries again on its own says the same words as one that begins.
        State::Pending | State::Installing | State::Removing if changed.tries_again() => "is tried again".to_owned(),
        _ => format!("is {state}"),
    };
    let mut message = format!("application `{application}` on `{device}` {does}");
    let component = status.components.iter().find_map(|component| component.error.as_ref());
    if let Some(error) = status.error.as_ref().or(component) {
        message = format!("{message}: {} ({})", error.message, error.code);
    }
    let about = About {
        client: Some(client.to_string()),
        device: Some(device),
        deployment: Some(status.deployment_id.to_string()),
        application: Some(application.clone()),
        change: None,
    };
    NewEvent::new(format!("deployment.{state}"), about, message)
        .by(format!("client:{client}"))
        .with(json!({ "manifestVersion": changed.adopted, "before": changed.previous.state }))
}
