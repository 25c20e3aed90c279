//! Devices that can run an application, or have it: devices evaluated for a planned action.

use super::{Listed, PlacedDeployment, Search, counted, counts, listed, matching, on};
use crate::app::devices;
use crate::app::error::{AppError, AppResult};
use crate::app::paging::{Listing, Paging};
use crate::app::sorting::Order;
use crate::app::{applications, compatibility, overview};
use crate::state::ServerState;
use margrave_api::applications::{Compatibility, DeviceCompatibility};
use margrave_api::devices as wire;
use margrave_core::model::{DeviceKey, DeviceState};
use margrave_core::sort::DeviceColumn;
use margrave_store::{DeviceSearch, Runs, RunsVersion};
use std::collections::BTreeMap;

/// Devices evaluated for the number of compatible ones; larger numbers are known only in the review.
pub const ELIGIBLE_MAX: u64 = 300;
const ELIGIBLE_PAGE: u32 = 100;
/// Devices evaluated for one page of compatible ones.
const LOOKED_AT_MAX: usize = 1000;

/// A device with the compatibility of an application.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub listed: Listed,
    pub compatibility: DeviceCompatibility,
}

/// What devices are evaluated for.
#[derive(Debug, Clone, Copy)]
pub struct EligibilityQuery<'a> {
    pub application: &'a str,
    pub version: &'a str,
    /// `None`: any compatible profile.
    pub profile: Option<&'a str>,
    pub installed: InstalledFilter,
}

/// Which devices are eligible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstalledFilter {
    /// Devices without the application.
    Without,
    /// Devices with another version of it.
    OtherVersion,
    /// Devices with this version of it.
    ThisVersion,
    /// Devices with any version of it.
    With,
}

/// If the application is on this share of the devices or less, the query starts from its deployments.
const FEW: u64 = 5;

impl EligibilityQuery<'_> {
    fn is_matching(&self, placed: &PlacedDeployment) -> bool {
        let here = placed.application == self.application && !placed.removing;
        here && match self.installed {
            InstalledFilter::Without | InstalledFilter::With => true,
            InstalledFilter::OtherVersion => placed.version != self.version,
            InstalledFilter::ThisVersion => placed.version == self.version,
        }
    }

    async fn runs(&self, state: &ServerState) -> AppResult<Option<Runs>> {
        let version = match self.installed {
            InstalledFilter::Without => return Ok(None),
            InstalledFilter::OtherVersion => RunsVersion::IsNot(self.version.to_owned()),
            InstalledFilter::ThisVersion => RunsVersion::Is(self.version.to_owned()),
            InstalledFilter::With => RunsVersion::Any,
        };
        let application = applications::application_id(self.application)?;
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
    /// Whether the application may be deployed here: it is compatible, not here yet, and the client is not blocked.
    /// Where it exists, whether it may be changed.
    pub fn can_take(&self, eligibility_query: &EligibilityQuery<'_>) -> bool {
        let compatible = self.compatibility.outcome == Compatibility::Compatible
            && self.listed.device.state != wire::DeviceState::Blocked;
        let has = self.matching_deployments(eligibility_query).next().is_some();
        match eligibility_query.installed {
            InstalledFilter::Without => compatible && !has,
            InstalledFilter::OtherVersion => compatible && has,
            InstalledFilter::ThisVersion | InstalledFilter::With => has,
        }
    }

    /// The deployment of the application on this device.
    pub fn matching_deployments<'a>(
        &'a self,
        eligibility_query: &EligibilityQuery<'a>,
    ) -> impl Iterator<Item = &'a PlacedDeployment> + use<'a> {
        let eligibility_query = *eligibility_query;
        self.listed.placed.iter().filter(move |placed| eligibility_query.is_matching(placed))
    }
}

/// Number of matching devices that can run it; none when more match than can be evaluated during a request.
pub async fn eligible_count(
    state: &ServerState,
    eligibility_query: &EligibilityQuery<'_>,
    search: &Search,
) -> AppResult<Option<u64>> {
    let mut paging = Paging { limit: Some(ELIGIBLE_PAGE), after: None };
    let (mut looked, mut eligible_count) = (0, 0);
    loop {
        let page = candidates(state, eligibility_query, search, Order::default(), &paging).await?;
        looked += page.items.len() as u64;
        eligible_count += page.items.iter().filter(|candidate| candidate.can_take(eligibility_query)).count() as u64;
        match page.next {
            None => return Ok(Some(eligible_count)),
            Some(_) if looked >= ELIGIBLE_MAX => return Ok(None),
            next => paging.after = next,
        }
    }
}

/// Like [`candidates`], only those that can run it.
pub async fn eligible_page(
    state: &ServerState,
    eligibility_query: &EligibilityQuery<'_>,
    search: &Search,
    order: Order<DeviceColumn>,
    paging: &Paging,
) -> AppResult<Listing<Candidate>> {
    filtered_page(state, eligibility_query, search, (order, paging), |candidate| candidate.can_take(eligibility_query))
        .await
}

