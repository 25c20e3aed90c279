//! Drafts: a deployment in the making, step by step. What is kept here says nothing to any device; a change made of it does.

mod questions;
mod submit;
mod open;

use super::access::Caller;
use super::applications::{application_id, described};
use super::error::{AppError, AppResult, Code};
use super::fleet::{self, Search, Wanted, Whom};
use super::mask::Sensitive;
use super::{deployments, overview};
use crate::state::ServerState;
use indexmap::IndexMap;
use margo::description::ApplicationDescription;
use margo::parameters::Answers;
use margrave_api::devices::DeviceRef;
use margrave_api::policies::PolicyWish;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use uuid::Uuid;

pub use open::{Open, open};
pub use questions::{Asked, Section, answer, before, kept_by_each, names, problems, sections};
pub use submit::{back_to, revision, submit};
pub(super) use submit::{is_nothing_left, policy_at, requests};

/// Devices chosen one by one: more are chosen by what they have in common.
pub const CHOSEN_MAX: usize = 10_000;
/// Devices with answers of their own; each set of answers is a change of its own.
pub const OVERRIDES_MAX: usize = 50;

/// What is being made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Create,
    Upgrade,
    Reconfigure,
    Remove,
}

/// Everything answered so far.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Draft {
    pub kind: Kind,
    pub application: String,
    pub version: String,
    /// None: the first that fits each device.
    #[serde(default)]
    pub profile: Option<String>,
    #[serde(default)]
    pub devices: Vec<DeviceRef>,
    /// Instead of devices one by one: all that have these labels and fit.
    #[serde(default)]
    pub selector: Option<String>,
    /// Deployments that exist, for an upgrade or other answers.
    #[serde(default)]
    pub deployments: Vec<String>,
    #[serde(default)]
    pub answers: Answers,
    /// By `client/device`.
    #[serde(default)]
    pub overrides: IndexMap<String, Answers>,
    /// What devices do by themselves; what is left out stays as it is.
    #[serde(default)]
    pub policy: PolicyWish,
    #[serde(default)]
    pub answered: bool,
    /// Why, as far as it was written.
    #[serde(default)]
    pub reason: String,
    /// Of what exists: for those that are chosen among all that run the application, not for what it began with.
    #[serde(default)]
    pub wide: bool,
}

impl Draft {
    /// Nothing is answered or chosen yet.
    pub fn new(kind: Kind, application: String, version: String) -> Self {
        Self {
            kind,
            application,
            version,
            profile: None,
            devices: Vec::new(),
            selector: None,
            deployments: Vec::new(),
            answers: Answers::new(),
            overrides: IndexMap::new(),
            policy: PolicyWish::default(),
            answered: false,
            reason: String::new(),
            wide: false,
        }
    }

    /// Something that exists, on devices that are chosen.
    pub fn is_wide(&self) -> bool {
        self.wide || (self.kind == Kind::Upgrade && self.deployments.is_empty())
    }

    /// The one deployment it is about, if it began with that.
    pub fn single(&self) -> Option<&str> {
        match self.deployments.as_slice() {
            [only] if !self.is_wide() => Some(only),
            _ => None,
        }
    }

    /// What devices are judged for.
    pub fn wanted(&self) -> Wanted<'_> {
        let whom = match self.kind {
            Kind::Create => Whom::Without,
            Kind::Upgrade => Whom::OnAnother,
            Kind::Reconfigure => Whom::OnThis,
            Kind::Remove => Whom::With,
        };
        Wanted { application: &self.application, version: &self.version, profile: self.profile.as_deref(), whom }
    }

    /// Whether it is about deployments of this version.
    pub fn means(&self, version: &str) -> bool {
        match self.kind {
            Kind::Upgrade => version != self.version,
            Kind::Reconfigure => version == self.version,
            Kind::Create | Kind::Remove => true,
        }
    }
}

/// A draft with its place in the store.
#[derive(Debug, Clone)]
pub struct Kept {
    pub id: Uuid,
    pub revision: i64,
    pub draft: Draft,
}

