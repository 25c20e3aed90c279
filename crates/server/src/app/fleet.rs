//! Devices as people look for them: found by name, label, group and state, each with what runs on it.

use super::devices::{self, KeyText};
use super::error::{AppError, AppResult};
use super::paging::{Paging, page};
use super::{groups, overview};
use crate::state::ServerState;
use margo::status::State;
use margrave_api::deployments::Convergence;
use margrave_api::devices as wire;
use margrave_api::page::Page;
use margrave_core::convergence::{Convergence as Judged, judge};
use margrave_core::model::{ClientState, Desired, Device, DeviceKey, DeviceState};
use margrave_core::selector::{LabelSelector, Requirement};
use margrave_store::{DeploymentView, DeviceSearch, Runs, RunsVersion};
use std::collections::{BTreeMap, HashMap};

/// The longest piece of a name that is looked for.
const TEXT_CHARS_MAX: usize = 200;
/// Sites offered in a list to choose from.
const SITES_MAX: u32 = 500;
/// Devices judged for how many can take an application; a larger number is not told before the review.
pub const TAKERS_MAX: u64 = 300;
const TAKERS_PAGE: u32 = 100;
/// Devices judged for one page of those that fit.
const LOOKED_AT_MAX: usize = 1000;
/// The label that says where a device is.
pub const SITE: &str = "site";

/// What is looked for; everything must hold.
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

    async fn read(&self, state: &ServerState) -> AppResult<DeviceSearch> {
        if self.text.as_ref().is_some_and(|text| text.chars().count() > TEXT_CHARS_MAX) {
            return Err(AppError::invalid("text", format!("write at most {TEXT_CHARS_MAX} characters")));
        }
        Ok(DeviceSearch {
            selector: self.selector(state).await?,
            text: self.text.clone(),
            state: self.state,
            silent_since: state.silent_since(),
            runs: None,
        })
    }
}

/// A device with how it does.
#[derive(Debug, Clone)]
pub struct Listed {
    pub device: wire::Device,
    pub state: DeviceState,
    /// Its client waits to be accepted.
    pub waiting: bool,
    pub placed: Vec<Placed>,
}

/// One thing on a device, in short.
#[derive(Debug, Clone)]
pub struct Placed {
    pub id: String,
    pub application: String,
    pub version: String,
    pub removing: bool,
    pub convergence: Convergence,
    /// What the device last said of it; none: nothing ever.
    pub reported: Option<State>,
}

/// What should run on a device, and what the device says of that: the one is no sign of the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Running {
    pub wanted: u64,
    /// Of those wanted, by what was last said of each; together they are all of them.
    pub running: u64,
    pub failed: u64,
    pub under_way: u64,
    pub unheard: u64,
    /// Is to go, and has not gone.
    pub going: u64,
}

impl Running {
    pub fn of(placed: &[Placed]) -> Self {
        let mut running = Self::default();
        for one in placed {
            if one.removing {
                running.going += 1;
                continue;
            }
            running.wanted += 1;
            *match one.reported {
                None => &mut running.unheard,
                Some(State::Installed) => &mut running.running,
                Some(State::Failed) => &mut running.failed,
                // It failed and tries again: nothing new before it has succeeded.
                Some(_) if one.convergence == Convergence::Failed => &mut running.failed,
                Some(State::Pending | State::Installing | State::Removing | State::Removed) => &mut running.under_way,
            } += 1;
        }
        running
    }
}

pub async fn list(state: &ServerState, search: &Search, paging: &Paging) -> AppResult<Page<Listed>> {
    let limit = paging.limit()?;
    let after = paging.after::<KeyText>()?;
    let found = search.read(state).await?;
    let rows = state.store.devices_search(&found, after.as_ref().map(|key| &key.0), limit + 1).await?;
    let mut placed = on(state, &rows).await?;
    Ok(page(rows, limit, |device| KeyText(device.key.clone()).to_string(), |device| listed(state, device, &mut placed)))
}

/// Only which devices match.
pub async fn keys(state: &ServerState, search: &Search, paging: &Paging) -> AppResult<Page<DeviceKey>> {
    let (limit, after) = (paging.limit()?, paging.after::<KeyText>()?);
    let found = search.read(state).await?;
    let rows = state.store.devices_search(&found, after.as_ref().map(|key| &key.0), limit + 1).await?;
    Ok(page(rows, limit, |device| KeyText(device.key.clone()).to_string(), |device| device.key))
}