/// Like [`candidates`], only some of them. Evaluates a bounded number of devices; the next page continues there.
pub async fn filtered_page(
    state: &ServerState,
    eligibility_query: &EligibilityQuery<'_>,
    search: &Search,
    (order, paging): (Order<DeviceColumn>, &Paging),
    keep: impl Fn(&Candidate) -> bool,
) -> AppResult<Listing<Candidate>> {
    let (limit, mut paging) = (paging.limit()? as usize, paging.clone());
    let (mut looked, mut items) = (0, Vec::new());
    loop {
        let page = candidates(state, eligibility_query, search, order, &paging).await?;
        looked += page.items.len();
        items.extend(page.items.into_iter().filter(&keep));
        if page.in_progress || page.next.is_none() || items.len() >= limit || looked >= LOOKED_AT_MAX {
            return Ok(Listing { items, next: page.next, in_progress: page.in_progress });
        }
        paging.after = page.next;
    }
}

/// Like [`super::list`], each with the compatibility of this version.
pub async fn candidates(
    state: &ServerState,
    eligibility_query: &EligibilityQuery<'_>,
    search: &Search,
    order: Order<DeviceColumn>,
    paging: &Paging,
) -> AppResult<Listing<Candidate>> {
    let application = applications::application_id(eligibility_query.application)?;
    let (_, description) = applications::described(state, &application, eligibility_query.version).await?;
    let found = eligibility_query.search(state, search).await?;
    let Listing { items, next, in_progress } = matching(state, &found, order, paging).await?;
    let mut placed = on(state, &items).await?;
    let evaluated = items.into_iter().map(|device| {
        let compatibility = compatibility::evaluate(&description, &device, eligibility_query.profile);
        Candidate { listed: listed(state, device, &mut placed, false), compatibility }
    });
    Ok(Listing { items: evaluated.collect(), next, in_progress })
}

/// One device with the compatibility of this version.
pub async fn candidate(
    state: &ServerState,
    eligibility_query: &EligibilityQuery<'_>,
    device: &wire::DeviceRef,
) -> AppResult<Candidate> {
    let application = applications::application_id(eligibility_query.application)?;
    let (_, description) = applications::described(state, &application, eligibility_query.version).await?;
    let key = devices::key(&device.client, &device.device)?;
    let found = state.store.device_get(&key).await?.ok_or_else(|| devices::missing(&key))?;
    let mut placed = on(state, std::slice::from_ref(&found)).await?;
    let compatibility = compatibility::evaluate(&description, &found, eligibility_query.profile);
    Ok(Candidate { listed: listed(state, found, &mut placed, false), compatibility })
}

/// Number of matching and eligible devices by state, ignoring the state filter.
pub async fn counted_for(
    state: &ServerState,
    eligibility_query: &EligibilityQuery<'_>,
    search: &Search,
) -> AppResult<BTreeMap<DeviceState, u64>> {
    if eligibility_query.installed == InstalledFilter::Without {
        return counted(state, search).await;
    }
    let anything = Search { state: None, ..search.clone() };
    counts::of(state, eligibility_query.search(state, &anything).await?).await
}

/// A device by name, with its deployments of the application.
pub type NamedDevice = (wire::DeviceRef, Vec<String>);

/// All matching devices, by name, as of now; fails when there are more than `max`. For a small number only those that
/// can run it; for a large number the review skips the others.
pub async fn named(
    state: &ServerState,
    eligibility_query: &EligibilityQuery<'_>,
    search: &Search,
    max: usize,
) -> AppResult<Vec<NamedDevice>> {
    let limit = u32::try_from(max).unwrap_or(u32::MAX).saturating_add(1);
    let found = state.store.device_keys(&eligibility_query.search(state, search).await?, limit).await?;
    if found.len() > max {
        let detail =
            format!("more than {max} devices match; narrow the filters, or select by site, group or labels only");
        return Err(AppError::invalid("filter", detail));
    }
    if found.len() as u64 <= ELIGIBLE_MAX {
        return eligible_named(state, eligibility_query, search).await;
    }
    let reference = |key: DeviceKey| wire::DeviceRef { client: key.client.to_string(), device: key.device.to_string() };
    let named = found.into_iter().map(|(key, deployment)| (reference(key), deployment));
    Ok(named.map(|(device, deployment)| (device, deployment.iter().map(ToString::to_string).collect())).collect())
}

async fn eligible_named(
    state: &ServerState,
    eligibility_query: &EligibilityQuery<'_>,
    search: &Search,
) -> AppResult<Vec<NamedDevice>> {
    let (mut paging, mut named) = (Paging { limit: Some(ELIGIBLE_PAGE), after: None }, Vec::new());
    loop {
        let page = candidates(state, eligibility_query, search, Order::default(), &paging).await?;
        for candidate in page.items.iter().filter(|candidate| candidate.can_take(eligibility_query)) {
            let device = &candidate.listed.device;
            let device = wire::DeviceRef { client: device.client.clone(), device: device.device.clone() };
            named.push((
                device,
                candidate.matching_deployments(eligibility_query).map(|placed| placed.id.clone()).collect(),
            ));
        }
        if page.next.is_none() {
            return Ok(named);
        }
        paging.after = page.next;
    }
}
