//! `--wait`: follows a change until every device has said how it went.

pub(crate) mod named;
mod progress;

use super::super::{Session, device_name, every};
use crate::clock;
use crate::failure::{Exit, Failure, Outcome};
use margrave_api::changes::Change;
use margrave_api::client::DeploymentQuery;
use margrave_api::deployments::{Convergence, Deployment, Desired};
use progress::Progress;
use std::fmt::Write as _;
use std::time::Duration;

/// Often enough to feel live, seldom enough for a thousand devices.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The most devices named in a failure; the rest is counted.
const NAMES_MAX: usize = 50;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WaitArgs {
    /// Wait until every device has it; fails unless all succeed
    #[arg(long, short)]
    wait: bool,
    /// Give up waiting after this long; the change goes on
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = clock::parse_span)]
    timeout: Duration,
}

impl WaitArgs {
    pub(crate) fn wanted(&self) -> bool {
        self.wait
    }
    pub(crate) fn always(timeout: Duration) -> Self {
        Self { wait: true, timeout }
    }
}

/// Where everything stands.
struct Picture {
    change: Change,
    deployments: Vec<Deployment>,
}

impl Picture {
    async fn take(session: &Session, id: &str) -> Outcome<Self> {
        let change = session.api.change(id).await?;
        let query = DeploymentQuery { change: Some(id.to_owned()), with_absent: true, ..DeploymentQuery::default() };
        let deployments = every(None, async |page| session.api.deployments(&query, &page).await).await?;
        Ok(Self { change, deployments })
    }

    fn count(&self, convergence: Convergence) -> usize {
        self.deployments.iter().filter(|deployment| deployment.convergence == convergence).count()
    }

    fn unpublished(&self) -> u64 {
        if self.change.finished { 0 } else { self.change.total.saturating_sub(self.change.published) }
    }

    /// Devices that had it before a later change took them over.
    fn done_before(&self) -> u64 {
        self.change.past.of(Convergence::Converged)
    }

    /// Devices that a later change has taken over before they had it.
    fn superseded(&self) -> u64 {
        let seen = self.deployments.len() as u64 + self.change.skipped.len() as u64 + self.done_before();
        if self.change.finished { self.change.total.saturating_sub(seen) } else { 0 }
    }

    /// Nothing more will come: all is published, and every device has either done it or failed.
    fn is_over(&self) -> bool {
        self.change.finished
            && self.count(Convergence::Converged) + self.count(Convergence::Failed) == self.deployments.len()
    }
}

/// Follows the change. Ctrl-C stops the following, never the change.
pub(crate) async fn change(session: &Session, id: &str, args: &WaitArgs) -> Outcome {
    let mut progress = Progress::new(session.out);
    tokio::select! {
        outcome = follow(session, id, args.timeout, &mut progress) => {
            drop(progress);
            outcome
        }
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, format!("no longer waiting for change {id}"))
            .because("the change goes on at the server and on the devices")
            .next(format!("`margrave change wait {id}` goes on waiting, `margrave change show {id}` shows where it stands"))),
    }
}