/// A device with whether an application fits it.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub listed: Listed,
    pub fit: margrave_api::applications::DeviceFit,
}

/// What devices are judged for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub application: &'a str,
    pub version: &'a str,
    /// None: any that fits.
    pub profile: Option<&'a str>,
    pub whom: Whom,
}

/// Which devices come into question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// All that do not have the application yet.
    Without,
    /// Those that have it in another version.
    OnAnother,
    /// Those that have it in this version.
    OnThis,
    /// Those that have it.
    With,
}

/// An application on this part of the devices or less is what leads to them.
const FEW: u64 = 5;

impl Wanted<'_> {
    fn is_meant(&self, placed: &Placed) -> bool {
        let here = placed.application == self.application && !placed.removing;
        here && match self.whom {
            Whom::Without | Whom::With => true,
            Whom::OnAnother => placed.version != self.version,
            Whom::OnThis => placed.version == self.version,
        }
    }

    async fn runs(&self, state: &ServerState) -> AppResult<Option<Runs>> {
        let version = match self.whom {
            Whom::Without => return Ok(None),
            Whom::OnAnother => RunsVersion::IsNot(self.version.to_owned()),
            Whom::OnThis => RunsVersion::Is(self.version.to_owned()),
            Whom::With => RunsVersion::Any,
        };
        let application = super::applications::application_id(self.application)?;
        let overview = overview::get(state).await?;
        let uses = overview.uses.get(self.application).into_iter().flatten();
        let uses: u64 = uses.flat_map(|(_, counts)| counts.0.values()).sum();
        let few = uses.saturating_mul(FEW) <= overview.devices.values().sum::<u64>();
        Ok(Some(Runs { application, version, few }))
    }

    async fn search(&self, state: &ServerState, search: &Search) -> AppResult<DeviceSearch> {
        Ok(DeviceSearch { runs: self.runs(state).await?, ..search.read(state).await? })
    }
}

impl Candidate {
    /// Whether the application may come here: it fits, is not here yet, and the client is not shut out. Where it is here, whether
    /// that may be changed.
    pub fn can_take(&self, wanted: &Wanted<'_>) -> bool {
        let fits = self.fit.outcome == margrave_api::applications::FitOutcome::Fits
            && self.listed.state != DeviceState::ShutOut;
        let has = self.meant(wanted).next().is_some();
        match wanted.whom {
            Whom::Without => fits && !has,
            Whom::OnAnother => fits && has,
            Whom::OnThis | Whom::With => has,
        }
    }

    /// What is here of what is wanted.
    pub fn meant<'a>(&'a self, wanted: &Wanted<'a>) -> impl Iterator<Item = &'a Placed> + use<'a> {
        let wanted = *wanted;
        self.listed.placed.iter().filter(move |placed| wanted.is_meant(placed))
    }
}

/// How many of those that match can take it; none when more match than are judged while somebody waits.
pub async fn takers(state: &ServerState, wanted: &Wanted<'_>, search: &Search) -> AppResult<Option<u64>> {
    let mut paging = Paging { limit: Some(TAKERS_PAGE), after: None };
    let (mut looked, mut takers) = (0, 0);
    loop {
        let page = candidates(state, wanted, search, &paging).await?;
        looked += page.items.len() as u64;
        takers += page.items.iter().filter(|candidate| candidate.can_take(wanted)).count() as u64;
        match page.next {
            None => return Ok(Some(takers)),
            Some(_) if looked >= TAKERS_MAX => return Ok(None),
            next => paging.after = next,
        }
    }
}

/// As [`candidates`], only those that can take it. Looks at so many devices and no more; the next page goes on from there.
pub async fn takers_page(
    state: &ServerState,
    wanted: &Wanted<'_>,
    search: &Search,
    paging: &Paging,
) -> AppResult<Page<Candidate>> {
    let (limit, mut paging) = (paging.limit()? as usize, paging.clone());
    let (mut looked, mut items) = (0, Vec::new());
    loop {
        let page = candidates(state, wanted, search, &paging).await?;
        looked += page.items.len();
        items.extend(page.items.into_iter().filter(|candidate| candidate.can_take(wanted)));
        if page.next.is_none() || items.len() >= limit || looked >= LOOKED_AT_MAX {
            return Ok(Page { items, next: page.next });
        }
        paging.after = page.next;
    }
}

