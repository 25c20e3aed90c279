//! New deployments: which profile is used on which device, and why not.

use super::TARGETS_MAX;
use super::plan::{Planned, PlannedSkip, PlannedTarget, Request, refuse, refuse_masks, refuse_values};
use super::scope::{self, Candidate, Host, place_name};
use crate::app::applications::described;
use crate::app::compatibility;
use crate::app::compose::compose;
use crate::app::cooperative::TimeSlices;
use crate::app::error::{AppError, AppResult, Code};
use crate::app::mask::Sensitive;
use crate::state::ServerState;
use margo::constraints::Outcome;
use margo::description::ApplicationDescription;
use margo::ids::{ApplicationId, ClientId, DeploymentId, DeviceTarget};
use margrave_api::problem::FieldProblem;
use margrave_core::model::{RolloutKind, RolloutTarget};
use margrave_core::placement::{Placement, place};
use margrave_core::skips::SkipReason;
use margrave_store::DeploymentFilter;
use std::collections::{HashMap, HashSet};
use uuid::Uuid;

/// Unfinished rollouts checked for deployments that are about to be created; more than the publisher ever has.
const UNFINISHED_MAX: u32 = 100;
/// Up to this many clients are queried one by one for their deployments; beyond that all deployments are read.
const CLIENTS_ASKED_MAX: usize = 50;
const PAGE: u32 = 200;

type Places = HashMap<(ClientId, DeviceTarget), DeploymentId>;

pub(super) async fn plan(state: &ServerState, request: &Request) -> AppResult<Planned> {
    let version = request.version.as_deref().unwrap_or_default();
    let (_, description) = described(state, &request.application, version).await?;
    let sensitive = Sensitive::of(Some(&description));
    check_profile(request, &description)?;
    refuse_masks(&request.values, &sensitive)?;
    let candidates = scope::candidates(state, &request.scope, TARGETS_MAX).await?;
    if candidates.is_empty() {
        return Err(AppError::refused(Code::Unplaceable, "the selector matches no device; check the labels"));
    }
    let taken = taken(state, &request.application, &candidates).await?;

    let (mut sorted, mut slices) = (Sorted::default(), TimeSlices::begin());
    for candidate in &candidates {
        sorted.take(request, &description, candidate, &taken);
        slices.next().await;
    }
    let Sorted { chosen, incompatible, taken } = sorted;
    let skipped = skipped(request, incompatible, taken)?;
    if chosen.is_empty() {
        return Err(nothing_left(&skipped));
    }
    let profiles: HashSet<&str> = chosen.iter().map(|(_, profile)| profile.as_str()).collect();
    for profile in profiles {
        let any = &chosen[0].0.target;
        compose(DeploymentId(Uuid::nil()), any, &description, profile, &request.values, request.policy, None)
            .map_err(|errors| refuse_values(errors, &sensitive))?;
    }
    // In order: the rows of a batch are then adjacent in every index over deployments.
    let mut ids: Vec<DeploymentId> = chosen.iter().map(|_| DeploymentId(Uuid::new_v4())).collect();
    ids.sort_unstable();
    let targets = chosen
        .into_iter()
        .zip(ids)
        .map(|((candidate, profile), deployment)| PlannedTarget {
            target: RolloutTarget {
                deployment,
                client: candidate.client.clone(),
                target: candidate.target.clone(),
                profile,
                expected_revision: None,
            },
            present: None,
            from: None,
            to: Some(description.clone()),
            deployment_state: None,
            offline: candidate.offline,
        })
        .collect();
    Ok(Planned { version: version.to_owned(), targets, skipped })
}

