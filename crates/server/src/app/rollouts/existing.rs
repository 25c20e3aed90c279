//! Rollouts to existing deployments: other values, another version, removal.

use super::TARGETS_MAX;
use super::create::choose;
use super::plan::{Planned, PlannedSkip, PlannedTarget, Request, refuse, refuse_masks, refuse_values};
use super::scope::{self, place_name};
use crate::app::applications::described;
use crate::app::compose::{ExistingDeployment, compose};
use crate::app::cooperative::TimeSlices;
use crate::app::error::{AppError, AppResult, Code};
use crate::app::mask::Sensitive;
use crate::state::ServerState;
use margo::description::ApplicationDescription;
use margo::digest::Digest;
use margo::ids::{ClientId, DeploymentId, DeviceTarget};
use margrave_api::devices::DeviceRef;
use margrave_api::problem::FieldProblem;
use margrave_core::deployment_state::{DeploymentState, state_of};
use margrave_core::model::{Deployment, Desired, Device, DeviceKey, RolloutKind, RolloutTarget};
use margrave_core::skips::SkipReason;
use margrave_store::{DeploymentFilter, DeploymentView, DeviceFilter};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Deployments read at a time.
const PAGE: u32 = 100;

type Described = HashMap<String, Arc<ApplicationDescription>>;
type Hosts = HashMap<DeviceKey, Device>;

pub(super) async fn plan(state: &ServerState, request: &Request) -> AppResult<Planned> {
    let (views, gone) = in_scope(state, request).await?;
    if views.is_empty() {
        let detail = format!("no deployment of `{}` is in scope; nothing would change", request.application);
        return Err(AppError::refused(Code::Unchanged, detail));
    }
    let versions: BTreeSet<&str> = views.iter().map(|view| view.deployment.version.as_str()).collect();
    let version = version_after(request, &versions)?;
    let mut descriptions = Described::new();
    for known in versions.iter().copied().chain((request.kind != RolloutKind::Remove).then_some(version.as_str())) {
        if request.kind != RolloutKind::Remove && !descriptions.contains_key(known) {
            let (_, description) = described(state, &request.application, known).await?;
            descriptions.insert(known.to_owned(), description);
        }
    }
    let (mut outcome, mut slices) = (Outcome { unchanged: gone, ..Outcome::default() }, TimeSlices::begin());
    let mut views = views.into_iter().peekable();
    while views.peek().is_some() {
        let batch: Vec<DeploymentView> = views.by_ref().take(PAGE as usize).collect();
        let hosts = hosts(state, request, &batch).await?;
        for view in batch {
            plan_one(state, request, &version, &descriptions, &hosts, view, &mut outcome).await?;
            slices.next().await;
        }
    }
    outcome.finish(request, version)
}

/// The version of the deployments afterwards.
fn version_after(request: &Request, versions: &BTreeSet<&str>) -> AppResult<String> {
    let joined = versions.iter().copied().collect::<Vec<_>>().join(", ");
    match request.kind {
        RolloutKind::Upgrade => Ok(request.version.clone().unwrap_or_default()),
        RolloutKind::Reconfigure if versions.len() > 1 => Err(AppError::invalid(
            "version",
            format!(
                "the deployments are on versions {joined}, whose parameters may differ; name the version to reconfigure"
            ),
        )),
        _ => Ok(joined),
    }
}

#[derive(Default)]
struct Outcome {
    targets: Vec<PlannedTarget>,
    incompatible: Vec<PlannedSkip>,
    unchanged: Vec<PlannedSkip>,
}

impl Outcome {
    fn finish(self, request: &Request, version: String) -> AppResult<Planned> {
        let Self { targets, incompatible, unchanged } = self;
        if !incompatible.is_empty() && (!request.may_skip() || targets.is_empty()) {
            let errors = incompatible.iter().map(PlannedSkip::problem).collect();
            // Skipping is no option when no device is left.
            let next = if targets.is_empty() {
                "select another version or other devices"
            } else {
                "select others, or skip them with `skipIncompatible`"
            };
            return Err(refuse(Code::Unplaceable, ["cannot run it"; 2], next, errors));
        }
        if targets.is_empty() {
            let detail = "nothing would change: every deployment in scope is already up to date";
            return Err(AppError::refused(Code::Unchanged, detail));
        }
        Ok(Planned { version, targets, skipped: incompatible.into_iter().chain(unchanged).collect() })
    }
}