/// As [`list`], each with whether this version fits.
pub async fn candidates(
    state: &ServerState,
    wanted: &Wanted<'_>,
    search: &Search,
    paging: &Paging,
) -> AppResult<Page<Candidate>> {
    let application = super::applications::application_id(wanted.application)?;
    let (_, description) = super::applications::described(state, &application, wanted.version).await?;
    let (limit, after) = (paging.limit()?, paging.after::<KeyText>()?);
    let found = wanted.search(state, search).await?;
    let rows = state.store.devices_search(&found, after.as_ref().map(|key| &key.0), limit + 1).await?;
    let mut placed = on(state, &rows).await?;
    Ok(page(
        rows,
        limit,
        |device| KeyText(device.key.clone()).to_string(),
        |device| {
            let fit = super::fit::judge(&description, &device, wanted.profile);
            Candidate { listed: listed(state, device, &mut placed), fit }
        },
    ))
}

/// One device with whether this version fits.
pub async fn candidate(state: &ServerState, wanted: &Wanted<'_>, device: &wire::DeviceRef) -> AppResult<Candidate> {
    let application = super::applications::application_id(wanted.application)?;
    let (_, description) = super::applications::described(state, &application, wanted.version).await?;
    let key = devices::key(&device.client, &device.device)?;
    let found = state.store.device_get(&key).await?.ok_or_else(|| devices::missing(&key))?;
    let mut placed = on(state, std::slice::from_ref(&found)).await?;
    let fit = super::fit::judge(&description, &found, wanted.profile);
    Ok(Candidate { listed: listed(state, found, &mut placed), fit })
}

/// How many of each state match, whatever state the search asks for.
pub async fn counted(state: &ServerState, search: &Search) -> AppResult<BTreeMap<DeviceState, u64>> {
    let anything = Search { state: None, ..search.clone() };
    if anything.is_everything() {
        return Ok(overview::get(state).await?.devices.clone());
    }
    Ok(state.store.devices_counted(&anything.read(state).await?).await?)
}

/// How many of each state match and come into question, whatever state the search asks for.
pub async fn counted_for(
    state: &ServerState,
    wanted: &Wanted<'_>,
    search: &Search,
) -> AppResult<BTreeMap<DeviceState, u64>> {
    if wanted.whom == Whom::Without {
        return counted(state, search).await;
    }
    let anything = Search { state: None, ..search.clone() };
    Ok(state.store.devices_counted(&wanted.search(state, &anything).await?).await?)
}

/// A device by name, with the deployments of what is wanted there.
pub type Named = (wire::DeviceRef, Vec<String>);

/// All that match, by name, as they are now; refused when they are more than `max`. Of few only those that can take it, of many
/// those that cannot are left out by the review.
pub async fn named(state: &ServerState, wanted: &Wanted<'_>, search: &Search, max: usize) -> AppResult<Vec<Named>> {
    let limit = u32::try_from(max).unwrap_or(u32::MAX).saturating_add(1);
    let found = state.store.devices_named(&wanted.search(state, search).await?, limit).await?;
    if found.len() > max {
        let detail =
            format!("more than {max} devices match; narrow them down, or choose by site, group or labels alone");
        return Err(AppError::invalid("filter", detail));
    }
    if found.len() as u64 <= TAKERS_MAX {
        return takers_named(state, wanted, search).await;
    }
    let reference = |key: margrave_core::model::DeviceKey| wire::DeviceRef {
        client: key.client.to_string(),
        device: key.device.to_string(),
    };
    let named = found.into_iter().map(|(key, deployment)| (reference(key), deployment));
    Ok(named.map(|(device, deployment)| (device, deployment.iter().map(ToString::to_string).collect())).collect())
}

