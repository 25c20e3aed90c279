//! Calls into the runtime that always return a result: the machine waits for exactly one.

use crate::machine::io::{FailureKind, Observation, WorkFailure, WorkOutcome};
use crate::runtimes::Future;
use std::time::Duration;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

/// Far above the usual time of an observation; a hanging engine must not block the next one.
const OBSERVE_MAX: Duration = Duration::from_mins(1);

/// Runs a piece of work until it finishes or is cancelled; a panic is a failure like any other.
pub(super) async fn finish(work: Future<'static, Result<(), WorkFailure>>, cancel: &CancellationToken) -> WorkOutcome {
    let mut task = tokio::spawn(work);
    let ended = tokio::select! {
        ended = &mut task => ended,
        () = cancel.cancelled() => {
            task.abort();
            // Nothing continues after the cancellation; a result that was just reached counts.
            task.await
        }
    };
    match ended {
        Ok(Ok(())) => WorkOutcome::Done,
        Ok(Err(failure)) => WorkOutcome::Failed(failure),
        Err(error) if error.is_cancelled() => WorkOutcome::Cancelled,
        Err(error) => WorkOutcome::Failed(WorkFailure { kind: FailureKind::Failed, message: broken(error) }),
    }
}

/// Observes the runtime, with a timeout.
pub(super) async fn look(observe: Future<'static, Result<Observation, String>>) -> Result<Observation, String> {
    let mut task = tokio::spawn(observe);
    match tokio::time::timeout(OBSERVE_MAX, &mut task).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(broken(error)),
        Err(_) => {
            task.abort();
            Err(format!("the runtime did not list its workloads within {} s", OBSERVE_MAX.as_secs()))
        }
    }
}

fn broken(error: JoinError) -> String {
    let why = error.try_into_panic().ok().and_then(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| payload.downcast_ref::<String>().cloned())
    });
    format!("the runtime failed: {}", why.as_deref().unwrap_or("no reason given"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(message: &str) -> WorkOutcome {
        WorkOutcome::Failed(WorkFailure { kind: FailureKind::Failed, message: message.to_owned() })
    }

    #[tokio::test]
    async fn reports_a_panicking_task_as_failed() {
        let cancel = CancellationToken::new();
        let outcome = finish(Box::pin(async { panic!("no such {}", "engine") }), &cancel).await;
        assert_eq!(outcome, failed("the runtime failed: no such engine"));
    }

    #[tokio::test]
    async fn work_returns_its_result_or_is_cancelled() {
        let cancel = CancellationToken::new();
        assert_eq!(finish(Box::pin(async { Ok(()) }), &cancel).await, WorkOutcome::Done);
        let failure = WorkFailure { kind: FailureKind::Failed, message: "no".to_owned() };
        assert_eq!(finish(Box::pin(async { Err(failure) }), &cancel).await, failed("no"));
        let guard = std::sync::Arc::new(());
        let held = std::sync::Arc::clone(&guard);
        let endless = Box::pin(async move {
            std::future::pending::<()>().await;
            drop(held);
            Ok(())
        });
        cancel.cancel();
        assert_eq!(finish(endless, &cancel).await, WorkOutcome::Cancelled);
        assert_eq!(std::sync::Arc::strong_count(&guard), 1, "nothing continues");
    }

    #[tokio::test]
    async fn reports_a_panicking_observation_as_unknown() {
        let result = look(Box::pin(async { panic!("no engine") })).await;
        assert_eq!(result, Err("the runtime failed: no engine".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn reports_a_hanging_observation_as_unknown() {
        let result = look(Box::pin(std::future::pending())).await;
        assert_eq!(result, Err("the runtime did not list its workloads within 60 s".to_owned()));
    }
}
