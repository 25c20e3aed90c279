//! Rollouts: one operator decision for one device or many. Planned without side effects, then recorded as one row and
//! published by the publisher.

mod retry;
mod changed_values;
mod withdraw;
mod create;
mod existing;
mod search;
mod plan;
mod review;
mod scope;
mod show;

use super::access::Caller;
use super::deployments::{self, kind_to_wire};
use super::error::{AppError, AppResult, Code};
use super::mask::Sensitive;
use super::paging::{Paging, page};
use super::{overview, summary};
use crate::state::ServerState;
use margo::parameters::ParameterValues;
use margrave_api::deployments::UpdateDeployment;
use margrave_api::page::Page;
use margrave_api::rollouts as wire;
use margrave_core::model::{Deployment, Desired, Rollout, RolloutKind, RolloutProgress, RolloutTarget};
use margrave_core::policy::PolicyUpdate;
use margrave_core::time::Timestamp;
use margrave_store::{DeploymentView, StoreError};
use plan::Planned;
use std::collections::HashMap;
use uuid::Uuid;

pub use changed_values::ChangedValue;
pub use plan::Request;
pub use retry::{again, touched};
pub(crate) use review::review;
pub use review::{DiffGroup, Reason, Review};
pub use search::{NEWEST_FIRST, RolloutFilter, list_filtered_rollouts};
pub use withdraw::withdraw;

/// Maximum number of targets of one rollout: the largest fleet that one server supports.
const TARGETS_MAX: usize = 100_000;

/// Plans and shows the result; records nothing.
pub async fn dry_run(state: &ServerState, request: Request) -> AppResult<wire::Plan> {
    let planned = plan(state, &request).await?;
    show::show(state, &request, planned).await
}

/// Fails as [`submit`] would fail now; shows and records nothing.
pub async fn check(state: &ServerState, request: &Request) -> AppResult<()> {
    plan(state, request).await.map(drop)
}

/// Plans, records the intent durably, and wakes the publisher.
pub async fn submit(
    state: &ServerState,
    caller: &Caller,
    request: Request,
    reason: Option<String>,
) -> AppResult<wire::Rollout> {
    // One plan at a time: two concurrent plans for the same devices would both find them free.
    let _turn = state.publisher.planning().await;
    let planned = plan(state, &request).await?;
    let rollout = Rollout {
        id: Uuid::new_v4(),
        kind: request.kind,
        application: request.application,
        version: planned.version,
        sensitive: planned.targets.first().is_some_and(|target| target.sensitive().is_in(&request.values)),
        values: request.values,
        policy: request.policy,
        targets: planned.targets.into_iter().map(|target| target.target).collect(),
        done: 0,
        skipped: Vec::new(),
        actor: caller.actor(reason),
        created_at: state.now(),
        finished_at: None,
        rollback_to: request.rollback_to,
    };
    let made = to_wire(&rollout.progress(), None);
    caller.store(state, &made).rollout_create(&rollout).await?;
    state.publisher.wake();
    tracing::info!(
        rollout.id = %rollout.id,
        rollout.targets = rollout.targets.len(),
        actor = %rollout.actor.name,
        "recorded rollout `{}`: {} `{}` {}",
        rollout.id,
        rollout.kind.as_str(),
        rollout.application,
        rollout.version
    );
    Ok(made)
}

async fn plan(state: &ServerState, request: &Request) -> AppResult<Planned> {
    let planned = match request.kind {
        RolloutKind::Create => create::plan(state, request).await?,
        RolloutKind::Reconfigure | RolloutKind::Upgrade | RolloutKind::Remove => existing::plan(state, request).await?,
    };
    if planned.targets.len() > TARGETS_MAX {
        let detail = format!("a rollout has at most {TARGETS_MAX} devices; narrow the selector");
        return Err(AppError::refused(Code::Invalid, detail));
    }
    Ok(planned)
}

/// `PATCH /api/deployments/{id}` as a rollout to one device.
pub async fn update_request(
    state: &ServerState,
    id: &str,
    body: UpdateDeployment,
    expected: Option<i64>,
) -> AppResult<(Request, Option<String>)> {
    let deployment = present(state, id, expected).await?.deployment;
    let UpdateDeployment { version, values, policy, comment: reason } = body;
    if version.is_none() && values.is_empty() && policy.is_empty() {
        return Err(AppError::refused(Code::Invalid, "give another version, values or a policy"));
    }
    let kind = match &version {
        Some(version) if *version != deployment.version => RolloutKind::Upgrade,
        _ => RolloutKind::Reconfigure,
    };
    let scope = wire::Scope { deployments: Some(vec![deployment.id.to_string()]), ..wire::Scope::default() };
    let request = Request {
        kind,
        application: deployment.application,
        version: (kind == RolloutKind::Upgrade).then_some(version).flatten(),
        profile: None,
        scope,
        values,
        policy: policy.into(),
        skip_incompatible: false,
        only_outdated: false,
        withdrawn: None,
        rollback_to: None,
    };
    Ok((request, reason))
}

