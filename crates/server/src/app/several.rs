//! The same done to several devices or clients in one go. Each is done by itself, as if alone, with an audit record of its own:
//! one that is refused is named and the rest is done. Doing it again does nothing to those that are so already.

use super::access::Caller;
use super::clients;
use super::devices::{self, KeyText, check_labels};
use super::error::{AppError, AppResult};
use crate::state::ServerState;
use margo::ids::ClientId;
use margrave_api::clients as wire;
use margrave_api::devices::UpdateDevice;
use margrave_core::model::{ClientState, Desired, DeviceKey};
use std::collections::HashMap;

/// Done in one request: each is a transaction of its own, and somebody waits for the last one.
pub const SEVERAL_MAX: usize = 500;

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    pub done: u64,
    /// Was so before.
    pub already: u64,
    pub refused: Vec<Refused>,
}

/// One that was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub what: String,
    pub why: String,
}

impl Outcome {
    /// Keeps what was refused; a server that fails ends it, and the same sent again goes on where it stopped.
    fn note<T>(&mut self, what: &str, result: AppResult<T>) -> AppResult<()> {
        match result {
            Ok(_) => self.done += 1,
            Err(AppError::Refused { detail, .. }) => self.refused.push(Refused { what: what.to_owned(), why: detail }),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Devices as they were ticked, `client/device` each.
pub fn keys<'a>(texts: impl Iterator<Item = &'a str>) -> AppResult<Vec<DeviceKey>> {
    let read = |text: &str| text.parse::<KeyText>().map(|key| key.0);
    let mut keys: Vec<DeviceKey> =
        texts.map(read).collect::<Result<_, _>>().map_err(|error| AppError::invalid("device", error.to_string()))?;
    keys.sort_unstable();
    keys.dedup();
    bounded(keys)
}

/// Clients as they were ticked.
pub fn ids<'a>(texts: impl Iterator<Item = &'a str>) -> AppResult<Vec<ClientId>> {
    let mut ids: Vec<ClientId> = texts.map(clients::client_id).collect::<AppResult<_>>()?;
    ids.sort_unstable();
    ids.dedup();
    bounded(ids)
}

fn bounded<T>(chosen: Vec<T>) -> AppResult<Vec<T>> {
    if chosen.len() > SEVERAL_MAX {
        return Err(AppError::invalid("several", format!("choose at most {SEVERAL_MAX} at once")));
    }
    Ok(chosen)
}

/// Sets or takes away labels of an operator; other labels stay as they are.
pub async fn label(
    state: &ServerState,
    caller: &Caller,
    keys: &[DeviceKey],
    body: &UpdateDevice,
) -> AppResult<Outcome> {
    check_labels(body)?;
    let mut outcome = Outcome::default();
    for key in keys {
        let is_so = |kept: &indexmap::IndexMap<String, String>| {
            body.labels.iter().all(|(name, value)| kept.get(name) == value.as_ref())
        };
        if state.store.device_get(key).await?.is_some_and(|device| is_so(&device.operator_labels)) {
            outcome.already += 1;
            continue;
        }
        let (client, device) = (key.client.as_str(), key.device.as_str());
        outcome.note(device, devices::update(state, caller, client, device, body.clone(), None).await)?;
    }
    Ok(outcome)
}

/// Lets clients in, or shuts them out.
pub async fn admit(
    state: &ServerState,
    caller: &Caller,
    clients: &[ClientId],
    body: &wire::UpdateClient,
) -> AppResult<Outcome> {
    let wanted = match body.state {
        wire::ClientState::Accepted => ClientState::Accepted,
        wire::ClientState::Pending | wire::ClientState::Retired => ClientState::Retired,
    };
    let mut outcome = Outcome::default();
    for client in clients {
        if clients::find(state, client).await?.is_some_and(|known| known.state == wanted) {
            outcome.already += 1;
            continue;
        }
        outcome.note(client.as_str(), clients::update(state, caller, client.as_str(), body.clone(), None).await)?;
    }
    Ok(outcome)
}

/// How clients stand, and what hangs on them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    pub waiting: u64,
    pub accepted: u64,
    pub retired: u64,
    /// Devices of those that would change.
    pub devices: u64,
    /// What should run on them.
    pub deployments: u64,
}

/// What it would touch to bring these clients to a state.
pub async fn standing(state: &ServerState, clients: &[ClientId], wanted: wire::ClientState) -> AppResult<Standing> {
    let mut standing = Standing::default();
    let mut changing = Vec::new();
    for client in clients {
        let (count, changes) = match state.heads.get(client).map(|head| head.state) {
            Some(ClientState::Accepted) => (&mut standing.accepted, wanted != wire::ClientState::Accepted),
            Some(ClientState::Retired) => (&mut standing.retired, wanted == wire::ClientState::Accepted),
            Some(ClientState::Pending) => (&mut standing.waiting, true),
            None => continue,
        };
        *count += 1;
        if changes {
            changing.push(client.clone());
        }
    }
    if changing.is_empty() {
        return Ok(standing);
    }
    let mut of: HashMap<ClientId, u64> = HashMap::new();
    for device in state.store.devices_of(&changing).await? {
        *of.entry(device.key.client).or_default() += 1;
    }
    // The device that asks counts though it has not said anything of itself yet.
    standing.devices = changing.iter().map(|client| of.get(client).copied().unwrap_or(1)).sum();
    let placed = state.store.deployments_of(&changing).await?;
    standing.deployments = placed.iter().filter(|view| view.deployment.desired == Desired::Present).count() as u64;
    Ok(standing)
}