async fn follow(session: &Session, id: &str, timeout: Duration, progress: &mut Progress) -> Outcome {
    let deadline = tokio::time::Instant::now() + timeout;
    loop {
        let picture = Picture::take(session, id).await?;
        progress.show(picture.change.total, picture.unpublished(), &picture.deployments);
        if picture.is_over() {
            progress.end();
            return verdict(session, &picture);
        }
        if tokio::time::Instant::now() >= deadline {
            progress.end();
            return Err(timed_out(id, timeout, &picture));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Zero only when every device has it.
fn verdict(session: &Session, picture: &Picture) -> Outcome {
    let Picture { change, deployments } = picture;
    let id = &change.id;
    session.out.show(change, |out| super::super::change::render(out, change))?;
    let failed: Vec<_> =
        deployments.iter().filter(|deployment| deployment.convergence == Convergence::Failed).collect();
    let superseded = picture.superseded();
    if failed.is_empty() && superseded == 0 && change.skipped.is_empty() {
        session.out.say(format!("Done on {} device(s).", deployments.len() as u64 + picture.done_before()));
        return Ok(());
    }
    let mut failure = Failure::failed(format!(
        "change {id}: {} of {} device(s) did not get there",
        failed.len() as u64 + superseded + change.skipped.len() as u64,
        change.total
    ));
    failure = name_each(failure, &failed);
    for skipped in change.skipped.iter().take(NAMES_MAX) {
        failure = failure.because(format!("{}: skipped, {}", skipped.deployment, skipped.reason));
    }
    if superseded > 0 {
        failure = failure.because(format!("{superseded} device(s) were changed again by a later change"));
    }
    let example = failed.first().map_or_else(
        || format!("margrave change show {id}"),
        |deployment| format!("margrave deployment show {}", deployment.id),
    );
    Err(failure.next(format!("`{example}` tells more")))
}

/// Adds what is known of each of these devices, the first ones by name.
fn name_each(mut failure: Failure, deployments: &[&Deployment]) -> Failure {
    for deployment in deployments.iter().take(NAMES_MAX) {
        failure = failure.because(match deployment.convergence {
            Convergence::Failed => troubles(deployment),
            _ => format!("{}: {}", device_name(&deployment.client, &deployment.device), deployment.explanation),
        });
    }
    match deployments.len().saturating_sub(NAMES_MAX) {
        0 => failure,
        more => failure.because(format!("and {more} more")),
    }
}

/// Device, and each component that failed with its error.
fn troubles(deployment: &Deployment) -> String {
    let mut text = device_name(&deployment.client, &deployment.device);
    let Some(status) = deployment.said_wrong() else { return format!("{text}: {}", deployment.explanation) };
    let components: Vec<_> = status
        .components
        .iter()
        .filter(|component| component.state == "failed")
        .map(|component| match &component.error {
            Some(error) => format!("component {} failed: {} (code {})", component.name, error.message, error.code),
            None => format!("component {} failed", component.name),
        })
        .collect();
    if components.is_empty() {
        let why = status
            .error
            .as_ref()
            .map_or_else(|| deployment.explanation.clone(), |error| format!("{} (code {})", error.message, error.code));
        let _ = write!(text, ": {why}");
    } else {
        let _ = write!(text, ": {}", components.join("; "));
    }
    text
}

fn timed_out(id: &str, timeout: Duration, picture: &Picture) -> Failure {
    let open: Vec<_> =
        picture.deployments.iter().filter(|deployment| deployment.convergence != Convergence::Converged).collect();
    let mut failure = Failure::new(
        Exit::TimedOut,
        format!(
            "change {id}: {} of {} device(s) not there after {} s",
            picture.change.total.saturating_sub(picture.count(Convergence::Converged) as u64),
            picture.change.total,
            timeout.as_secs()
        ),
    );
    let unpublished = picture.change.total.saturating_sub(picture.change.published);
    if unpublished > 0 {
        failure = failure.because(format!("{unpublished} device(s) are still to be published"));
    }
    name_each(failure, &open).next(format!("the change goes on; `margrave change wait {id}` goes on waiting"))
}

/// The word for a deployment's present state that people wait for.
fn state_word(deployment: &Deployment) -> String {
    match (deployment.convergence, deployment.desired) {
        (Convergence::Converged, Desired::Present) => "installed".to_owned(),
        (Convergence::Converged, Desired::Absent) => "removed".to_owned(),
        (Convergence::Applying, _) => deployment.status.as_ref().map_or("applying", |status| &status.state).to_owned(),
        (Convergence::Failed, _) if deployment.failed_with.is_some() => "failed, trying again".to_owned(),
        (other, _) => other.as_str().to_owned(),
    }
}
