//! A change called off where it waits for devices that do not call: they find what they had before instead.

use super::again::{AGAIN_MAX, of_change};
use super::{Request, check, submit};
use crate::app::access::Caller;
use crate::app::drafts::{back_to, is_nothing_left, policy_at};
use crate::app::error::{AppError, AppResult, Code};
use crate::app::turns::Turns;
use crate::state::ServerState;
use margrave_api::changes as wire;
use margrave_core::convergence::Convergence;
use margrave_core::model::{ChangeKind, Deployment};
use margrave_core::policy::Wish;

/// Deployments that go back at once: what each had before is read one by one.
const BACK_MAX: usize = 2_000;
/// What devices had before may differ; each kind of it is a change of its own.
const KINDS_MAX: usize = 50;

/// Takes a change back on every device that is not heard of. What it deployed is removed, what it changed goes back to the
/// revision before: one change for each kind of "before". Once these are published nothing is left to call off, so what a call
/// that broke off has not reached is reached by the next. `caller_of` gives each its own place in the record of repeats.
pub async fn call_off(
    state: &ServerState,
    caller_of: impl Fn(usize) -> Caller,
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
    let max = if change.kind == wire::ChangeKind::Create { AGAIN_MAX } else { BACK_MAX };
    let silent = of_change(state, id, Some(Convergence::NotHeardOf), max).await?;
    let Some(first) = silent.first() else {
        let detail = "it waits for no device that does not call, so there is nothing to call off";
        return Err(AppError::refused(Code::Unchanged, detail));
    };
    let requests = match change.kind {
        wire::ChangeKind::Create => vec![removal(first, &silent)],
        _ => before(state, &silent).await?,
    };
    if requests.is_empty() {
        return Err(AppError::refused(Code::Unchanged, "what these devices had before is not kept any more"));
    }
    // All of it or nothing, as far as it can be told before.
    for request in &requests {
        match check(state, request).await {
            Err(error) if !is_nothing_left(&error) || requests.len() == 1 => return Err(error),
            _ => {}
        }
    }
    let mut made = Vec::with_capacity(requests.len());
    for (index, request) in requests.into_iter().enumerate() {
        match submit(state, &caller_of(index), request, reason.clone()).await {
            Ok(change) => made.push(change),
            Err(error) if is_nothing_left(&error) => {}
            Err(error) => return Err(error),
        }
    }
    if made.is_empty() {
        return Err(AppError::refused(Code::Unchanged, "every device it waited for is back"));
    }
    Ok(made)
}

fn removal(first: &Deployment, all: &[Deployment]) -> Request {
    Request {
        kind: ChangeKind::Remove,
        application: first.application.clone(),
        version: None,
        profile: None,
        scope: wire::Scope {
            deployments: Some(all.iter().map(|deployment| deployment.id.to_string()).collect()),
            ..wire::Scope::default()
        },
        answers: indexmap::IndexMap::new(),
        policy: Wish::default(),
        skip_unfit: true,
        movers: false,
        called_off: Some(first.change),
    }
}

/// The revision before of each, those that come to the same together. Where it is not kept any more the device keeps what it has.
async fn before(state: &ServerState, all: &[Deployment]) -> AppResult<Vec<Request>> {
    let (mut kinds, mut turns): (Vec<Request>, _) = (Vec::new(), Turns::begin());
    for deployment in all {
        let (id, revision) = (deployment.id.to_string(), deployment.revision - 1);
        let mut request = match back_to(state, &id, revision).await {
            Ok(request) => request,
            Err(AppError::Refused { code: Code::NotFound, .. }) => continue,
            Err(error) => return Err(error),
        };
        // A retry differs from what was before it in this alone.
        request.policy.attempt = policy_at(state, deployment, revision).await?.map(|policy| policy.attempt);
        // What stays as it is need not be alike on all devices.
        request.answers.retain(|name, value| deployment.values.get(name) != Some(value));
        match kinds.iter_mut().find(|known| is_same(known, &request)) {
            Some(known) => known.scope.deployments.get_or_insert_default().push(id),
            None => kinds.push(Request { skip_unfit: true, called_off: Some(deployment.change), ..request }),
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
