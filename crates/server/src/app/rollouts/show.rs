//! A plan as shown: per device, line by line.

use super::plan::{Planned, PlannedSkip, PlannedTarget, Request};
use crate::app::compose::{Composed, compose};
use crate::app::cooperative::TimeSlices;
use crate::app::deployments::{kind_to_wire, mask_yaml};
use crate::app::diff;
use crate::app::error::AppResult;
use crate::app::mask::Sensitive;
use crate::app::versions;
use crate::state::ServerState;
use margo::deployment::ApplicationDeployment;
use margo::ids::DeploymentId;
use margrave_api::devices::{DeviceName, DeviceRef};
use margrave_api::rollouts as wire;
use margrave_core::model::RolloutKind;
use uuid::Uuid;

/// In place of the id of a deployment that does not exist yet.
const NO_ID_YET: &str = "(assigned when deployed)";
/// Diffs shown in one plan; further targets are listed without a diff, and counted.
const DIFFS_MAX: usize = 1000;

pub(super) async fn show(state: &ServerState, request: &Request, planned: Planned) -> AppResult<wire::Plan> {
    let Planned { version, targets, skipped } = planned;
    let mut shown = Vec::with_capacity(targets.len());
    let total = targets.len();
    let mut slices = TimeSlices::begin();
    for target in targets {
        slices.next().await;
        let diff = if shown.len() < DIFFS_MAX { difference(state, request, &target).await? } else { Vec::new() };
        let PlannedTarget { target, present, deployment_state, .. } = target;
        let downgrade = request.kind == RolloutKind::Upgrade
            && present.as_ref().is_some_and(|deployment| versions::is_older(&version, &deployment.version));
        shown.push(wire::PlannedTarget {
            device: DeviceName { client: target.client.to_string(), device: target.target.to_string() },
            deployment: present.map(|deployment| deployment.id.to_string()),
            profile: target.profile,
            state: deployment_state.map(Into::into),
            downgrade,
            diff,
        });
    }
    Ok(wire::Plan {
        kind: kind_to_wire(request.kind),
        application: request.application.to_string(),
        version,
        targets: shown,
        skipped: skipped
            .into_iter()
            .map(|PlannedSkip { device, reason }| wire::SkippedDevice {
                device: device.into(),
                kind: reason.kind().to_owned(),
                data: reason.data(),
                reason: reason.to_string(),
            })
            .collect(),
        diffs_skipped: total.saturating_sub(DIFFS_MAX) as u64,
    })
}

pub(super) async fn difference(
    state: &ServerState,
    request: &Request,
    planned: &PlannedTarget,
) -> AppResult<Vec<wire::DiffLine>> {
    let PlannedTarget { present, from, to, .. } = planned;
    let bytes = match present {
        Some(deployment) => state.store.deployment_document(deployment.id, deployment.revision).await?,
        None => None,
    };
    let sensitive_before = match (from, present) {
        // A removal does not use the description; its sensitive parameters are loaded here.
        (None, Some(deployment)) => {
            let version = state.store.version_get(&deployment.application, &deployment.version).await?;
            match version {
                Some(version) => Sensitive::of(Some(&*state.descriptions.get(&state.store, &version).await?)),
                None => Sensitive::All,
            }
        }
        (None, None) => Sensitive::Some(Vec::new()),
        (from, _) => Sensitive::of(from.as_deref()),
    };
    let previous = bytes.as_deref().and_then(|bytes| ApplicationDeployment::read(bytes).ok());
    let after = to.as_ref().and_then(|description| {
        let composed = composed(request, planned)?;
        let mut document = composed.document;
        let sensitive = sensitive_before.clone().or(Sensitive::of(Some(description)));
        if sensitive.is_empty() {
            return Some(composed.yaml);
        }
        sensitive.mask_document(&mut document, previous.as_ref().map(|read| &read.document));
        Some(document.to_yaml().into_bytes())
    });
    let sensitive_before = match to {
        Some(description) => sensitive_before.or(Sensitive::of(Some(description))),
        None => sensitive_before,
    };
    let before = bytes.map(|bytes| mask_yaml(bytes, &sensitive_before)).unwrap_or_default();
    let after = after.unwrap_or_default();
    let mut after = String::from_utf8_lossy(&after);
    if present.is_none() {
        after = after.replace(&Uuid::nil().to_string(), NO_ID_YET).into();
    }
    Ok(diff::lines(&String::from_utf8_lossy(&before), &after))
}

/// The deployment afterwards; none for a removal.
pub(super) fn composed(request: &Request, planned: &PlannedTarget) -> Option<Composed> {
    let PlannedTarget { target, present, to, .. } = planned;
    // Ids are assigned when the rollout is recorded.
    let id = present.as_ref().map_or(DeploymentId(Uuid::nil()), |deployment| deployment.id);
    let (values, policy, before) = (&request.values, request.policy, planned.before());
    compose(id, &target.target, to.as_ref()?, &target.profile, values, policy, before).ok()
}

pub(super) fn device_name(device: &DeviceRef) -> String {
    format!("{}/{}", device.client, device.device)
}
