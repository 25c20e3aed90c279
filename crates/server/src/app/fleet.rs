//! Device search: by name, label, group and state, each device with its workloads.

mod counts;
mod eligible;

use super::devices::{self, KeyText};
use super::error::{AppError, AppResult};
use super::paging::{Listing, Paging, cursor, page};
use super::sorting::{self, Order};
use super::{groups, overview};
use crate::state::ServerState;
use margo::status::State;
use margrave_api::deployments::DeploymentState;
use margrave_api::devices as wire;
use margrave_api::page::Page;
use margrave_core::deployment_state::{DeploymentState as Judged, state_of};
use margrave_core::model::{ClientState, Desired, Device, DeviceKey, DeviceState};
use margrave_core::selector::{LabelSelector, Requirement};
use margrave_core::sort::{DeviceColumn, SortValue};
use margrave_core::time::Timestamp;
use margrave_store::{DeploymentView, DeviceSearch};
use std::collections::{BTreeMap, HashMap};

pub use counts::CountCache as DeviceCountCache;
pub use eligible::{
    Candidate, ELIGIBLE_MAX, EligibilityQuery, InstalledFilter, NamedDevice, candidate, candidates, counted_for,
    eligible_count, eligible_page, filtered_page, named,
};

/// Longest search text for a name.
const TEXT_CHARS_MAX: usize = 200;
/// Sites offered in the filter.
const SITES_MAX: u32 = 500;
/// Devices scanned for one page of a state filter: few enough to be unnoticeable.
const LOOKED_AT_MAX: u32 = 20_000;
pub use margrave_core::sort::SITE_LABEL as SITE;

/// Search filter; all conditions must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// Part of a device's or client's id.
    pub text: Option<String>,
    /// A label selector.
    pub labels: Option<String>,
    pub site: Option<String>,
    pub group: Option<String>,
    pub state: Option<DeviceState>,
}

impl Search {
    pub fn is_everything(&self) -> bool {
        let Self { text, labels, site, group, state } = self;
        let labels = labels.as_deref().unwrap_or_default();
        text.is_none() && labels.is_empty() && site.is_none() && group.is_none() && state.is_none()
    }

    /// The labels, the site and the group as one selector.
    pub async fn selector(&self, state: &ServerState) -> AppResult<LabelSelector> {
        let mut selector = LabelSelector::parse(self.labels.as_deref().unwrap_or_default())
            .map_err(|error| AppError::invalid("labels", error.to_string()))?;
        if let Some(site) = &self.site {
            selector.requirements.push(Requirement::Equals(SITE.to_owned(), site.clone()));
        }
        if let Some(group) = &self.group {
            selector.requirements.extend(groups::selector(state, group).await?.requirements);
        }
        Ok(selector)
    }

    pub(super) async fn read(&self, state: &ServerState) -> AppResult<DeviceSearch> {
        if self.text.as_ref().is_some_and(|text| text.chars().count() > TEXT_CHARS_MAX) {
            return Err(AppError::invalid("text", format!("write at most {TEXT_CHARS_MAX} characters")));
        }
        Ok(DeviceSearch {
            selector: self.selector(state).await?,
            text: self.text.clone(),
            state: self.state,
            offline_before: state.offline_before(),
            runs: None,
        })
    }
}

/// A device with its deployments.
#[derive(Debug, Clone)]
pub struct Listed {
    pub device: wire::Device,
    /// Its client is pending approval.
    pub waiting: bool,
    pub placed: Vec<PlacedDeployment>,
}

/// One deployment on a device, in short.
#[derive(Debug, Clone)]
pub struct PlacedDeployment {
    pub id: String,
    pub application: String,
    pub version: String,
    pub removing: bool,
    pub deployment_state: DeploymentState,
    /// The last reported state; `None` if there is no report.
    pub reported: Option<State>,
}

