//! Who can take an application, or has it: devices judged for what somebody wants to do with them.

use super::{Listed, Placed, Search, counted, counts, listed, look, on};
use crate::app::devices::{self, KeyText};
use crate::app::error::{AppError, AppResult};
use crate::app::paging::Paging;
use crate::app::{applications, fit, overview};
use crate::state::ServerState;
use margrave_api::applications::{DeviceFit, FitOutcome};
use margrave_api::devices as wire;
use margrave_api::page::Page;
use margrave_core::model::{DeviceKey, DeviceState};
use margrave_store::{DeviceSearch, Runs, RunsVersion};
use std::collections::BTreeMap;

/// Devices judged for how many can take an application; a larger number is not told before the review.
pub const TAKERS_MAX: u64 = 300;
const TAKERS_PAGE: u32 = 100;
/// Devices judged for one page of those that fit.
const LOOKED_AT_MAX: usize = 1000;

/// A device with whether an application fits it.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub listed: Listed,
    pub fit: DeviceFit,
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
    /// Whether the application may come here: it fits, is not here yet, and the client is not shut out. Where it is here, whether
    /// that may be changed.
    pub fn can_take(&self, wanted: &Wanted<'_>) -> bool {
        let fits = self.fit.outcome == FitOutcome::Fits && self.listed.state != DeviceState::ShutOut;
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

/// As [`super::list`], each with whether this version fits.
pub async fn candidates(
    state: &ServerState,
    wanted: &Wanted<'_>,
    search: &Search,
    paging: &Paging,
) -> AppResult<Page<Candidate>> {
    let application = applications::application_id(wanted.application)?;
    let (_, description) = applications::described(state, &application, wanted.version).await?;
    let (limit, after) = (paging.limit()?, paging.after::<KeyText>()?);
    let found = wanted.search(state, search).await?;
    let (rows, next) = look(state, &found, after, limit).await?;
    let mut placed = on(state, &rows).await?;
    let judged = rows.into_iter().map(|device| {
        let fit = fit::judge(&description, &device, wanted.profile);
        Candidate { listed: listed(state, device, &mut placed), fit }
    });
    Ok(Page { items: judged.collect(), next })
}

/// One device with whether this version fits.
pub async fn candidate(state: &ServerState, wanted: &Wanted<'_>, device: &wire::DeviceRef) -> AppResult<Candidate> {
    let application = applications::application_id(wanted.application)?;
    let (_, description) = applications::described(state, &application, wanted.version).await?;
    let key = devices::key(&device.client, &device.device)?;
    let found = state.store.device_get(&key).await?.ok_or_else(|| devices::missing(&key))?;
    let mut placed = on(state, std::slice::from_ref(&found)).await?;
    let fit = fit::judge(&description, &found, wanted.profile);
    Ok(Candidate { listed: listed(state, found, &mut placed), fit })
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
    counts::of(state, wanted.search(state, &anything).await?).await
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
    let reference = |key: DeviceKey| wire::DeviceRef { client: key.client.to_string(), device: key.device.to_string() };
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
