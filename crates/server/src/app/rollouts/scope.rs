//! Resolves a scope to devices.

use crate::app::cooperative::TimeSlices;
use crate::app::devices::{self, KeyText};
use crate::app::error::{AppError, AppResult, Code};
use crate::app::{clients, groups};
use crate::state::ServerState;
use indexmap::IndexMap;
use margo::capabilities::DeviceCapabilities;
use margo::ids::{ClientId, DeviceId, DeviceTarget};
use margrave_api::devices::DeviceRef;
use margrave_api::problem::FieldProblem;
use margrave_api::rollouts::Scope;
use margrave_core::model::{Device, DeviceKey};
use margrave_core::selector::LabelSelector;
use margrave_store::DeviceFilter;
use std::collections::HashSet;

/// Devices read at a time.
const PAGE: u32 = 100;
/// Devices named one by one in a request.
const NAMED_MAX: usize = 10_000;

/// A possible target of a deployment.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) client: ClientId,
    pub(super) target: DeviceTarget,
    /// Its hosts: the device itself, or for `gateway/*` each of the gateway's children. Empty when unknown.
    pub(super) hosts: Vec<Host>,
    /// Why nothing may be deployed there, whatever its capabilities.
    pub(super) barred: Option<String>,
    pub(super) offline: bool,
}

/// A possible host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) capabilities: DeviceCapabilities,
    /// Labels set by operators; applications cannot require them.
    pub(super) operator_labels: IndexMap<String, String>,
}

impl Host {
    /// `None` when its report cannot be read.
    fn of(device: &Device) -> Option<Self> {
        let capabilities = devices::capabilities(device)?.document;
        Some(Self { capabilities, operator_labels: device.operator_labels.clone() })
    }
}

impl Candidate {
    pub(super) fn reference(&self) -> DeviceRef {
        DeviceRef { client: self.client.to_string(), device: self.target.to_string() }
    }
}

/// Devices named one by one in the request.
pub(super) fn named(references: &[DeviceRef]) -> AppResult<Vec<(ClientId, DeviceTarget)>> {
    if references.is_empty() || references.len() > NAMED_MAX {
        return Err(AppError::invalid("scope.devices", format!("name 1 to {NAMED_MAX} devices, or use a selector")));
    }
    let mut errors = Vec::new();
    let mut places = Vec::with_capacity(references.len());
    let mut seen = HashSet::new();
    for (index, DeviceRef { client, device }) in references.iter().enumerate() {
        let read = clients::client_id(client)
            .map_err(|error| error.to_string())
            .and_then(|client| Ok((client, device.parse::<DeviceTarget>().map_err(|error| error.to_string())?)));
        match read {
            Ok(place) if seen.insert(place.clone()) => places.push(place),
            Ok(_) => errors.push(problem(index, "is named twice")),
            Err(message) => errors.push(problem(index, &message)),
        }
    }
    if errors.is_empty() {
        Ok(places)
    } else {
        Err(AppError::with_fields(Code::Invalid, "invalid device references", errors))
    }
}

fn problem(index: usize, message: &str) -> FieldProblem {
    FieldProblem::new(format!("scope.devices[{index}]"), message)
}

/// The label selector of a scope that has one, directly or through a group.
pub(super) async fn selector(state: &ServerState, scope: &Scope) -> AppResult<Option<LabelSelector>> {
    match (&scope.selector, &scope.group) {
        (Some(text), _) => Ok(Some(devices::selector(Some(text))?)),
        (None, Some(group)) => Ok(Some(groups::selector(state, group).await?)),
        (None, None) => Ok(None),
    }
}

/// All devices that match a selector, up to `max`, in order of key.
pub(super) async fn matching(state: &ServerState, filter: &DeviceFilter, max: usize) -> AppResult<Vec<Device>> {
    let mut found: Vec<Device> = Vec::new();
    loop {
        let after = found.last().map(|device| device.key.clone());
        let page = state.store.devices_page(filter, after.as_ref(), PAGE).await?;
        let last = page.len() < PAGE as usize;
        found.extend(page);
        if found.len() > max {
            let detail = format!("a rollout has at most {max} devices; narrow the selector");
            return Err(AppError::refused(Code::Invalid, detail));
        }
        if last {
            return Ok(found);
        }
    }
}

/// The candidates of a scope for new deployments.
pub(super) async fn candidates(state: &ServerState, scope: &Scope, max: usize) -> AppResult<Vec<Candidate>> {
    if let Some(selector) = selector(state, scope).await? {
        let filter = DeviceFilter { client: None, selector };
        let devices = matching(state, &filter, max).await?;
        let (mut candidates, mut slices) = (Vec::with_capacity(devices.len()), TimeSlices::begin());
        for device in &devices {
            candidates.push(of_device(state, device));
            slices.next().await;
        }
        return Ok(candidates);
    }
    let mut errors = Vec::new();
    let mut candidates = Vec::new();
    for (index, (client, target)) in named(scope.devices.as_deref().unwrap_or_default())?.into_iter().enumerate() {
        match find(state, &client, &target).await? {
            Some(candidate) => candidates.push(candidate),
            None => errors.push(problem(index, &format!("client `{client}` has no device `{}`", base(&target)))),
        }
    }
    if errors.is_empty() {
        Ok(candidates)
    } else {
        Err(AppError::with_fields(Code::Invalid, "some devices do not exist", errors))
    }
}

/// One target with its hosts; none when the device (or the gateway of `gateway/*`) was never reported.
pub(super) async fn find(
    state: &ServerState,
    client: &ClientId,
    target: &DeviceTarget,
) -> AppResult<Option<Candidate>> {
    let key = DeviceKey { client: client.clone(), device: base(target) };
    let Some(device) = state.store.device_get(&key).await? else { return Ok(None) };
    if !target.is_autonomous() {
        return Ok(Some(of_device(state, &device)));
    }
    // GW-04: the gateway selects one of its children.
    let filter = DeviceFilter { client: Some(client.clone()), selector: LabelSelector::default() };
    let children = matching(state, &filter, NAMED_MAX).await?;
    let hosts = children
        .iter()
        .filter(|child| child.key.device.parent().as_ref() == Some(&key.device))
        .filter_map(Host::of)
        .collect();
    Ok(Some(Candidate { target: target.clone(), hosts, ..of_device(state, &device) }))
}

/// The device of a target; for `gateway/*` the gateway.
pub(super) fn base(target: &DeviceTarget) -> DeviceId {
    target.gateway().or_else(|| target.device()).expect("a target is a device or a gateway's children")
}

pub(super) fn of_device(state: &ServerState, device: &Device) -> Candidate {
    let seen = state.heads.last_seen(&device.key.client).max(device.last_seen_at);
    Candidate {
        client: device.key.client.clone(),
        target: DeviceTarget::from(&device.key.device),
        hosts: Host::of(device).into_iter().collect(),
        barred: barred(state, &device.key.client),
        offline: seen.is_none_or(|seen| seen < state.offline_before()),
    }
}

fn barred(state: &ServerState, client: &ClientId) -> Option<String> {
    let head = state.heads.get(client)?;
    let state = head.state;
    state.is_excluded().then(|| format!("client `{client}` is {} and gets nothing; accept it first", state.as_str()))
}

/// `client/device`, as shown next to a problem.
pub(super) fn place_name(client: &ClientId, target: &DeviceTarget) -> String {
    match target.device() {
        Some(device) => KeyText(DeviceKey { client: client.clone(), device }).to_string(),
        None => format!("{client}/{target}"),
    }
}
