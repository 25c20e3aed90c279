//! Devices: capabilities, and labels from devices and operators.

use super::access::Caller;
use super::clients::client_id;
use super::error::{AppError, AppResult, Code};
use super::fleet;
use super::paging::{Paging, page};
use crate::state::ServerState;
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::ids::DeviceId;
use margrave_api::devices as wire;
use margrave_api::page::Page;
use margrave_api::problem::FieldProblem;
use margrave_core::model::{Device, DeviceKey, DeviceState};
use margrave_core::selector::{LabelSelector, is_plain};
use margrave_core::time::Timestamp;
use margrave_store::{DeploymentFilter, DeploymentView, DeviceFilter};
use std::fmt;

const LABEL_KEY_CHARS_MAX: usize = 253;
const LABEL_VALUE_CHARS_MAX: usize = 1000;
/// Labels per request: people set a handful, a program with more can send two requests.
const LABELS_MAX: usize = 100;
/// Deployments read when a device is deleted; a device hosts far fewer.
const DEPLOYMENTS_LOOKED_AT: u32 = 1000;

/// A device key as parseable text, for cursors.
#[derive(Debug, Clone)]
pub(crate) struct KeyText(pub(crate) DeviceKey);

impl fmt::Display for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.client, self.0.device)
    }
}

impl std::str::FromStr for KeyText {
    type Err = margo::IdError;
    fn from_str(text: &str) -> Result<Self, margo::IdError> {
        let (client, device) = text.split_once('/').unwrap_or((text, ""));
        Ok(Self(DeviceKey { client: client.parse()?, device: device.parse()? }))
    }
}

pub(crate) fn selector(text: Option<&str>) -> AppResult<LabelSelector> {
    LabelSelector::parse(text.unwrap_or_default()).map_err(|error| AppError::invalid("selector", error.to_string()))
}

pub(crate) fn key(client: &str, device: &str) -> AppResult<DeviceKey> {
    let device: DeviceId =
        device.parse().map_err(|error: margo::IdError| AppError::invalid("device", error.to_string()))?;
    Ok(DeviceKey { client: client_id(client)?, device })
}

pub async fn list(
    state: &ServerState,
    text: Option<&str>,
    client: Option<&str>,
    paging: &Paging,
) -> AppResult<Page<wire::Device>> {
    let filter = DeviceFilter { client: client.map(client_id).transpose()?, selector: selector(text)? };
    list_filtered(state, &filter, paging).await
}

pub(crate) async fn list_filtered(
    state: &ServerState,
    filter: &DeviceFilter,
    paging: &Paging,
) -> AppResult<Page<wire::Device>> {
    let limit = paging.limit()?;
    let after = paging.after::<KeyText>()?;
    let rows = state.store.devices_page(filter, after.as_ref().map(|key| &key.0), limit + 1).await?;
    let Page { items, next } = page(rows, limit, |device| KeyText(device.key.clone()).to_string(), |device| device);
    let items = fleet::with_states(state, items, false).await?.into_iter().map(|listed| listed.device).collect();
    Ok(Page { items, next })
}

pub async fn get(state: &ServerState, client: &str, device: &str) -> AppResult<wire::Device> {
    Ok(fleet::get(state, client, device).await?.device)
}

pub async fn update(
    state: &ServerState,
    caller: &Caller,
    client: &str,
    device: &str,
    body: wire::UpdateDevice,
    expected: Option<i64>,
) -> AppResult<wire::Device> {
    let key = key(client, device)?;
    check_labels(&body)?;
    let actor = caller.actor(body.comment);
    let device = state.store.device_labels_set(&actor, &key, &body.labels, expected, state.now()).await?;
    let mut listed = fleet::with_states(state, vec![device], true).await?;
    listed.pop().map(|listed| listed.device).ok_or_else(|| missing(&key))
}

/// Deletes the record of a device and its children until their client reports them again. Fails while deployments
/// exist.
pub async fn delete(
    state: &ServerState,
    caller: &Caller,
    client: &str,
    device: &str,
    reason: Option<String>,
    expected: Option<i64>,
) -> AppResult<()> {
    let key = key(client, device)?;
    let found = state.store.device_get(&key).await?.ok_or_else(|| missing(&key))?;
    if let Some(expected) = expected.filter(|expected| *expected != found.revision) {
        let what = format!("device `{}`", KeyText(key));
        return Err(margrave_store::StoreError::Conflict { what, expected, current: found.revision }.into());
    }
    if let Some(view) = placed(state, &key).await?.first() {
        let detail = format!(
            "device `{}` still has deployment {} of `{}`; remove its deployments first",
            KeyText(key),
            view.deployment.id,
            view.deployment.application
        );
        return Err(AppError::refused(Code::InUse, detail));
    }
    if state.store.device_delete(&caller.actor(reason), &key, state.now()).await? { Ok(()) } else { Err(missing(&key)) }
}

/// Deployments on a device and behind it; while there are any, its record is not deleted.
async fn placed(state: &ServerState, key: &DeviceKey) -> AppResult<Vec<DeploymentView>> {
    let filter = DeploymentFilter { client: Some(key.client.clone()), ..DeploymentFilter::default() };
    let mut found = state.store.deployments_page(&filter, state.offline_before(), None, DEPLOYMENTS_LOOKED_AT).await?;
    let below = format!("{}/", key.device);
    found.retain(|view| {
        let target = view.deployment.target.as_str();
        target == key.device.as_str() || target.starts_with(&below)
    });
    Ok(found)
}

/// A deployment that prevents the deletion of a device record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockingDeployment {
    pub id: String,
    pub application: String,
    pub version: String,
    pub device: String,
}