async fn takers_named(state: &ServerState, wanted: &Wanted<'_>, search: &Search) -> AppResult<Vec<Named>> {
    let (mut paging, mut named) = (Paging { limit: Some(TAKERS_PAGE), after: None }, Vec::new());
    loop {
        let page = candidates(state, wanted, search, &paging).await?;
        for candidate in page.items.iter().filter(|candidate| candidate.can_take(wanted)) {
            let device = &candidate.listed.device;
            let device = wire::DeviceRef { client: device.client.clone(), device: device.device.clone() };
            named.push((device, candidate.meant(wanted).map(|placed| placed.id.clone()).collect()));
        }
        if page.next.is_none() {
            return Ok(named);
        }
        paging.after = page.next;
    }
}

/// Where devices are, by their label.
pub async fn sites(state: &ServerState) -> AppResult<Vec<String>> {
    Ok(state.store.label_values(SITE, SITES_MAX).await?)
}

/// One device with how it does.
pub async fn get(state: &ServerState, client: &str, device: &str) -> AppResult<Listed> {
    let key = devices::key(client, device)?;
    let found = state.store.device_get(&key).await?.ok_or_else(|| devices::missing(&key))?;
    let mut placed = on(state, std::slice::from_ref(&found)).await?;
    let whole = devices::to_wire(state, found.clone(), true);
    Ok(Listed { device: whole, ..listed(state, found, &mut placed) })
}

/// All devices of one client: a gateway and what is behind it.
pub async fn family(state: &ServerState, client: &str, paging: &Paging) -> AppResult<Page<Listed>> {
    let filter = margrave_store::DeviceFilter {
        client: Some(super::clients::client_id(client)?),
        selector: LabelSelector::default(),
    };
    let (limit, after) = (paging.limit()?, paging.after::<KeyText>()?);
    let rows = state.store.devices_page(&filter, after.as_ref().map(|key| &key.0), limit + 1).await?;
    let mut placed = on(state, &rows).await?;
    Ok(page(rows, limit, |device| KeyText(device.key.clone()).to_string(), |device| listed(state, device, &mut placed)))
}

type OnDevices = HashMap<(String, String), Vec<DeploymentView>>;

/// What is on these devices, by client and device; what a gateway places by itself counts as the gateway's.
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

fn listed(state: &ServerState, device: Device, on: &mut OnDevices) -> Listed {
    let client = state.heads.get(&device.key.client).map_or(ClientState::Retired, |head| head.state);
    let accepted = client == ClientState::Accepted;
    let here = on.remove(&(device.key.client.to_string(), device.key.device.to_string())).unwrap_or_default();
    let device = devices::to_wire(state, device, false);
    let mut placed: Vec<Placed> = here
        .into_iter()
        .filter_map(|view| {
            let last_seen = state.heads.last_seen(&view.deployment.client).max(view.last_seen_at);
            let judged = judge(&view.deployment, view.reported.as_ref(), last_seen, state.silent_since());
            let removing = view.deployment.desired == Desired::Absent;
            let gone = removing && judged == Judged::Converged;
            (!gone).then(|| Placed {
                id: view.deployment.id.to_string(),
                application: view.deployment.application.to_string(),
                version: view.deployment.version,
                removing,
                convergence: judged.into(),
                reported: view.reported.map(|reported| reported.state),
            })
        })
        .collect();
    placed.sort_by(|one, other| one.application.cmp(&other.application));
    let any = |wanted: fn(Convergence) -> bool| placed.iter().any(|placed| wanted(placed.convergence));
    let state = if !accepted {
        DeviceState::ShutOut
    } else if any(|convergence| convergence == Convergence::Failed) {
        DeviceState::Failing
    } else if device.silent {
        DeviceState::Silent
    } else if any(|convergence| convergence != Convergence::Converged) {
        DeviceState::Working
    } else {
        DeviceState::Fine
    };
    Listed { device, state, waiting: client == ClientState::Pending, placed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_should_run_is_not_counted_as_running_before_the_device_says_so() {
        let one = |removing, reported| Placed {
            id: String::new(),
            application: "line-monitor".to_owned(),
            version: "1.0.0".to_owned(),
            removing,
            convergence: Convergence::Waiting,
            reported,
        };
        let placed = [
            one(false, None),
            one(false, Some(State::Installed)),
            one(false, Some(State::Failed)),
            one(false, Some(State::Installing)),
            one(true, Some(State::Installed)),
        ];
        let expected = Running { wanted: 4, running: 1, failed: 1, under_way: 1, unheard: 1, going: 1 };
        assert_eq!(Running::of(&placed), expected);
    }
}
