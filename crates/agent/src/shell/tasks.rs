//! Calls into the runtime that always come to an end with an answer: the machine waits for exactly one.

use crate::machine::io::{FailureKind, Observation, WorkFailure, WorkOutcome};
use crate::runtimes::Future;
use std::time::Duration;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

/// An engine that lists what it runs takes far less; one that hangs must not keep the agent from asking again.
const OBSERVE_MAX: Duration = Duration::from_mins(1);

/// Runs a piece of work to its end, or until it is cancelled; a panic in it is a failure like any other.
pub(super) async fn finish(work: Future<'static, Result<(), WorkFailure>>, cancel: &CancellationToken) -> WorkOutcome {
    let mut task = tokio::spawn(work);
    let ended = tokio::select! {
        ended = &mut task => ended,
        () = cancel.cancelled() => {
            task.abort();
            // Nothing of it goes on after it was called off; what it just reached counts.
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

/// Looks at the runtime, within bounds.
pub(super) async fn look(observe: Future<'static, Result<Observation, String>>) -> Result<Observation, String> {
    let mut task = tokio::spawn(observe);
    match tokio::time::timeout(OBSERVE_MAX, &mut task).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(broken(error)),
        Err(_) => {
            task.abort();
            Err(format!("the runtime did not say within {} s what it runs", OBSERVE_MAX.as_secs()))
        }
    }
}

fn broken(error: JoinError) -> String {
    let why = error.try_into_panic().ok().and_then(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| payload.downcast_ref::<String>().cloned())
    });
    format!("the runtime broke off: {}", why.as_deref().unwrap_or("no reason given"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(message: &str) -> WorkOutcome {
        WorkOutcome::Failed(WorkFailure { kind: FailureKind::Failed, message: message.to_owned() })
    }

    #[tokio::test]
    async fn work_that_panics_is_told_as_failed() {
        let cancel = CancellationToken::new();
        let outcome = finish(Box::pin(async { panic!("no such {}", "engine") }), &cancel).await;
        assert_eq!(outcome, failed("the runtime broke off: no such engine"));
    }

    #[tokio::test]
    async fn work_ends_with_its_result_or_when_it_is_cancelled() {
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
        assert_eq!(std::sync::Arc::strong_count(&guard), 1, "nothing of it goes on");
    }

    #[tokio::test]
    async fn a_look_that_panics_is_told_as_not_known() {
        let result = look(Box::pin(async { panic!("no engine") })).await;
        assert_eq!(result, Err("the runtime broke off: no engine".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_never_ends_is_told_as_not_known() {
        let result = look(Box::pin(std::future::pending())).await;
        assert_eq!(result, Err("the runtime did not say within 60 s what it runs".to_owned()));
    }
}