/// Deployments that prevent the deletion of a device and its children.
pub async fn stored_by(state: &ServerState, client: &str, device: &str) -> AppResult<Vec<BlockingDeployment>> {
    let found = placed(state, &key(client, device)?).await?;
    Ok(found
        .into_iter()
        .map(|view| BlockingDeployment {
            id: view.deployment.id.to_string(),
            application: view.deployment.application.to_string(),
            version: view.deployment.version,
            device: view.deployment.target.to_string(),
        })
        .collect())
}

pub(crate) fn missing(key: &DeviceKey) -> AppError {
    AppError::not_found(format_args!("device `{}` of client `{}`", key.device, key.client))
}

pub(super) fn check_labels(body: &wire::UpdateDevice) -> AppResult<()> {
    let mut errors = Vec::new();
    if body.labels.is_empty() || body.labels.len() > LABELS_MAX {
        errors.push(FieldProblem::new("labels", format!("give 1 to {LABELS_MAX} labels")));
    }
    for (name, value) in &body.labels {
        let bad = |text: &str, max: usize| text.chars().count() > max || text.chars().any(char::is_control);
        // A label whose name is no longer valid can still be removed.
        let field = || format!("labels.{name}");
        if value.is_some() && !name.is_empty() && !is_plain(name) {
            let message = format!(
                "a name must not contain spaces or any of `,` `(` `)` `=` `!` `\"` `\\`, so that selectors can name it; write for example `{}`",
                plain_name(name)
            );
            errors.push(FieldProblem::new(field(), message));
        } else if name.is_empty() || bad(name, LABEL_KEY_CHARS_MAX) {
            let message = format!("a key has 1 to {LABEL_KEY_CHARS_MAX} characters");
            errors.push(FieldProblem::new(field(), message));
        }
        if value.as_deref().is_some_and(|value| bad(value, LABEL_VALUE_CHARS_MAX)) {
            let message = format!("a value has at most {LABEL_VALUE_CHARS_MAX} characters");
            errors.push(FieldProblem::new(field(), message));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(AppError::with_fields(Code::Invalid, "invalid labels", errors)) }
}

/// The nearest name that a selector accepts without quotes.
fn plain_name(name: &str) -> String {
    let words = name.split(|letter: char| !is_plain(letter.encode_utf8(&mut [0; 4])));
    let name = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    if name.is_empty() { "line".to_owned() } else { name.chars().take(LABEL_KEY_CHARS_MAX).collect() }
}

/// Parses what a client reported; a report that was accepted once is parsed leniently from then on.
pub(crate) fn capabilities(device: &Device) -> Option<margo::Read<DeviceCapabilities>> {
    DeviceCapabilities::read(&device.capabilities, UnknownTypes::Custom).ok()
}

/// The last contact of its client, and whether that makes it offline.
pub(crate) fn last_seen(state: &ServerState, device: &Device) -> (Option<Timestamp>, bool) {
    let last_seen_at = state.heads.last_seen(&device.key.client).max(device.last_seen_at);
    (last_seen_at, last_seen_at.is_none_or(|seen| seen < state.offline_before()))
}

pub(crate) fn to_wire(state: &ServerState, device: Device, device_state: DeviceState, whole: bool) -> wire::Device {
    let (last_seen_at, offline) = last_seen(state, &device);
    let read = capabilities(&device);
    let warnings = match &read {
        Some(read) => read.warnings.iter().map(ToString::to_string).collect(),
        None => vec!["the stored capabilities of this device cannot be read".to_owned()],
    };
    let capabilities = read.map(|read| read.document);
    let labels = capabilities.as_ref().map(|known| known.labels.clone()).unwrap_or_default();
    let simulated = capabilities.as_ref().is_some_and(margrave_core::runtime::is_simulated);
    let no_runtime = capabilities.as_ref().is_some_and(margrave_core::runtime::has_none);
    let properties = capabilities.map(|known| known.properties);
    let text = |field: fn(&margo::capabilities::DeviceProperties) -> &String| {
        properties.as_ref().map(|properties| field(properties).clone()).unwrap_or_default()
    };
    wire::Device {
        client: device.key.client.to_string(),
        device: device.key.device.to_string(),
        state: device_state.into(),
        vendor: text(|properties| &properties.vendor),
        model_number: text(|properties| &properties.model_number),
        serial_number: text(|properties| &properties.serial_number),
        hosts_workloads: properties.as_ref().is_some_and(margo::capabilities::DeviceProperties::hosts_workloads),
        simulated,
        no_runtime,
        deployment_types: properties
            .as_ref()
            .and_then(|properties| properties.supported_deployment_types.clone())
            .unwrap_or_default(),
        architectures: architectures(properties.as_ref()),
        device_labels: labels,
        operator_labels: device.operator_labels,
        first_reported_at: device.first_reported_at.to_string(),
        reported_at: device.reported_at.to_string(),
        last_seen_at: last_seen_at.map(|seen| seen.to_string()),
        offline,
        warnings,
        capabilities: whole.then(|| serde_json::from_slice(&device.capabilities).ok()).flatten(),
        revision: device.revision,
    }
}

fn architectures(properties: Option<&margo::capabilities::DeviceProperties>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for cpu in properties.and_then(|properties| properties.cpus.as_ref()).into_iter().flatten() {
        if let Some(architecture) = cpu.architecture.as_ref().filter(|name| !found.contains(name)) {
            found.push(architecture.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::plain_name;

    #[test]
    fn suggests_a_valid_label_name() {
        for (odd, plain) in [("bad label!", "bad-label"), ("a=b", "a-b"), ("!", "line"), ("  hall 3 ", "hall-3")] {
            assert_eq!(plain_name(odd), plain);
        }
    }
}