/// Desired deployments of a device and their reported states, counted separately.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Running {
    pub desired: u64,
    /// The desired ones by last reported state; the counts add up to the total.
    pub running: u64,
    pub failed: u64,
    pub in_progress: u64,
    pub unreported: u64,
    /// To be removed and not removed yet.
    pub removing: u64,
}

impl Running {
    pub fn of(placed: &[PlacedDeployment]) -> Self {
        let mut running = Self::default();
        for one in placed {
            if one.removing {
                running.removing += 1;
                continue;
            }
            running.desired += 1;
            *match one.reported {
                None => &mut running.unreported,
                Some(State::Installed) => &mut running.running,
                Some(State::Failed) => &mut running.failed,
                // A retry after a failure still counts as failed until it succeeds.
                Some(_) if one.deployment_state == DeploymentState::Failed => &mut running.failed,
                Some(State::Pending | State::Installing | State::Removing | State::Removed) => &mut running.in_progress,
            } += 1;
        }
        running
    }
}

pub async fn list(
    state: &ServerState,
    search: &Search,
    order: Order<DeviceColumn>,
    paging: &Paging,
) -> AppResult<Listing<Listed>> {
    let found = search.read(state).await?;
    let Listing { items, next, in_progress } = matching(state, &found, order, paging).await?;
    Ok(Listing { items: with_states(state, items, false).await?, next, in_progress })
}

/// A page of matching devices. It may be short or empty when many devices had to be scanned.
async fn matching(
    state: &ServerState,
    search: &DeviceSearch,
    order: Order<DeviceColumn>,
    paging: &Paging,
) -> AppResult<Listing<Device>> {
    let Some(sort) = order.sort else {
        let (limit, after) = (paging.limit()?, paging.after::<KeyText>()?.map(|key| key.0));
        let (items, next) = state.store.devices_search_bounded(search, after.as_ref(), limit, LOOKED_AT_MAX).await?;
        return Ok(Listing { items, next: next.map(|key| cursor(&KeyText(key).to_string())), in_progress: false });
    };
    // The instant moves with the clock and would make every search another one.
    let what = format!("devices {:?}", DeviceSearch { offline_before: Timestamp(0), ..search.clone() });
    let (store, search) = (state.store.clone(), search.clone());
    let read = move |after: Option<(SortValue, KeyText)>, limit| async move {
        let after = after.map(|(value, key)| (value, key.0));
        let rows = store.devices_sorted(&search, sort, after.as_ref(), limit).await?;
        Ok(rows.into_iter().map(|(value, key)| (value, KeyText(key))).collect())
    };
    let Listing { items, next, in_progress } = sorting::keys(state, (order, sort), &what, paging, read).await?;
    let keys: Vec<DeviceKey> = items.into_iter().map(|key| key.0).collect();
    Ok(Listing { items: state.store.devices_by_keys(&keys).await?, next, in_progress })
}

/// Only the keys of matching devices.
pub async fn keys(state: &ServerState, search: &Search, paging: &Paging) -> AppResult<Page<DeviceKey>> {
    let found = search.read(state).await?;
    let Listing { items, next, .. } = matching(state, &found, Order::default(), paging).await?;
    Ok(Page { items: items.into_iter().map(|device| device.key).collect(), next })
}

/// Number of matching devices by state, ignoring the state filter.
pub async fn counted(state: &ServerState, search: &Search) -> AppResult<BTreeMap<DeviceState, u64>> {
    let anything = Search { state: None, ..search.clone() };
    if anything.is_everything() {
        return Ok(overview::get(state).await?.devices.clone());
    }
    counts::of(state, anything.read(state).await?).await
}

/// Sites of the devices, from their label.
pub async fn sites(state: &ServerState) -> AppResult<Vec<String>> {
    Ok(state.store.label_values(SITE, SITES_MAX).await?)
}

/// One device with its state.
pub async fn get(state: &ServerState, client: &str, device: &str) -> AppResult<Listed> {
    let key = devices::key(client, device)?;
    let found = state.store.device_get(&key).await?.ok_or_else(|| devices::missing(&key))?;
    with_states(state, vec![found], true).await?.pop().ok_or_else(|| devices::missing(&key))
}

