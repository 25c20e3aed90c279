//! A change called off where it waits for devices that do not call: they find what they had before instead.

use super::again::of_change;
use super::{Request, submit};
use crate::app::access::Caller;
use crate::app::drafts::back_to;
use crate::app::error::{AppError, AppResult, Code};
use crate::app::turns::Turns;
use crate::state::ServerState;
use margrave_api::changes as wire;
use margrave_core::convergence::Convergence;
use margrave_core::model::{ChangeKind, Deployment};
use margrave_core::policy::Wish;

/// Deployments called off at once: what each had before is read one by one.
const CALLED_OFF_MAX: usize = 2_000;
/// What devices had before may differ; each kind of it is a change of its own.
const KINDS_MAX: usize = 50;

/// Takes a change back on every device that is not heard of. What it deployed is removed, what it changed goes back to the
/// revision before: one change for each kind of "before". Called twice it finds nothing left the second time, so what a call
/// that broke off has not reached is reached by the next.
pub async fn call_off(
    state: &ServerState,
    caller: &Caller,
    id: &str,
    reason: Option<String>,
) -> AppResult<Vec<wire::Change>> {
    let change = super::get(state, id).await?;
    if change.kind == wire::ChangeKind::Remove {
        let detail =
            "a removal cannot be called off: the device may have begun it; deploy the application again instead";
        return Err(AppError::refused(Code::Invalid, detail));
    }
    if !change.finished {
        let detail = "devices are still being told; cancel the rest of it first";
        return Err(AppError::refused(Code::Conflict, detail));
    }
    let silent = of_change(state, id, Some(Convergence::NotHeardOf), CALLED_OFF_MAX).await?;
    let Some(first) = silent.first() else {
        let detail = "it waits for no device that does not call, so there is nothing to call off";
        return Err(AppError::refused(Code::Unchanged, detail));
    };
    let requests = match change.kind {
        wire::ChangeKind::Create => vec![removal(first, &silent)],
        _ => before(state, &silent).await?,
    };
    let mut made = Vec::with_capacity(requests.len());
    for request in requests {
        made.push(submit(state, &caller.again(), request, reason.clone()).await?);
    }
    Ok(made)
}

fn removal(first: &Deployment, all: &[Deployment]) -> Request {
    Request {
        kind: ChangeKind::Remove,
        application: first.application.clone(),
        version: None,
        profile: None,
        scope: scope(all.iter().map(|deployment| deployment.id.to_string()).collect()),
        answers: indexmap::IndexMap::new(),
        policy: Wish::default(),
        skip_unfit: true,
        movers: false,
    }
}

/// The revision before of each, those that come to the same together.
async fn before(state: &ServerState, all: &[Deployment]) -> AppResult<Vec<Request>> {
    let (mut kinds, mut turns): (Vec<Request>, _) = (Vec::new(), Turns::begin());
    for deployment in all {
        let id = deployment.id.to_string();
        let request = back_to(state, &id, deployment.revision - 1).await?;
        match kinds.iter_mut().find(|known| is_same(known, &request)) {
            Some(known) => known.scope.deployments.get_or_insert_default().push(id),
            None => kinds.push(Request { skip_unfit: true, ..request }),
        }
        if kinds.len() > KINDS_MAX {
            let detail = format!(
                "what these devices had before differs in more than {KINDS_MAX} ways; go back on their own pages, or choose them on the page of the application"
            );
            return Err(AppError::refused(Code::Invalid, detail));
        }
        turns.next().await;
    }
    Ok(kinds)
}

/// But for whom it is.
fn is_same(one: &Request, other: &Request) -> bool {
    let what = |request: &Request| (request.kind, request.version.clone(), request.profile.clone(), request.policy);
    what(one) == what(other) && one.answers == other.answers
}

fn scope(deployments: Vec<String>) -> wire::Scope {
    wire::Scope { deployments: Some(deployments), ..wire::Scope::default() }
}