pub async fn create(state: &ServerState, caller: &Caller, draft: &Draft) -> AppResult<Uuid> {
    let (_, description) = described(state, &application_id(&draft.application)?, &draft.version).await?;
    let (id, sensitive) = (Uuid::new_v4(), !Sensitive::of(Some(&description)).is_empty());
    state.store.draft_create(id, caller.id, &text(draft), sensitive, state.now()).await?;
    Ok(id)
}

pub async fn get(state: &ServerState, caller: &Caller, id: &str) -> AppResult<Kept> {
    let missing = || {
        let detail = "this draft does not exist; it was deployed, dropped, or belongs to somebody else: begin again in the catalog";
        AppError::refused(Code::NotFound, detail)
    };
    let uuid = Uuid::try_parse(id).map_err(|_| missing())?;
    let kept = state.store.draft_get(uuid, caller.id).await?.ok_or_else(missing)?;
    let draft = serde_json::from_str(&kept.body).map_err(|_| missing())?;
    Ok(Kept { id: uuid, revision: kept.revision, draft })
}

/// Keeps a step; refused when another window has kept one since.
pub async fn put(state: &ServerState, caller: &Caller, kept: &Kept) -> AppResult<i64> {
    // A version that is gone meanwhile cannot be asked; then all of it counts as sensitive.
    let description = description(state, &kept.draft).await.ok();
    let sensitive = !Sensitive::of(description.as_deref()).is_empty();
    let body = text(&kept.draft);
    Ok(state.store.draft_put(kept.id, caller.id, &body, sensitive, Some(kept.revision), state.now()).await?)
}

pub async fn drop(state: &ServerState, caller: &Caller, id: Uuid) -> AppResult<()> {
    Ok(state.store.draft_delete(id, caller.id).await?)
}

fn text(draft: &Draft) -> String {
    serde_json::to_string(draft).expect("a draft is plain data")
}

pub async fn description(state: &ServerState, draft: &Draft) -> AppResult<Arc<ApplicationDescription>> {
    Ok(described(state, &application_id(&draft.application)?, &draft.version).await?.1)
}

/// Begins with what another deployment has or had: its answers, and what its device does by itself.
pub async fn like(state: &ServerState, draft: &mut Draft, id: &str) -> AppResult<()> {
    let before = deployments::existing(state, id).await?.deployment;
    let description = description(state, draft).await?;
    let sections = sections(&description, None);
    let asked = |name: &str| sections.iter().flat_map(|section| &section.questions).any(|one| one.parameter == name);
    draft.answers = before.values.into_iter().filter(|(name, _)| asked(name)).collect();
    draft.policy = before.policy.into();
    Ok(())
}

/// How many devices have what a draft about something that exists is about.
pub async fn meant(state: &ServerState, draft: &Draft) -> AppResult<u64> {
    let overview = overview::get(state).await?;
    let versions = overview.uses.get(&draft.application).into_iter().flatten();
    let meant = versions.filter(|(version, _)| draft.means(version));
    Ok(meant.flat_map(|(_, counts)| counts.0.values()).sum())
}

/// How many devices a draft reaches at most.
pub async fn reach(state: &ServerState, draft: &Draft) -> AppResult<u64> {
    match &draft.selector {
        Some(all) if draft.is_wide() && all.is_empty() => return meant(state, draft).await,
        Some(selector) if draft.is_wide() => {
            let search = Search { labels: Some(selector.clone()), ..Search::default() };
            return Ok(fleet::counted_for(state, &draft.wanted(), &search).await?.values().sum());
        }
        _ if !draft.deployments.is_empty() => return Ok(draft.deployments.len() as u64),
        _ => {}
    }
    match &draft.selector {
        Some(selector) => {
            let search = Search { labels: Some(selector.clone()), ..Search::default() };
            Ok(fleet::counted(state, &search).await?.values().sum())
        }
        None => Ok(draft.devices.len() as u64),
    }
}
