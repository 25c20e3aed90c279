//! Withdraws a rollout on offline devices: they get their previous revision instead.

use super::retry::{RETRY_MAX, of_rollout};
use super::{Request, check, submit};
use crate::app::access::Caller;
use crate::app::cooperative::TimeSlices;
use crate::app::drafts::{back_to, is_nothing_left, policy_at};
use crate::app::error::{AppError, AppResult, Code};
use crate::state::ServerState;
use margrave_api::rollouts as wire;
use margrave_core::deployment_state::DeploymentState;
use margrave_core::model::{Deployment, RolloutKind};
use margrave_core::policy::PolicyUpdate;

/// Deployments rolled back at once: each previous revision is read separately.
const BACK_MAX: usize = 2_000;
/// Previous states may differ; each distinct one becomes a rollout of its own.
const KINDS_MAX: usize = 50;

/// Withdraws a rollout on every offline device. New deployments are removed, changed ones go back to the previous
/// revision: one rollout for each distinct previous state. Once these are published nothing is left to withdraw, so the
/// next call covers what an interrupted call did not reach. `caller_of` gives each rollout its own idempotency record.
pub async fn withdraw(
    state: &ServerState,
    caller_of: impl Fn(usize) -> Caller,
    id: &str,
    reason: Option<String>,
) -> AppResult<Vec<wire::Rollout>> {
    let rollout = super::get(state, id).await?;
    if rollout.kind == wire::RolloutKind::Remove {
        let detail =
            "a removal cannot be withdrawn: the device may have started it; deploy the application again instead";
        return Err(AppError::refused(Code::Invalid, detail));
    }
    if !rollout.finished {
        let detail = "the rollout is still being published; cancel the rest of it first";
        return Err(AppError::refused(Code::Conflict, detail));
    }
    let max = if rollout.kind == wire::RolloutKind::Create { RETRY_MAX } else { BACK_MAX };
    let offline = of_rollout(state, id, Some(DeploymentState::DeviceOffline), max).await?;
    let Some(first) = offline.first() else {
        let detail = "it is not waiting for an offline device, so there is nothing to withdraw";
        return Err(AppError::refused(Code::Unchanged, detail));
    };
    let requests = match rollout.kind {
        wire::RolloutKind::Create => vec![removal(first, &offline)],
        _ => before(state, &offline).await?,
    };
    if requests.is_empty() {
        return Err(AppError::refused(
            Code::Unchanged,
            "the previous revisions of these deployments are no longer kept",
        ));
    }
    // All or nothing, as far as it can be determined in advance.
    for request in &requests {
        match check(state, request).await {
            Err(error) if !is_nothing_left(&error) || requests.len() == 1 => return Err(error),
            _ => {}
        }
    }
    let mut made = Vec::with_capacity(requests.len());
    for (index, request) in requests.into_iter().enumerate() {
        match submit(state, &caller_of(index), request, reason.clone()).await {
            Ok(rollout) => made.push(rollout),
            Err(error) if is_nothing_left(&error) => {}
            Err(error) => return Err(error),
        }
    }
    if made.is_empty() {
        return Err(AppError::refused(Code::Unchanged, "every device that it waited for is online again"));
    }
    Ok(made)
}

fn removal(first: &Deployment, all: &[Deployment]) -> Request {
    Request {
        kind: RolloutKind::Remove,
        application: first.application.clone(),
        version: None,
        profile: None,
        scope: wire::Scope {
            deployments: Some(all.iter().map(|deployment| deployment.id.to_string()).collect()),
            ..wire::Scope::default()
        },
        values: indexmap::IndexMap::new(),
        policy: PolicyUpdate::default(),
        skip_incompatible: true,
        only_outdated: false,
        withdrawn: Some(first.rollout),
        rollback_to: None,
    }
}

/// The previous revision of each, grouped by content. Where it is no longer kept, the device keeps its revision.
async fn before(state: &ServerState, all: &[Deployment]) -> AppResult<Vec<Request>> {
    let (mut kinds, mut slices): (Vec<Request>, _) = (Vec::new(), TimeSlices::begin());
    for deployment in all {
        let (id, revision) = (deployment.id.to_string(), deployment.revision - 1);
        let mut request = match back_to(state, &id, revision).await {
            Ok(request) => request,
            Err(AppError::Refused { code: Code::NotFound, .. }) => continue,
            Err(error) => return Err(error),
        };
        // A retry differs from its predecessor in this alone.
        request.policy.attempt = policy_at(state, deployment, revision).await?.map(|policy| policy.attempt);
        // Unchanged values may differ between devices.
        request.values.retain(|name, value| deployment.values.get(name) != Some(value));
        match kinds.iter_mut().find(|known| is_same(known, &request)) {
            Some(known) => known.scope.deployments.get_or_insert_default().push(id),
            None => {
                let withdrawn = Some(deployment.rollout);
                // Their revisions differ; the withdrawal is recorded as such.
                kinds.push(Request { skip_incompatible: true, withdrawn, rollback_to: None, ..request });
            }
        }
        if kinds.len() > KINDS_MAX {
            let detail = format!(
                "the previous states of these devices differ in more than {KINDS_MAX} ways; roll back on their own pages, or select them on the page of the application"
            );
            return Err(AppError::refused(Code::Invalid, detail));
        }
        slices.next().await;
    }
    Ok(kinds)
}

/// Everything but the devices.
fn is_same(one: &Request, other: &Request) -> bool {
    let what = |request: &Request| (request.kind, request.version.clone(), request.profile.clone(), request.policy);
    what(one) == what(other) && one.values == other.values
}