/// `DELETE /api/deployments/{id}` as a rollout to one device.
pub async fn remove_request(state: &ServerState, id: &str, expected: Option<i64>) -> AppResult<Request> {
    let deployment = present(state, id, expected).await?.deployment;
    let scope = wire::Scope { deployments: Some(vec![deployment.id.to_string()]), ..wire::Scope::default() };
    Ok(Request {
        kind: RolloutKind::Remove,
        application: deployment.application,
        version: None,
        profile: None,
        scope,
        values: indexmap::IndexMap::new(),
        policy: PolicyUpdate::default(),
        skip_incompatible: false,
        only_outdated: false,
        withdrawn: None,
        rollback_to: None,
    })
}

/// The same document under a new revision, as a rollout to one device.
pub(super) fn retry_request(deployment: &Deployment) -> Request {
    let scope = wire::Scope { deployments: Some(vec![deployment.id.to_string()]), ..wire::Scope::default() };
    Request {
        kind: RolloutKind::Reconfigure,
        application: deployment.application.clone(),
        version: None,
        profile: None,
        scope,
        values: indexmap::IndexMap::new(),
        policy: PolicyUpdate { attempt: Some(deployment.policy.attempt.saturating_add(1)), ..PolicyUpdate::default() },
        skip_incompatible: false,
        only_outdated: false,
        withdrawn: None,
        rollback_to: None,
    }
}

async fn present(state: &ServerState, id: &str, expected: Option<i64>) -> AppResult<DeploymentView> {
    let view = deployments::existing(state, id).await?;
    if view.deployment.desired == Desired::Absent {
        return Err(AppError::not_found(format_args!("deployment `{id}` (it was removed)")));
    }
    let current = view.deployment.revision;
    match expected.filter(|expected| *expected != current) {
        Some(expected) => Err(StoreError::Conflict { what: format!("deployment `{id}`"), expected, current }.into()),
        None => Ok(view),
    }
}

pub async fn list(state: &ServerState, paging: &Paging) -> AppResult<Page<wire::Rollout>> {
    let limit = paging.limit()?;
    let before: Option<Position> = paging.after()?;
    let rows = state.store.rollouts_page(before.map(|position| position.0), limit + 1).await?;
    let found = page(rows, limit, |rollout| Position((rollout.created_at, rollout.id)).to_string(), |rollout| rollout);
    let mut items = Vec::with_capacity(found.items.len());
    for rollout in found.items {
        let counts = overview::rollout_counts(state, rollout.id, rollout.total).await?;
        items.push(wire::Rollout { deployments: None, ..to_wire(&rollout, Some(&counts)) });
    }
    Ok(Page { items, next: found.next })
}

/// The deployments of a large rollout are not counted for every request, because many viewers can poll it.
pub async fn get(state: &ServerState, id: &str) -> AppResult<wire::Rollout> {
    let missing = || AppError::not_found(format_args!("rollout `{id}`"));
    let uuid = Uuid::try_parse(id).map_err(|_| missing())?;
    let rollout = state.store.rollout_get(uuid).await?.ok_or_else(missing)?;
    let counts = overview::rollout_counts(state, uuid, rollout.total).await?;
    let values = masked_values(state, &rollout).await?;
    Ok(wire::Rollout { values, ..to_wire(&rollout, Some(&counts)) })
}

/// A rollout with its device, when it has exactly one.
#[derive(Debug, Clone)]
pub struct RolloutWithDevice {
    pub rollout: wire::Rollout,
    pub device: Option<String>,
}

/// Like [`get`], with the name of its device when it has exactly one.
pub async fn with_device(state: &ServerState, id: &str) -> AppResult<RolloutWithDevice> {
    let rollout = get(state, id).await?;
    let device = device(state, &rollout).await?;
    Ok(RolloutWithDevice { rollout, device })
}

async fn device(state: &ServerState, rollout: &wire::Rollout) -> AppResult<Option<String>> {
    let target = match Uuid::try_parse(&rollout.id) {
        Ok(id) if rollout.total == 1 => state.store.rollout_targets(id).await?.into_iter().next(),
        _ => None,
    };
    Ok(target.map(|target| target.target.to_string()))
}

