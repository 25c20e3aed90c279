//! Waits until a component is ready or has failed.

use super::cluster::{Cluster, Instance, from_api};
use super::jobs;
use super::object::ObjectRef;
use super::pods::{self, Restarts};
use super::readiness::{Health, health};
use super::set::Placed;
use crate::machine::io::{FailureKind, WorkFailure};
use crate::runtimes::engine::failed;
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// Polling interval while pods start.
const POLL_PERIOD: Duration = Duration::from_millis(700);

/// The objects to wait for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Awaited<'a> {
    pub(super) set: &'a [Placed],
    /// Wait for all objects; otherwise only for jobs that run again.
    pub(super) all: bool,
    /// Failed jobs that run again: they count when they finish.
    pub(super) again: &'a [ObjectRef],
}

impl Awaited<'_> {
    fn is_again(&self, placed: &Placed) -> bool {
        self.again.iter().any(|reference| reference.is_same(&placed.reference))
    }

    fn health(&self, placed: &Placed, live: &Value) -> Health {
        match health(live) {
            Health::Ready if self.is_again(placed) && !jobs::is_over(live) => {
                Health::Coming("is running again".to_owned())
            }
            other => other,
        }
    }
}

impl Cluster {
    /// Waits until every object is ready; reports the reason of a failure or timeout (AD-03).
    pub(super) async fn wait(
        &self,
        awaited: &Awaited<'_>,
        instance: &Instance,
        before: &Restarts,
        (deadline, given): (Instant, Duration),
    ) -> Result<(), WorkFailure> {
        let mut left: Vec<&Placed> =
            awaited.set.iter().filter(|placed| awaited.all || awaited.is_again(placed)).collect();
        loop {
            let mut coming = Vec::new();
            let mut stuck = None;
            for placed in std::mem::take(&mut left) {
                let Some(live) = self.client.find(&placed.path()).await.map_err(from_api)? else {
                    coming.push(format!("{} does not exist", placed.reference));
                    left.push(placed);
                    continue;
                };
                match awaited.health(placed, &live) {
                    Health::Ready => {}
                    Health::Coming(words) => {
                        coming.push(format!("{}: {words}", placed.reference));
                        left.push(placed);
                    }
                    Health::Failed(words) => stuck = Some(format!("{}: {words}", placed.reference)),
                }
            }
            if coming.is_empty() && stuck.is_none() {
                return Ok(());
            }
            let pods = self.pods(instance).await.map_err(from_api)?;
            if let Some(stuck) = stuck {
                return Err(failed(with_reasons(vec![stuck], &pods)));
            }
            if let Some(broken) = pods::broken(&pods, before) {
                let message = self.quote(&broken, instance).await;
                return Err(WorkFailure { kind: FailureKind::Exited, message });
            }
            if Instant::now() >= deadline {
                let message = format!("not finished after {} s: {}", given.as_secs(), with_reasons(coming, &pods));
                return Err(WorkFailure { kind: FailureKind::Late, message });
            }
            tokio::time::sleep(POLL_PERIOD).await;
        }
    }
}

fn with_reasons(mut words: Vec<String>, pods: &[Value]) -> String {
    words.extend(pods::reasons(pods));
    words.join("; ")
}
