//! Bulk actions on devices or clients. Each item is processed separately, with its own audit record:
//! failed items are named and the others are done. Repeating an action does not affect items that are already done.

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

/// Items per request: each is a transaction of its own, and the request waits for the last one.
pub const BULK_MAX: usize = 500;

/// The result of a bulk action.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    pub done: u64,
    /// Already in the requested state.
    pub already: u64,
    pub refused: Vec<Refused>,
}

/// A failed item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub what: String,
    pub why: String,
}

impl Outcome {
    /// Collects refused items; a server error ends the action, and repeating the request continues where it stopped.
    fn note<T>(&mut self, what: &str, result: AppResult<T>) -> AppResult<()> {
        match result {
            Ok(_) => self.done += 1,
            Err(AppError::Refused { detail, .. }) => self.refused.push(Refused { what: what.to_owned(), why: detail }),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Selected devices, `client/device` each.
pub fn keys<'a>(texts: impl Iterator<Item = &'a str>) -> AppResult<Vec<DeviceKey>> {
    let read = |text: &str| text.parse::<KeyText>().map(|key| key.0);
    let mut keys: Vec<DeviceKey> =
        texts.map(read).collect::<Result<_, _>>().map_err(|error| AppError::invalid("device", error.to_string()))?;
    keys.sort_unstable();
    keys.dedup();
    bounded(keys)
}

/// Selected clients.
pub fn ids<'a>(texts: impl Iterator<Item = &'a str>) -> AppResult<Vec<ClientId>> {
    let mut ids: Vec<ClientId> = texts.map(clients::client_id).collect::<AppResult<_>>()?;
    ids.sort_unstable();
    ids.dedup();
    bounded(ids)
}

fn bounded<T>(chosen: Vec<T>) -> AppResult<Vec<T>> {
    if chosen.len() > BULK_MAX {
        return Err(AppError::invalid("selection", format!("select at most {BULK_MAX} at once")));
    }
    Ok(chosen)
}

/// Sets or removes operator labels; other labels stay unchanged.
pub async fn label(
    state: &ServerState,
    caller: &Caller,
    keys: &[DeviceKey],
    body: &UpdateDevice,
) -> AppResult<Outcome> {
    check_labels(body)?;
    let mut outcome = Outcome::default();
    for key in keys {
        let is_so = |stored: &indexmap::IndexMap<String, String>| {
            body.labels.iter().all(|(name, value)| stored.get(name) == value.as_ref())
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

/// Accepts, rejects or decommissions clients.
pub async fn admit(
    state: &ServerState,
    caller: &Caller,
    clients: &[ClientId],
    body: &wire::UpdateClient,
) -> AppResult<Outcome> {
    let accept = body.state == wire::ClientState::Accepted;
    let mut outcome = Outcome::default();
    for client in clients {
        let current = clients::find(state, client).await?.map(|client| client.state);
        if current.is_some_and(|current| if accept { current == ClientState::Accepted } else { current.is_excluded() })
        {
            outcome.already += 1;
            continue;
        }
        // A pending client is rejected, an accepted one decommissioned.
        let requested = match current {
            Some(ClientState::Pending) if !accept => wire::ClientState::Rejected,
            _ => body.state,
        };
        let body = wire::UpdateClient { state: requested, ..body.clone() };
        outcome.note(client.as_str(), clients::update(state, caller, client.as_str(), body, None).await)?;
    }
    Ok(outcome)
}

/// Clients by state, and what depends on them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientImpact {
    pub waiting: u64,
    pub accepted: u64,
    pub rejected: u64,
    pub decommissioned: u64,
    /// Devices of the clients that would change.
    pub devices: u64,
    /// Deployments on them.
    pub deployments: u64,
}

/// The effect of moving these clients to a state.
pub async fn standing(
    state: &ServerState,
    clients: &[ClientId],
    requested: wire::ClientState,
) -> AppResult<ClientImpact> {
    let mut standing = ClientImpact::default();
    let mut changing = Vec::new();
    for client in clients {
        let (count, rollouts) = match state.heads.get(client).map(|head| head.state) {
            Some(ClientState::Accepted) => (&mut standing.accepted, requested != wire::ClientState::Accepted),
            Some(ClientState::Rejected) => (&mut standing.rejected, requested == wire::ClientState::Accepted),
            Some(ClientState::Decommissioned) => {
                (&mut standing.decommissioned, requested == wire::ClientState::Accepted)
            }
            Some(ClientState::Pending) => (&mut standing.waiting, true),
            None => continue,
        };
        *count += 1;
        if rollouts {
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
    // The requesting device counts even though it has not reported yet.
    standing.devices = changing.iter().map(|client| of.get(client).copied().unwrap_or(1)).sum();
    let placed = state.store.deployments_of(&changing).await?;
    standing.deployments = placed.iter().filter(|view| view.deployment.desired == Desired::Present).count() as u64;
    Ok(standing)
}