#[derive(Default)]
struct Sorted<'a> {
    chosen: Vec<(&'a Candidate, String)>,
    incompatible: Vec<(&'a Candidate, SkipReason)>,
    taken: Vec<(&'a Candidate, SkipReason)>,
}

impl<'a> Sorted<'a> {
    fn take(
        &mut self,
        request: &Request,
        description: &ApplicationDescription,
        candidate: &'a Candidate,
        taken: &Places,
    ) {
        if let Some(id) = taken.get(&(candidate.client.clone(), candidate.target.clone())) {
            return self.taken.push((candidate, SkipReason::AlreadyDeployed { deployment: Some(*id) }));
        }
        match choose(description, candidate, request.profile.as_deref()) {
            Ok(profile) => self.chosen.push((candidate, profile)),
            Err(explanation) => self.incompatible.push((candidate, SkipReason::Incompatible { explanation })),
        }
    }
}

fn check_profile(request: &Request, description: &ApplicationDescription) -> AppResult<()> {
    let Some(requested) = &request.profile else { return Ok(()) };
    if description.profile(requested).is_some() {
        return Ok(());
    }
    let known: Vec<&str> = description.deployment_profiles.iter().map(|profile| profile.id.as_str()).collect();
    Err(AppError::invalid("profile", format!("unknown profile `{requested}`; available: {}", known.join(", "))))
}

/// The first compatible profile, or the reasons why none is (CON-02: only a surely compatible profile is used).
pub(super) fn choose(
    description: &ApplicationDescription,
    candidate: &Candidate,
    requested: Option<&str>,
) -> Result<String, String> {
    if let Some(reason) = &candidate.barred {
        return Err(reason.clone());
    }
    let placements: Vec<(Placement, &Host)> =
        candidate.hosts.iter().map(|host| (place(description, &host.capabilities, requested), host)).collect();
    if placements.is_empty() {
        return Err(if candidate.target.is_autonomous() {
            "unknown: the gateway has reported no child devices".to_owned()
        } else {
            "unknown: its capabilities cannot be read".to_owned()
        });
    }
    // With several hosts (a gateway's children), the first profile of the description that is compatible with any of
    // them.
    let order = |profile: &str| description.deployment_profiles.iter().position(|known| known.id == profile);
    let fitting = placements.iter().filter_map(|(placement, _)| placement.profile.clone());
    fitting.min_by_key(|profile| order(profile)).ok_or_else(|| why_not(&placements))
}

fn why_not(placements: &[(Placement, &Host)]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let several = placements.len() > 1;
    let all = placements.iter().flat_map(|(placement, host)| placement.profiles.iter().map(move |one| (one, host)));
    for (evaluated, host) in all {
        let reasons: Vec<String> = evaluated
            .compatibility
            .reasons
            .iter()
            .filter(|reason| reason.outcome == evaluated.compatibility.outcome)
            .map(|reason| compatibility::reason_text(reason, &host.operator_labels))
            .collect();
        let word = if evaluated.compatibility.outcome == Outcome::Unknown { "unknown: " } else { "" };
        let kind = evaluated.profile_type.as_str();
        let part = format!("profile `{}` ({kind}): {word}{}", evaluated.profile, reasons.join("; "));
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    let text = parts.join("; ");
    if several { format!("none of the gateway's devices is compatible: {text}") } else { text }
}

/// Fails, or lists what is skipped instead.
fn skipped(
    request: &Request,
    incompatible: Vec<(&Candidate, SkipReason)>,
    taken: Vec<(&Candidate, SkipReason)>,
) -> AppResult<Vec<PlannedSkip>> {
    if !request.may_skip() {
        let problem = |(candidate, reason): &(&Candidate, SkipReason)| {
            FieldProblem::new(place_name(&candidate.client, &candidate.target), reason.to_string())
        };
        let problems = |list: &[(&Candidate, SkipReason)]| -> Vec<FieldProblem> { list.iter().map(problem).collect() };
        if !incompatible.is_empty() {
            let next = "select others, or skip them with `skipIncompatible`";
            return Err(refuse(Code::Unplaceable, ["cannot run it"; 2], next, problems(&incompatible)));
        }
        if !taken.is_empty() {
            let next = "upgrade or reconfigure those, or skip them with `skipIncompatible`";
            return Err(refuse(
                Code::Exists,
                ["already has this application", "already have this application"],
                next,
                problems(&taken),
            ));
        }
    }
    let skipped = incompatible.into_iter().chain(taken);
    Ok(skipped.map(|(candidate, reason)| PlannedSkip { device: candidate.reference(), reason }).collect())
}

fn nothing_left(skipped: &[PlannedSkip]) -> AppError {
    let errors = skipped.iter().map(PlannedSkip::problem).collect();
    refuse(Code::Unplaceable, ["cannot run it and none is left"; 2], "select other devices", errors)
}

/// Where the application is already deployed, or about to be.
async fn taken(state: &ServerState, application: &ApplicationId, candidates: &[Candidate]) -> AppResult<Places> {
    let mut places = Places::new();
    let clients: HashSet<&ClientId> = candidates.iter().map(|candidate| &candidate.client).collect();
    if clients.len() <= CLIENTS_ASKED_MAX {
        for client in clients {
            collect(state, application, Some(client), &mut places).await?;
        }
    } else {
        collect(state, application, None, &mut places).await?;
    }
    for rollout in state.store.rollouts_unfinished(UNFINISHED_MAX).await? {
        if rollout.kind == RolloutKind::Create && rollout.application == *application {
            let waiting = rollout.targets.into_iter().skip(rollout.done);
            places.extend(waiting.map(|target| ((target.client, target.target), target.deployment)));
        }
    }
    Ok(places)
}

async fn collect(
    state: &ServerState,
    application: &ApplicationId,
    client: Option<&ClientId>,
    places: &mut Places,
) -> AppResult<()> {
    let filter = DeploymentFilter {
        application: Some(application.clone()),
        client: client.cloned(),
        ..DeploymentFilter::default()
    };
    let mut after = None;
    loop {
        let page = state.store.deployments_page(&filter, state.offline_before(), after, PAGE).await?;
        let last = page.len() < PAGE as usize;
        after = page.last().map(|view| view.deployment.id);
        for view in page {
            let deployment = view.deployment;
            places.insert((deployment.client, deployment.target), deployment.id);
        }
        if last {
            return Ok(());
        }
    }
}
