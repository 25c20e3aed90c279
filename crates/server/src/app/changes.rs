//! Changes: one intent over one device or many. Planned without touching anything, then recorded as one row and carried out by
//! the publisher.

mod again;
mod answered;
mod call_off;
mod create;
mod existing;
mod listed;
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
use margo::parameters::Answers;
use margrave_api::changes as wire;
use margrave_api::deployments::UpdateDeployment;
use margrave_api::page::Page;
use margrave_core::model::{Change, ChangeKind, ChangeProgress, ChangeTarget, Deployment, Desired};
use margrave_core::policy::Wish;
use margrave_core::time::Timestamp;
use margrave_store::{DeploymentView, StoreError};
use plan::Planned;
use std::collections::HashMap;
use uuid::Uuid;

pub use again::{again, touched};
pub use answered::Answered;
pub use call_off::call_off;
pub use listed::{Wanted, list_wanted};
pub use plan::Request;
pub(crate) use review::review;
pub use review::{Alike, Reason, Review};

/// Targets one change may have: the whole of the largest fleet one server is built for.
const TARGETS_MAX: usize = 100_000;

/// Plans and shows; nothing is recorded.
pub async fn dry_run(state: &ServerState, request: Request) -> AppResult<wire::Plan> {
    let planned = plan(state, &request).await?;
    show::show(state, &request, planned).await
}

/// Refused as [`submit`] would refuse it now; nothing is shown or recorded.
pub async fn check(state: &ServerState, request: &Request) -> AppResult<()> {
    plan(state, request).await.map(drop)
}

/// Plans, records the intent durably, and wakes the publisher.
pub async fn submit(
    state: &ServerState,
    caller: &Caller,
    request: Request,
    reason: Option<String>,
) -> AppResult<wire::Change> {
    // One plan at a time: two that look at the same devices would otherwise both find them free.
    let _turn = state.publisher.planning().await;
    let planned = plan(state, &request).await?;
    let change = Change {
        id: Uuid::new_v4(),
        kind: request.kind,
        application: request.application,
        version: planned.version,
        sensitive: planned.targets.first().is_some_and(|target| target.sensitive().is_in(&request.answers)),
        answers: request.answers,
        policy: request.policy,
        targets: planned.targets.into_iter().map(|target| target.target).collect(),
        done: 0,
        skipped: Vec::new(),
        actor: caller.actor(reason),
        created_at: state.now(),
        finished_at: None,
    };
    let made = to_wire(&change.progress());
    caller.store(state, &made).change_create(&change).await?;
    state.publisher.wake();
    tracing::info!(
        change.id = %change.id,
        change.targets = change.targets.len(),
        actor = %change.actor.name,
        "recorded change `{}`: {} `{}` {}",
        change.id,
        change.kind.as_str(),
        change.application,
        change.version
    );
    Ok(made)
}

async fn plan(state: &ServerState, request: &Request) -> AppResult<Planned> {
    let planned = match request.kind {
        ChangeKind::Create => create::plan(state, request).await?,
        ChangeKind::Reconfigure | ChangeKind::Upgrade | ChangeKind::Remove => existing::plan(state, request).await?,
    };
    if planned.targets.len() > TARGETS_MAX {
        let detail = format!("a change reaches at most {TARGETS_MAX} devices; narrow the selector");
        return Err(AppError::refused(Code::Invalid, detail));
    }
    Ok(planned)
}

/// What `PATCH /api/deployments/{id}` asks for, as a change of one.
pub async fn update_request(
    state: &ServerState,
    id: &str,
    body: UpdateDeployment,
    expected: Option<i64>,
) -> AppResult<(Request, Option<String>)> {
    let deployment = present(state, id, expected).await?.deployment;
    let UpdateDeployment { version, answers, policy, reason } = body;
    if version.is_none() && answers.is_empty() && policy.is_empty() {
        return Err(AppError::refused(Code::Invalid, "give another version, answers or a policy"));
    }
    let kind = match &version {
        Some(version) if *version != deployment.version => ChangeKind::Upgrade,
        _ => ChangeKind::Reconfigure,
    };
    let scope = wire::Scope { deployments: Some(vec![deployment.id.to_string()]), ..wire::Scope::default() };
    let request = Request {
        kind,
        application: deployment.application,
        version: (kind == ChangeKind::Upgrade).then_some(version).flatten(),
        profile: None,
        scope,
        answers,
        policy: policy.into(),
        skip_unfit: false,
        movers: false,
        called_off: None,
    };
    Ok((request, reason))
}

/// What `DELETE /api/deployments/{id}` asks for, as a change of one.
pub async fn remove_request(state: &ServerState, id: &str, expected: Option<i64>) -> AppResult<Request> {
    let deployment = present(state, id, expected).await?.deployment;
    let scope = wire::Scope { deployments: Some(vec![deployment.id.to_string()]), ..wire::Scope::default() };
    Ok(Request {
        kind: ChangeKind::Remove,
        application: deployment.application,
        version: None,
        profile: None,
        scope,
        answers: indexmap::IndexMap::new(),
        policy: Wish::default(),
        skip_unfit: false,
        movers: false,
        called_off: None,
    })
}

