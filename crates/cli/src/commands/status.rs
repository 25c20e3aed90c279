//! `margrave status`: a summary of the fleet.

use super::Session;
use crate::failure::Outcome;
use margrave_api::deployments::DeploymentState;

pub(crate) async fn run(session: &Session) -> Outcome {
    let summary = session.api.summary().await?;
    session.out.show(&summary, |out| {
        let clients = &summary.clients;
        let mut text = out.fields(&[
            (
                "Clients",
                format!(
                    "{} accepted, {} pending, {} decommissioned, {} offline for more than {}",
                    clients.accepted,
                    clients.pending,
                    clients.decommissioned,
                    clients.offline,
                    crate::clock::span(jiff::SignedDuration::from_secs(
                        i64::try_from(summary.offline_after_seconds).unwrap_or(i64::MAX)
                    ))
                ),
            ),
            ("Devices", summary.devices.to_string()),
            ("Applications", summary.applications.to_string()),
            ("Rollouts in progress", summary.rollouts_unfinished.to_string()),
        ]);
        text.push_str(&out.heading("Deployments"));
        text.push_str(&out.table(
            &["state", "deployments"],
            DeploymentState::ALL.iter().map(|deployment_state| {
                let count = summary.deployments.of(*deployment_state);
                vec![deployment_state.as_str().to_owned(), count.to_string()]
            }),
        ));
        text
    })
}
