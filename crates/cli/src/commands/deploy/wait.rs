//! `--wait`: follows a rollout until every device has reported its result.

pub(crate) mod named;
mod progress;

use super::super::{Session, device_name, every};
use crate::clock;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::plural;
use margrave_api::client::DeploymentQuery;
use margrave_api::deployments::{Deployment, DeploymentState};
use margrave_api::rollouts::Rollout;
use progress::Progress;
use std::fmt::Write as _;
use std::time::Duration;

/// Frequent enough for live progress, rare enough for a thousand devices.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Most devices named in a failure; the rest is counted.
const NAMES_MAX: usize = 50;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WaitArgs {
    /// Wait until every device is up to date; fails unless all succeed
    #[arg(long, short)]
    wait: bool,
    /// Stop waiting after this time; the rollout continues
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = clock::parse_span)]
    timeout: Duration,
}

impl WaitArgs {
    pub(crate) fn requested(&self) -> bool {
        self.wait
    }
    pub(crate) fn always(timeout: Duration) -> Self {
        Self { wait: true, timeout }
    }
}

/// A snapshot of the rollout and its deployments.
struct RolloutSnapshot {
    rollout: Rollout,
    deployments: Vec<Deployment>,
}

impl RolloutSnapshot {
    async fn take(session: &Session, id: &str) -> Outcome<Self> {
        let rollout = session.api.rollout(id).await?;
        let query = DeploymentQuery { rollout: Some(id.to_owned()), with_absent: true, ..DeploymentQuery::default() };
        let deployments = every(None, async |page| session.api.deployments(&query, &page).await).await?;
        Ok(Self { rollout, deployments })
    }

    fn done(&self) -> usize {
        self.deployments.iter().filter(|deployment| deployment.state.is_done()).count()
    }

    fn count(&self, deployment_state: DeploymentState) -> usize {
        self.deployments.iter().filter(|deployment| deployment.state == deployment_state).count()
    }

    fn unpublished(&self) -> u64 {
        if self.rollout.finished { 0 } else { self.rollout.total.saturating_sub(self.rollout.published) }
    }

    /// Devices that completed it before a later rollout superseded it.
    fn done_before(&self) -> u64 {
        self.rollout.past.done()
    }

    /// Devices on which a later rollout superseded it before completion.
    fn superseded(&self) -> u64 {
        let seen = self.deployments.len() as u64 + self.rollout.skipped.len() as u64 + self.done_before();
        if self.rollout.finished { self.rollout.total.saturating_sub(seen) } else { 0 }
    }

    /// Whether it is complete: published to all devices, and every device succeeded or failed.
    fn is_over(&self) -> bool {
        self.rollout.finished && self.done() + self.count(DeploymentState::Failed) == self.deployments.len()
    }
}

/// Follows the rollout. Ctrl-C stops following it, never the rollout.
pub(crate) async fn rollout(session: &Session, id: &str, args: &WaitArgs) -> Outcome {
    let mut progress = Progress::new(session.out);
    tokio::select! {
        outcome = follow(session, id, args.timeout, &mut progress) => {
            drop(progress);
            outcome
        }
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, format!("stopped waiting for rollout {id}"))
            .because("the rollout continues on the server and on the devices")
            .next(format!("`margrave rollout wait {id}` resumes waiting, `margrave rollout show {id}` shows its progress"))),
    }
}

async fn follow(session: &Session, id: &str, timeout: Duration, progress: &mut Progress) -> Outcome {
    let deadline = tokio::time::Instant::now() + timeout;
    loop {
        let picture = RolloutSnapshot::take(session, id).await?;
        progress.show(picture.rollout.total, picture.unpublished(), &picture.deployments);
        if picture.is_over() {
            progress.end();
            return verdict(session, &picture);
        }
        if tokio::time::Instant::now() >= deadline {
            progress.end();
            return Err(timed_out(id, timeout, &picture));
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Succeeds only if every device is up to date.
fn verdict(session: &Session, picture: &RolloutSnapshot) -> Outcome {
    let RolloutSnapshot { rollout, deployments } = picture;
    let id = &rollout.id;
    session.out.show(rollout, |out| super::super::rollout::render(out, rollout))?;
    let failed: Vec<_> = deployments.iter().filter(|deployment| deployment.state == DeploymentState::Failed).collect();
    let superseded = picture.superseded();
    if failed.is_empty() && superseded == 0 && rollout.skipped.is_empty() {
        let devices = deployments.len() as u64 + picture.done_before();
        session.out.say(format!("Completed on {}.", plural(devices, "device")));
        return Ok(());
    }
    let mut failure = Failure::failed(format!(
        "rollout {id} did not complete on {} of {} devices",
        failed.len() as u64 + superseded + rollout.skipped.len() as u64,
        rollout.total
    ));
    failure = name_each(failure, &failed);
    for skipped in rollout.skipped.iter().take(NAMES_MAX) {
        failure = failure.because(format!("{}: skipped, {}", skipped.deployment, skipped.reason));
    }
    if superseded > 0 {
        failure = failure.because(format!("superseded by a later rollout on {}", plural(superseded, "device")));
    }
    let example = failed.first().map_or_else(
        || format!("margrave rollout show {id}"),
        |deployment| format!("margrave deployment show {}", deployment.id),
    );
    Err(failure.next(format!("`{example}` shows details")))
}

/// Adds the state of each of these devices, the first ones by name.
fn name_each(mut failure: Failure, deployments: &[&Deployment]) -> Failure {
    for deployment in deployments.iter().take(NAMES_MAX) {
        failure = failure.because(match deployment.state {
            DeploymentState::Failed => troubles(deployment),
            _ => format!("{}: {}", device_name(&deployment.client, &deployment.device), deployment.explanation),
        });
    }
    match deployments.len().saturating_sub(NAMES_MAX) {
        0 => failure,
        more => failure.because(format!("and {more} more")),
    }
}

/// The device and its failed components with their errors.
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

fn timed_out(id: &str, timeout: Duration, picture: &RolloutSnapshot) -> Failure {
    let open: Vec<_> = picture.deployments.iter().filter(|deployment| !deployment.state.is_done()).collect();
    let mut failure = Failure::new(
        Exit::TimedOut,
        format!(
            "rollout {id}: {} of {} not up to date after {} s",
            picture.rollout.total.saturating_sub(picture.done() as u64),
            plural(picture.rollout.total, "device"),
            timeout.as_secs()
        ),
    );
    let unpublished = picture.rollout.total.saturating_sub(picture.rollout.published);
    if unpublished > 0 {
        failure = failure.because(format!("not yet published to {}", plural(unpublished, "device")));
    }
    name_each(failure, &open).next(format!("the rollout continues; `margrave rollout wait {id}` resumes waiting"))
}

/// The current state of a deployment, in the words of the progress output.
fn state_word(deployment: &Deployment) -> String {
    match deployment.state {
        DeploymentState::UpToDate => "installed".to_owned(),
        DeploymentState::Updating => deployment.reported.as_ref().map_or("updating", |status| &status.state).to_owned(),
        DeploymentState::Failed if deployment.failed_with.is_some() => "failed, retrying".to_owned(),
        other => other.as_str().to_owned(),
    }
}