async fn plan_one(
    state: &ServerState,
    request: &Request,
    version: &str,
    descriptions: &Described,
    hosts: &Hosts,
    view: DeploymentView,
    outcome: &mut Outcome,
) -> AppResult<()> {
    let last_seen = state.heads.last_seen(&view.deployment.client).max(view.last_seen_at);
    let deployment_state = state_of(&view.deployment, view.reported.as_ref(), last_seen, state.offline_before());
    let deployment = view.deployment;
    let reference = DeviceRef { client: deployment.client.to_string(), device: deployment.target.to_string() };
    if let Some(rollout) = request.withdrawn
        && (deployment.rollout != rollout || deployment_state != DeploymentState::DeviceOffline)
    {
        outcome.unchanged.push(PlannedSkip { device: reference, reason: SkipReason::ChangedOrOnline });
        return Ok(());
    }
    let profile = match profile_after(state, request, version, descriptions, hosts, &deployment).await? {
        Ok(profile) => profile,
        Err(explanation) => {
            let reason = SkipReason::Incompatible { explanation };
            outcome.incompatible.push(PlannedSkip { device: reference, reason });
            return Ok(());
        }
    };
    let from = descriptions.get(&deployment.version).cloned();
    let to = match request.kind {
        RolloutKind::Remove => None,
        RolloutKind::Upgrade => descriptions.get(version).cloned(),
        _ => from.clone(),
    };
    if let (Some(from), Some(to)) = (&from, &to) {
        let sensitive = Sensitive::of(Some(to));
        refuse_masks(&request.values, &sensitive)?;
        let before = ExistingDeployment { values: &deployment.values, description: from, policy: deployment.policy };
        let composed =
            compose(deployment.id, &deployment.target, to, &profile, &request.values, request.policy, Some(before))
                .map_err(|errors| refuse_values(errors, &sensitive))?;
        let stays = request.kind == RolloutKind::Reconfigure || deployment.version == version;
        if stays && Digest::of(&composed.yaml) == deployment.yaml_digest {
            outcome.unchanged.push(PlannedSkip { device: reference, reason: SkipReason::Unchanged });
            return Ok(());
        }
    }
    outcome.targets.push(PlannedTarget {
        target: RolloutTarget {
            deployment: deployment.id,
            client: deployment.client.clone(),
            target: deployment.target.clone(),
            profile,
            expected_revision: Some(deployment.revision),
        },
        present: Some(deployment),
        from,
        to,
        deployment_state: Some(deployment_state),
        offline: last_seen.is_none_or(|seen| seen < state.offline_before()),
    });
    Ok(())
}

/// The profile afterwards: the same one if it is still compatible. The inner error says why the device cannot run it.
async fn profile_after(
    state: &ServerState,
    request: &Request,
    version: &str,
    descriptions: &Described,
    hosts: &Hosts,
    deployment: &Deployment,
) -> AppResult<Result<String, String>> {
    if request.kind != RolloutKind::Upgrade {
        return Ok(Ok(deployment.profile.clone()));
    }
    let description = &descriptions[version];
    if let Some(requested) = request.profile.as_ref().filter(|requested| description.profile(requested).is_none()) {
        return Err(AppError::invalid(
            "profile",
            format!("`{}` {version} has no profile `{requested}`", description.id),
        ));
    }
    let key = DeviceKey { client: deployment.client.clone(), device: scope::base(&deployment.target) };
    let candidate = match hosts.get(&key) {
        Some(device) if !deployment.target.is_autonomous() => Some(scope::of_device(state, device)),
        Some(_) => scope::find(state, &deployment.client, &deployment.target).await?,
        None => None,
    };
    let Some(candidate) = candidate else {
        return Ok(Err("unknown: the device no longer reports its capabilities".to_owned()));
    };
    if let Some(requested) = request.profile.as_deref() {
        return Ok(choose(description, &candidate, Some(requested)));
    }
    let same = description.profile(&deployment.profile).map(|profile| profile.id.as_str());
    Ok(match same.map(|same| choose(description, &candidate, Some(same))) {
        Some(Ok(profile)) => Ok(profile),
        _ => choose(description, &candidate, None),
    })
}

/// The devices of these deployments, where their capabilities matter; one query for all of them.
async fn hosts(state: &ServerState, request: &Request, views: &[DeploymentView]) -> AppResult<Hosts> {
    if request.kind != RolloutKind::Upgrade {
        return Ok(Hosts::new());
    }
    let clients: BTreeSet<&ClientId> = views.iter().map(|view| &view.deployment.client).collect();
    let clients: Vec<ClientId> = clients.into_iter().cloned().collect();
    let devices = state.store.devices_of(&clients).await?;
    Ok(devices.into_iter().map(|device| (device.key.clone(), device)).collect())
}