/// `whole`: with their capabilities as received.
pub(crate) async fn with_states(state: &ServerState, devices: Vec<Device>, whole: bool) -> AppResult<Vec<Listed>> {
    let mut placed = on(state, &devices).await?;
    Ok(devices.into_iter().map(|device| listed(state, device, &mut placed, whole)).collect())
}

/// All devices of one client: a gateway and its children.
pub async fn family(state: &ServerState, client: &str, paging: &Paging) -> AppResult<Page<Listed>> {
    let filter = margrave_store::DeviceFilter {
        client: Some(super::clients::client_id(client)?),
        selector: LabelSelector::default(),
    };
    let (limit, after) = (paging.limit()?, paging.after::<KeyText>()?);
    let rows = state.store.devices_page(&filter, after.as_ref().map(|key| &key.0), limit + 1).await?;
    let Page { items, next } = page(rows, limit, |device| KeyText(device.key.clone()).to_string(), |device| device);
    Ok(Page { items: with_states(state, items, false).await?, next })
}

type OnDevices = HashMap<(String, String), Vec<DeploymentView>>;

/// Deployments on these devices, by client and device; a deployment placed by a gateway counts for the gateway.
async fn on(state: &ServerState, devices: &[Device]) -> AppResult<OnDevices> {
    let mut clients: Vec<_> = devices.iter().map(|device| device.key.client.clone()).collect();
    clients.sort_unstable();
    clients.dedup();
    let mut found = OnDevices::new();
    if clients.is_empty() {
        return Ok(found);
    }
    for view in state.store.deployments_of(&clients).await? {
        let target = view.deployment.target.to_string();
        let device = target.strip_suffix("/*").unwrap_or(&target).to_owned();
        found.entry((view.deployment.client.to_string(), device)).or_default().push(view);
    }
    Ok(found)
}

fn listed(state: &ServerState, device: Device, on: &mut OnDevices, whole: bool) -> Listed {
    let client = state.heads.get(&device.key.client).map_or(ClientState::Decommissioned, |head| head.state);
    let here = on.remove(&(device.key.client.to_string(), device.key.device.to_string())).unwrap_or_default();
    let (_, offline) = devices::last_seen(state, &device);
    let mut states = Vec::with_capacity(here.len());
    let mut placed: Vec<PlacedDeployment> = here
        .into_iter()
        .filter_map(|view| {
            let last_seen = state.heads.last_seen(&view.deployment.client).max(view.last_seen_at);
            let evaluated = state_of(&view.deployment, view.reported.as_ref(), last_seen, state.offline_before());
            let removing = view.deployment.desired == Desired::Absent;
            states.push((view.deployment.desired, evaluated));
            (evaluated != Judged::Removed).then(|| PlacedDeployment {
                id: view.deployment.id.to_string(),
                application: view.deployment.application.to_string(),
                version: view.deployment.version,
                removing,
                deployment_state: evaluated.into(),
                reported: view.reported.map(|reported| reported.state),
            })
        })
        .collect();
    placed.sort_by(|one, other| one.application.cmp(&other.application));
    let device = devices::to_wire(state, device, DeviceState::of(client, offline, states), whole);
    Listed { device, waiting: client == ClientState::Pending, placed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_a_deployment_as_running_only_after_a_report() {
        let one = |removing, reported| PlacedDeployment {
            id: String::new(),
            application: "line-monitor".to_owned(),
            version: "1.0.0".to_owned(),
            removing,
            deployment_state: DeploymentState::Pending,
            reported,
        };
        let placed = [
            one(false, None),
            one(false, Some(State::Installed)),
            one(false, Some(State::Failed)),
            one(false, Some(State::Installing)),
            one(true, Some(State::Installed)),
        ];
        let expected = Running { desired: 4, running: 1, failed: 1, in_progress: 1, unreported: 1, removing: 1 };
        assert_eq!(Running::of(&placed), expected);
    }
}