/// The same once more under a new revision, as a change of one.
pub(super) fn retry_request(deployment: &Deployment) -> Request {
    let scope = wire::Scope { deployments: Some(vec![deployment.id.to_string()]), ..wire::Scope::default() };
    Request {
        kind: ChangeKind::Reconfigure,
        application: deployment.application.clone(),
        version: None,
        profile: None,
        scope,
        answers: indexmap::IndexMap::new(),
        policy: Wish { attempt: Some(deployment.policy.attempt.saturating_add(1)), ..Wish::default() },
        skip_unfit: false,
        movers: false,
        called_off: None,
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

pub async fn list(state: &ServerState, paging: &Paging) -> AppResult<Page<wire::Change>> {
    let limit = paging.limit()?;
    let before: Option<Position> = paging.after()?;
    let rows = state.store.changes_page(before.map(|position| position.0), limit + 1).await?;
    Ok(page(rows, limit, |change| Position((change.created_at, change.id)).to_string(), |change| to_wire(&change)))
}

/// The deployments of a large change are not counted anew each time: many may look at it.
pub async fn get(state: &ServerState, id: &str) -> AppResult<wire::Change> {
    let missing = || AppError::not_found(format_args!("change `{id}`"));
    let uuid = Uuid::try_parse(id).map_err(|_| missing())?;
    let change = state.store.change_get(uuid).await?.ok_or_else(missing)?;
    let counts = overview::change_counts(state, uuid, change.total).await?;
    let answers = answers(state, &change).await?;
    Ok(wire::Change { deployments: Some(counts), answers, ..to_wire(&change) })
}

/// A change with the device it is for, when it is for one alone.
#[derive(Debug, Clone)]
pub struct Told {
    pub change: wire::Change,
    pub device: Option<String>,
}

/// The same as [`get`], by the name of its device where there is one only.
pub async fn told(state: &ServerState, id: &str) -> AppResult<Told> {
    let change = get(state, id).await?;
    let device = device(state, &change).await?;
    Ok(Told { change, device })
}

async fn device(state: &ServerState, change: &wire::Change) -> AppResult<Option<String>> {
    let target = match Uuid::try_parse(&change.id) {
        Ok(id) if change.total == 1 => state.store.change_targets(id).await?.into_iter().next(),
        _ => None,
    };
    Ok(target.map(|target| target.target.to_string()))
}

/// What it gives, with what is marked sensitive hidden (PRM-09).
async fn answers(state: &ServerState, change: &ChangeProgress) -> AppResult<Answers> {
    let (given, sealed) = state.store.change_answers(change.id).await?.unwrap_or_default();
    if given.is_empty() {
        return Ok(given);
    }
    let mut sensitive = match state.store.version_get(&change.application, &change.version).await? {
        Some(version) => Sensitive::of(Some(&*state.descriptions.get(&state.store, &version).await?)),
        // Nobody can tell any more what was a secret.
        None => Sensitive::All,
    };
    // Deployments of another version may have marked what this one does not.
    if sealed && !sensitive.is_in(&given) {
        sensitive = Sensitive::All;
    }
    Ok(sensitive.mask_values(given))
}

/// A device a change could not reach.
#[derive(Debug, Clone)]
pub struct Skipped {
    pub client: String,
    pub device: String,
    pub reason: String,
}

/// Devices named of those a change skipped.
const SKIPPED_MAX: usize = 100;
/// Targets of a change that are read to name some of them.
const TARGETS_READ_MAX: u64 = 5_000;

/// Those a change skipped, by name; the first of them when there are many.
pub async fn skipped(state: &ServerState, change: &wire::Change) -> AppResult<Vec<Skipped>> {
    let Ok(id) = Uuid::try_parse(&change.id) else { return Ok(Vec::new()) };
    if change.skipped.is_empty() {
        return Ok(Vec::new());
    }
    // What was to be created and was not is known to the change alone; of a large one that is too much to read for a page.
    let targets = if change.total <= TARGETS_READ_MAX { state.store.change_targets(id).await? } else { Vec::new() };
    let places: HashMap<String, &ChangeTarget> =
        targets.iter().map(|target| (target.deployment.to_string(), target)).collect();
    let mut named = Vec::new();
    for wire::Skipped { deployment, reason } in change.skipped.iter().take(SKIPPED_MAX) {
        let place = match places.get(deployment) {
            Some(target) => Some((target.client.to_string(), target.target.to_string())),
            None => deployments::existing(state, deployment)
                .await
                .ok()
                .map(|view| (view.deployment.client.to_string(), view.deployment.target.to_string())),
        };
        if let Some((client, device)) = place {
            named.push(Skipped { client, device, reason: reason.clone() });
        }
    }
    Ok(named)
}

/// Leaves the targets that are not told yet as they are; gives how many.
pub async fn cancel(state: &ServerState, caller: &Caller, id: &str, reason: Option<String>) -> AppResult<u64> {
    let missing = || AppError::not_found(format_args!("change `{id}`"));
    let uuid = Uuid::try_parse(id).map_err(|_| missing())?;
    state.store.change_get(uuid).await?.ok_or_else(missing)?;
    let left = state.store.change_cancel(&caller.actor(reason), uuid, state.now()).await?;
    tracing::info!(change.id = %uuid, left, "cancelled change `{uuid}`");
    Ok(left)
}

/// Where a page of changes ended.
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

fn to_wire(change: &ChangeProgress) -> wire::Change {
    wire::Change {
        id: change.id.to_string(),
        kind: kind_to_wire(change.kind),
        application: change.application.to_string(),
        version: change.version.clone(),
        total: change.total as u64,
        published: change.done as u64,
        skipped: change
            .skipped
            .iter()
            .map(|(deployment, reason)| wire::Skipped { deployment: deployment.to_string(), reason: reason.clone() })
            .collect(),
        finished: change.finished_at.is_some(),
        actor: change.actor.name.clone(),
        reason: change.actor.reason.clone(),
        created_at: change.created_at.to_string(),
        finished_at: change.finished_at.map(|at| at.to_string()),
        deployments: None,
        answers: indexmap::IndexMap::new(),
        past: summary::counts(change.past.clone()),
    }
}