/// The deployments of a scope, and those named that no longer exist, where that is allowed.
async fn in_scope(state: &ServerState, request: &Request) -> AppResult<(Vec<DeploymentView>, Vec<PlannedSkip>)> {
    if let Some(ids) = &request.scope.deployments {
        return by_id(state, request, ids).await;
    }
    let version = (request.kind != RolloutKind::Upgrade).then(|| request.version.clone()).flatten();
    let filter =
        DeploymentFilter { application: Some(request.application.clone()), version, ..DeploymentFilter::default() };
    if let Some(selector) = scope::selector(state, &request.scope).await? {
        let moves =
            |deployment: &Deployment| !request.only_outdated || request.version.as_ref() != Some(&deployment.version);
        if selector.requirements.is_empty() {
            return Ok((all(state, &filter, moves).await?, Vec::new()));
        }
        let devices = scope::matching(state, &DeviceFilter { client: None, selector }, TARGETS_MAX).await?;
        let keys: HashSet<DeviceKey> = devices.into_iter().map(|device| device.key).collect();
        let hit = |deployment: &Deployment| {
            let key = DeviceKey { client: deployment.client.clone(), device: scope::base(&deployment.target) };
            moves(deployment) && keys.contains(&key)
        };
        return Ok((all(state, &filter, hit).await?, Vec::new()));
    }
    let places = scope::named(request.scope.devices.as_deref().unwrap_or_default())?;
    Ok((by_place(state, request, &filter, &places).await?, Vec::new()))
}

async fn all(
    state: &ServerState,
    filter: &DeploymentFilter,
    hit: impl Fn(&Deployment) -> bool,
) -> AppResult<Vec<DeploymentView>> {
    let mut found = Vec::new();
    let mut after: Option<DeploymentId> = None;
    loop {
        let page = state.store.deployments_page(filter, state.offline_before(), after, PAGE).await?;
        let last = page.len() < PAGE as usize;
        after = page.last().map(|view| view.deployment.id);
        found.extend(page.into_iter().filter(|view| hit(&view.deployment)));
        if last {
            return Ok(found);
        }
    }
}

async fn by_place(
    state: &ServerState,
    request: &Request,
    filter: &DeploymentFilter,
    places: &[(ClientId, DeviceTarget)],
) -> AppResult<Vec<DeploymentView>> {
    let mut found = Vec::with_capacity(places.len());
    let mut errors = Vec::new();
    for (index, (client, target)) in places.iter().enumerate() {
        let filter = DeploymentFilter { client: Some(client.clone()), target: Some(target.clone()), ..filter.clone() };
        let views = state.store.deployments_page(&filter, state.offline_before(), None, PAGE).await?;
        if views.is_empty() {
            let message = format!("`{}` has no deployment of `{}`", place_name(client, target), request.application);
            errors.push(FieldProblem::new(format!("scope.devices[{index}]"), message));
        }
        found.extend(views);
    }
    if errors.is_empty() {
        Ok(found)
    } else {
        Err(AppError::with_fields(Code::Invalid, "some devices do not have this deployment", errors))
    }
}

async fn by_id(
    state: &ServerState,
    request: &Request,
    ids: &[String],
) -> AppResult<(Vec<DeploymentView>, Vec<PlannedSkip>)> {
    let mut found: Vec<DeploymentView> = Vec::with_capacity(ids.len());
    let (mut errors, mut gone, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for (index, text) in ids.iter().enumerate() {
        let view = match text.parse::<DeploymentId>() {
            Ok(id) => state.store.deployment_get(id).await?,
            Err(_) => None,
        };
        // Of many selected devices, some may have changed by the time of the rollout.
        if let Some(view) = view.as_ref().filter(|_| request.may_skip())
            && let Some(reason) = elsewhere(request, &view.deployment)
        {
            let device = &view.deployment;
            let device = DeviceRef { client: device.client.to_string(), device: device.target.to_string() };
            gone.push(PlannedSkip { device, reason });
            continue;
        }
        let problem = match &view {
            None if request.may_skip() => continue,
            None => Some("does not exist".to_owned()),
            Some(view) if view.deployment.desired == Desired::Absent => Some("was removed".to_owned()),
            Some(view) if view.deployment.application != request.application => {
                Some(format!("is a deployment of `{}`", view.deployment.application))
            }
            Some(view) if !seen.insert(view.deployment.id) => Some("is named twice".to_owned()),
            Some(_) => None,
        };
        match (problem, view) {
            (None, Some(view)) => found.push(view),
            (problem, _) => errors.push(FieldProblem::new(
                format!("scope.deployments[{index}]"),
                format!("`{text}` {}", problem.unwrap_or_default()),
            )),
        }
    }
    if errors.is_empty() {
        Ok((found, gone))
    } else {
        Err(AppError::with_fields(Code::Invalid, "invalid deployment references", errors))
    }
}

/// Why a deployment no longer matches the selection.
fn elsewhere(request: &Request, deployment: &Deployment) -> Option<SkipReason> {
    let on = |version: &String| *version == deployment.version;
    if deployment.desired == Desired::Absent {
        return Some(SkipReason::DeploymentRemoved);
    }
    match request.kind {
        RolloutKind::Upgrade if request.only_outdated && request.version.as_ref().is_some_and(on) => {
            Some(SkipReason::Unchanged)
        }
        RolloutKind::Reconfigure if request.version.as_ref().is_some_and(|version| !on(version)) => {
            Some(SkipReason::OnAnotherVersion { version: deployment.version.clone() })
        }
        _ => None,
    }
}