/// The values of a rollout, with sensitive ones masked (PRM-09).
async fn masked_values(state: &ServerState, rollout: &RolloutProgress) -> AppResult<ParameterValues> {
    let (given, sealed) = state.store.rollout_values(rollout.id).await?.unwrap_or_default();
    if given.is_empty() {
        return Ok(given);
    }
    let mut sensitive = match state.store.version_get(&rollout.application, &rollout.version).await? {
        Some(version) => Sensitive::of(Some(&*state.descriptions.get(&state.store, &version).await?)),
        // Without the description it is unknown which values are sensitive.
        None => Sensitive::All,
    };
    // Deployments of another version may mark other values as sensitive.
    if sealed && !sensitive.is_in(&given) {
        sensitive = Sensitive::All;
    }
    Ok(sensitive.mask_values(given))
}

/// A device that a rollout skipped.
#[derive(Debug, Clone)]
pub struct Skipped {
    pub client: String,
    pub device: String,
    /// A stable name: `already-deployed`, `incompatible`.
    pub kind: String,
    pub reason: String,
}

/// Skipped devices that are named.
const SKIPPED_MAX: usize = 100;
/// Targets of a rollout read to name some of them.
const TARGETS_READ_MAX: u64 = 5_000;

/// The devices that a rollout skipped, by name; only the first ones when there are many.
pub async fn skipped(state: &ServerState, rollout: &wire::Rollout) -> AppResult<Vec<Skipped>> {
    let Ok(id) = Uuid::try_parse(&rollout.id) else { return Ok(Vec::new()) };
    if rollout.skipped.is_empty() {
        return Ok(Vec::new());
    }
    // Only the rollout knows deployments that were not created; for a large rollout that is too much to read for a
    // page.
    let targets = if rollout.total <= TARGETS_READ_MAX { state.store.rollout_targets(id).await? } else { Vec::new() };
    let places: HashMap<String, &RolloutTarget> =
        targets.iter().map(|target| (target.deployment.to_string(), target)).collect();
    let mut named = Vec::new();
    for wire::Skipped { deployment, kind, reason, .. } in rollout.skipped.iter().take(SKIPPED_MAX) {
        let place = match places.get(deployment) {
            Some(target) => Some((target.client.to_string(), target.target.to_string())),
            None => deployments::existing(state, deployment)
                .await
                .ok()
                .map(|view| (view.deployment.client.to_string(), view.deployment.target.to_string())),
        };
        if let Some((client, device)) = place {
            named.push(Skipped { client, device, kind: kind.clone(), reason: reason.clone() });
        }
    }
    Ok(named)
}

/// Leaves the targets that are not published yet unchanged; returns their number.
pub async fn cancel(state: &ServerState, caller: &Caller, id: &str, reason: Option<String>) -> AppResult<u64> {
    let missing = || AppError::not_found(format_args!("rollout `{id}`"));
    let uuid = Uuid::try_parse(id).map_err(|_| missing())?;
    state.store.rollout_get(uuid).await?.ok_or_else(missing)?;
    let left = state.store.rollout_cancel(&caller.actor(reason), uuid, state.now()).await?;
    tracing::info!(rollout.id = %uuid, left, "cancelled rollout `{uuid}`");
    Ok(left)
}

/// The position where a page of rollouts ended.
struct Position((Timestamp, Uuid));

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0.0.0, self.0.1)
    }
}

impl std::str::FromStr for Position {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (at, id) = text.split_once('/').ok_or(())?;
        Ok(Self((Timestamp(at.parse().map_err(|_| ())?), Uuid::try_parse(id).map_err(|_| ())?)))
    }
}

/// Without counts for a rollout that has just been recorded.
fn to_wire(rollout: &RolloutProgress, deployments: Option<&margrave_api::summary::Counts>) -> wire::Rollout {
    let by_state = deployments.into_iter().flat_map(|counts| &counts.0);
    let by_state = by_state.map(|(state, count)| ((*state).into(), *count)).collect();
    wire::Rollout {
        id: rollout.id.to_string(),
        kind: kind_to_wire(rollout.kind),
        application: rollout.application.to_string(),
        version: rollout.version.clone(),
        state: rollout.state(&by_state).into(),
        total: rollout.total as u64,
        published: rollout.done as u64,
        skipped: rollout
            .skipped
            .iter()
            .map(|(deployment, reason)| wire::Skipped {
                deployment: deployment.to_string(),
                kind: reason.kind().to_owned(),
                data: reason.data(),
                reason: reason.to_string(),
            })
            .collect(),
        finished: rollout.finished_at.is_some(),
        actor: rollout.actor.name.clone(),
        comment: rollout.actor.comment.clone(),
        created_at: rollout.created_at.to_string(),
        finished_at: rollout.finished_at.map(|at| at.to_string()),
        deployments: deployments.cloned(),
        values: indexmap::IndexMap::new(),
        past: summary::counts(rollout.past.clone()),
        rollback_to: rollout.rollback_to,
    }
}
