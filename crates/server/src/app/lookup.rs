//! Resolves the beginning of an id or a name with a bounded number of index reads, so that no caller has to list a fleet.

use super::applications;
use super::error::{AppError, AppResult, Code};
use crate::state::ServerState;
use margo::ids::{ApplicationId, ClientId};
use margo::similar::{did_you_mean, similar};
use margrave_api::lookup::{Lookup, LookupKind, LookupMatch};
use margrave_core::model::DeviceKey;
use margrave_core::names::IdRange;
use margrave_store::IdKind;

/// Longest name that is looked up, in characters.
const NAME_CHARS_MAX: usize = 200;
/// Matches listed; more only show that the name is ambiguous.
const MATCHES_MAX: usize = 10;
/// Similar names listed.
const SIMILAR_MAX: usize = 3;
/// Names read on each side of an unknown one, to compare it with.
const NEAR_MAX: u32 = 500;
/// Longest name that is compared with others, in characters: the comparison takes the product of two lengths.
const COMPARED_CHARS_MAX: usize = 64;

pub async fn find(state: &ServerState, kind: LookupKind, name: &str) -> AppResult<Lookup> {
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        return Err(AppError::invalid("name", format!("write 1 to {NAME_CHARS_MAX} characters")));
    }
    let mut matches = match kind {
        LookupKind::Application => application(state, name).await?,
        LookupKind::Client => client(state, name).await?,
        LookupKind::Device => devices(state, name).await?,
        LookupKind::Deployment => by_id(state, IdKind::Deployment, name).await?,
        LookupKind::Rollout => by_id(state, IdKind::Rollout, name).await?,
        LookupKind::Session => by_id(state, IdKind::Session, name).await?,
        LookupKind::Token => by_id(state, IdKind::Token, name).await?,
    };
    let more = matches.len() > MATCHES_MAX;
    matches.truncate(MATCHES_MAX);
    let similar = if matches.is_empty() { resembling(state, kind, name).await? } else { Vec::new() };
    Ok(Lookup { matches, more, similar })
}

/// An object that does not exist, with the names that may be meant.
pub(crate) async fn unknown(state: &ServerState, kind: LookupKind, name: &str) -> AppError {
    match resembling(state, kind, name).await {
        Ok(similar) => {
            let detail = format!("{} `{name}` does not exist{}", kind.as_str(), did_you_mean(&similar));
            AppError::refused(Code::NotFound, detail)
        }
        Err(error) => error,
    }
}

async fn by_id(state: &ServerState, kind: IdKind, prefix: &str) -> AppResult<Vec<LookupMatch>> {
    let Some(range) = IdRange::starting_with(prefix) else { return Ok(Vec::new()) };
    let found = state.store.ids_in_range(kind, range, state.now(), MATCHES_MAX as u32 + 1).await?;
    let convert =
        |one: margrave_store::NamedId| LookupMatch { id: one.id.to_string(), client: None, name: Some(one.name) };
    Ok(found.into_iter().map(convert).collect())
}

async fn application(state: &ServerState, name: &str) -> AppResult<Vec<LookupMatch>> {
    let Ok(id) = name.parse::<ApplicationId>() else { return Ok(Vec::new()) };
    let newest = state.store.versions(&id).await?.into_iter().next();
    Ok(newest
        .into_iter()
        .map(|newest| LookupMatch { id: id.to_string(), client: None, name: Some(newest.name) })
        .collect())
}

async fn client(state: &ServerState, name: &str) -> AppResult<Vec<LookupMatch>> {
    let Ok(id) = name.parse::<ClientId>() else { return Ok(Vec::new()) };
    let found = state.store.client_get(&id).await?;
    Ok(found.into_iter().map(|client| LookupMatch { id: client.id.to_string(), client: None, name: None }).collect())
}

/// `client/device` if there is such a device, otherwise all devices with this id.
async fn devices(state: &ServerState, name: &str) -> AppResult<Vec<LookupMatch>> {
    let convert =
        |key: DeviceKey| LookupMatch { id: key.device.to_string(), client: Some(key.client.to_string()), name: None };
    if let Some((client, device)) = name.split_once('/')
        && let (Ok(client), Ok(device)) = (client.parse(), device.parse())
        && let Some(found) = state.store.device_get(&DeviceKey { client, device }).await?
    {
        return Ok(vec![convert(found.key)]);
    }
    let found = state.store.devices_named(name, MATCHES_MAX as u32 + 1).await?;
    Ok(found.into_iter().map(convert).collect())
}

async fn resembling(state: &ServerState, kind: LookupKind, name: &str) -> AppResult<Vec<String>> {
    if name.chars().count() > COMPARED_CHARS_MAX {
        return Ok(Vec::new());
    }
    let (name, known) = match kind {
        LookupKind::Application => {
            let names = applications::names(state).await?;
            (name, names.into_keys().collect())
        }
        LookupKind::Client => (name, state.store.client_names_near(name, NEAR_MAX).await?),
        LookupKind::Device => {
            let mut known = state.store.device_names_near(name, NEAR_MAX).await?;
            // Of `client/device` only the device may be meant.
            let device = name.split_once('/').map_or(name, |(_, device)| device);
            if device != name && similar(name, known.iter().map(String::as_str), 1).is_empty() {
                known = state.store.device_names_near(device, NEAR_MAX).await?;
                return Ok(closest(device, &known));
            }
            (name, known)
        }
        // Ids are copied, not typed.
        LookupKind::Deployment | LookupKind::Rollout | LookupKind::Session | LookupKind::Token => return Ok(Vec::new()),
    };
    Ok(closest(name, &known))
}

fn closest(name: &str, known: &[String]) -> Vec<String> {
    let short = known.iter().map(String::as_str).filter(|known| known.len() <= 2 * COMPARED_CHARS_MAX);
    similar(name, short, SIMILAR_MAX).into_iter().map(str::to_owned).collect()
}
