//! Retries the failed deployments of a rollout as one rollout.

use super::{Request, submit};
use crate::app::access::Caller;
use crate::app::error::{AppError, AppResult, Code};
use crate::state::ServerState;
use margrave_api::rollouts as wire;
use margrave_core::deployment_state::DeploymentState;
use margrave_core::model::{Deployment, RolloutKind};
use margrave_core::policy::PolicyUpdate;
use margrave_store::DeploymentFilter;
use uuid::Uuid;

/// Deployments read at a time.
const PAGE: u32 = 100;
/// Deployments retried at once; as many as a rollout may name.
pub(super) const RETRY_MAX: usize = 10_000;

/// Retries everything of a rollout that has failed and should run, under a new revision: one rollout for all of them. A
/// device that retries automatically applies it at once, and so does one that has stopped or rolled back.
pub async fn again(state: &ServerState, caller: &Caller, id: &str, reason: Option<String>) -> AppResult<wire::Rollout> {
    let failed = of_rollout(state, id, Some(DeploymentState::Failed), RETRY_MAX).await?;
    let Some(first) = failed.first() else {
        return Err(AppError::refused(Code::Unchanged, "nothing has failed, so there is nothing to retry"));
    };
    let attempt = failed.iter().map(|deployment| deployment.policy.attempt).max().unwrap_or_default();
    let request = Request {
        kind: RolloutKind::Reconfigure,
        application: first.application.clone(),
        version: None,
        profile: None,
        scope: wire::Scope {
            deployments: Some(failed.iter().map(|deployment| deployment.id.to_string()).collect()),
            ..wire::Scope::default()
        },
        values: indexmap::IndexMap::new(),
        // One number for all: it only has to differ from each current one.
        policy: PolicyUpdate { attempt: Some(attempt.saturating_add(1)), ..PolicyUpdate::default() },
        skip_incompatible: true,
        only_outdated: false,
        withdrawn: None,
        rollback_to: None,
    };
    submit(state, caller, request, reason).await
}

/// Desired deployments whose last rollout is this one; fails when there are more than `max`.
pub async fn touched(state: &ServerState, id: &str, max: usize) -> AppResult<Vec<String>> {
    let all = of_rollout(state, id, None, max).await?;
    Ok(all.into_iter().map(|deployment| deployment.id.to_string()).collect())
}

/// Desired deployments whose last rollout is this one, optionally in one state.
pub(super) async fn of_rollout(
    state: &ServerState,
    id: &str,
    deployment_state: Option<DeploymentState>,
    max: usize,
) -> AppResult<Vec<Deployment>> {
    let missing = || AppError::not_found(format_args!("rollout `{id}`"));
    let uuid = Uuid::try_parse(id).map_err(|_| missing())?;
    state.store.rollout_get(uuid).await?.ok_or_else(missing)?;
    let filter = DeploymentFilter { rollout: Some(uuid), deployment_state, ..DeploymentFilter::default() };
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = state.store.deployments_page(&filter, state.offline_before(), after, PAGE).await?;
        let last = page.len() < PAGE as usize;
        after = page.last().map(|view| view.deployment.id);
        found.extend(page.into_iter().map(|view| view.deployment));
        if found.len() > max {
            let detail = format!("it has more than {max} devices; select them on the page of the application");
            return Err(AppError::refused(Code::Invalid, detail));
        }
        if last {
            return Ok(found);
        }
    }
}
