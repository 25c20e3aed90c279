//! Waits for the given deployments, whatever else their rollouts include.

use super::super::super::{Session, deployment};
use super::progress::Progress;
use super::{CHECK_INTERVAL, name_each};
use crate::failure::{Exit, Failure, Outcome};
use margrave_api::deployments::{Deployment, DeploymentState};
use std::time::Duration;

/// Waits until each is up to date or has failed. Ctrl-C stops only the waiting.
pub(crate) async fn follow(session: &Session, ids: &[String], timeout: Duration) -> Outcome {
    let mut progress = Progress::new(session.out);
    let again = format!("`margrave deployment wait {}` resumes waiting", ids.join(" "));
    tokio::select! {
        outcome = until_over(session, ids, timeout, &mut progress) => {
            drop(progress);
            outcome.map_err(|failure| match failure.exit {
                Exit::TimedOut => failure.next(again),
                _ => failure,
            })
        }
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, "stopped waiting")
            .because("the rollout continues on the server and on the devices")
            .next(again)),
    }
}

async fn until_over(session: &Session, ids: &[String], timeout: Duration, progress: &mut Progress) -> Outcome {
    let deadline = tokio::time::Instant::now() + timeout;
    loop {
        let mut deployments = Vec::with_capacity(ids.len());
        for id in ids {
            deployments.push(session.api.deployment(id).await?);
        }
        progress.show(ids.len() as u64, 0, &deployments);
        let open = with(&deployments, |state| !state.is_settled());
        if open.is_empty() {
            progress.end();
            return verdict(session, &deployments);
        }
        if tokio::time::Instant::now() >= deadline {
            progress.end();
            let open = with(&deployments, |state| !state.is_done());
            let what =
                format!("{} of {} deployments not up to date after {} s", open.len(), ids.len(), timeout.as_secs());
            return Err(name_each(Failure::new(Exit::TimedOut, what), &open));
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

fn with(deployments: &[Deployment], requested: impl Fn(DeploymentState) -> bool) -> Vec<&Deployment> {
    deployments.iter().filter(|one| requested(one.state)).collect()
}

/// Succeeds only if all of them are up to date.
fn verdict(session: &Session, deployments: &[Deployment]) -> Outcome {
    session.out.show(deployments, |out| deployment::table(out, deployments))?;
    let failed = with(deployments, |state| state == DeploymentState::Failed);
    let Some(first) = failed.first() else { return Ok(()) };
    let failure = Failure::failed(format!("{} of {} deployments failed", failed.len(), deployments.len()));
    Err(name_each(failure, &failed).next(format!("`margrave deployment show {}` shows details", first.id)))
}
