//! `margrave status`: the fleet at a glance.

use super::Session;
use crate::failure::Outcome;
use margrave_api::deployments::Convergence;

pub(crate) async fn run(session: &Session) -> Outcome {
    let summary = session.api.summary().await?;
    session.out.show(&summary, |out| {
        let clients = &summary.clients;
        let mut text = out.fields(&[
            (
                "Clients",
                format!(
                    "{} accepted, {} pending, {} retired, {} silent for more than {}",
                    clients.accepted,
                    clients.pending,
                    clients.retired,
                    clients.silent,
                    crate::clock::span(jiff::SignedDuration::from_secs(
                        i64::try_from(summary.silent_after_seconds).unwrap_or(i64::MAX)
                    ))
                ),
            ),
            ("Devices", summary.devices.to_string()),
            ("Applications", summary.applications.to_string()),
            ("Changes under way", summary.changes_unfinished.to_string()),
        ]);
        text.push_str(&out.heading("Deployments"));
        text.push_str(&out.table(
            &["state", "deployments"],
            Convergence::ALL.iter().map(|convergence| {
                let count = summary.deployments.of(*convergence);
                vec![convergence.as_str().to_owned(), count.to_string()]
            }),
        ));
        text
    })
}
