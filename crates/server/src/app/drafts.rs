//! Drafts: unfinished deployments of the wizard. A draft does not affect any device until it is submitted as a rollout.

mod parameters;
mod submit;
mod open;

use super::access::Caller;
use super::applications::{application_id, described};
use super::error::{AppError, AppResult, Code};
use super::fleet::{self, EligibilityQuery, InstalledFilter, Search};
use super::mask::Sensitive;
use super::{deployments, overview};
use crate::state::ServerState;
use indexmap::IndexMap;
use margo::description::ApplicationDescription;
use margo::parameters::ParameterValues;
use margrave_api::devices::DeviceRef;
use margrave_api::policies::PolicyPatch;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use uuid::Uuid;

pub use open::{Open, open};
pub use parameters::{ParameterField, Section, before, names, parse_value, problems, sections, stored_by_each};
pub use submit::{back_to, revision, submit};
pub(super) use submit::{is_nothing_left, policy_at, requests};

/// Individually selected devices; a selector is used for more.
pub const SELECTED_MAX: usize = 10_000;
/// Devices with overrides; each distinct configuration becomes a rollout of its own.
pub const OVERRIDES_MAX: usize = 50;

/// What the draft does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Create,
    Upgrade,
    Reconfigure,
    Remove,
}

/// Everything entered so far.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Draft {
    pub kind: Kind,
    pub application: String,
    pub version: String,
    /// None: the first compatible profile of each device.
    #[serde(default)]
    pub profile: Option<String>,
    #[serde(default)]
    pub devices: Vec<DeviceRef>,
    /// Instead of individual devices: all compatible devices with these labels.
    #[serde(default)]
    pub selector: Option<String>,
    /// Existing deployments to upgrade or reconfigure.
    #[serde(default)]
    pub deployments: Vec<String>,
    #[serde(default, rename = "values")]
    pub values: ParameterValues,
    /// By `client/device`.
    #[serde(default)]
    pub overrides: IndexMap<String, ParameterValues>,
    /// Deployment policies; omitted ones stay unchanged.
    #[serde(default)]
    pub policy: PolicyPatch,
    /// Whether the configuration step was completed.
    #[serde(default, rename = "configured")]
    pub configured: bool,
    /// The comment entered so far.
    #[serde(default)]
    pub comment: String,
    /// Applies to devices selected among all that run the application, not to the deployments the draft started with.
    #[serde(default, rename = "amongInstalled")]
    pub by_device: bool,
}

impl Draft {
    /// An empty draft.
    pub fn new(kind: Kind, application: String, version: String) -> Self {
        Self {
            kind,
            application,
            version,
            profile: None,
            devices: Vec::new(),
            selector: None,
            deployments: Vec::new(),
            values: ParameterValues::new(),
            overrides: IndexMap::new(),
            policy: PolicyPatch::default(),
            configured: false,
            comment: String::new(),
            by_device: false,
        }
    }

    /// Changes existing deployments on selected devices.
    pub fn is_by_device(&self) -> bool {
        self.by_device || (self.kind == Kind::Upgrade && self.deployments.is_empty())
    }

    /// The single deployment it changes, if it started with one.
    pub fn single(&self) -> Option<&str> {
        match self.deployments.as_slice() {
            [only] if !self.is_by_device() => Some(only),
            _ => None,
        }
    }

    /// What devices are checked for.
    pub fn eligibility_query(&self) -> EligibilityQuery<'_> {
        let installed = match self.kind {
            Kind::Create => InstalledFilter::Without,
            Kind::Upgrade => InstalledFilter::OtherVersion,
            Kind::Reconfigure => InstalledFilter::ThisVersion,
            Kind::Remove => InstalledFilter::With,
        };
        EligibilityQuery {
            application: &self.application,
            version: &self.version,
            profile: self.profile.as_deref(),
            installed,
        }
    }

    /// Whether it applies to deployments of this version.
    pub fn means(&self, version: &str) -> bool {
        match self.kind {
            Kind::Upgrade => version != self.version,
            Kind::Reconfigure => version == self.version,
            Kind::Create | Kind::Remove => true,
        }
    }
}

/// A stored draft.
#[derive(Debug, Clone)]
pub struct StoredDraft {
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

pub async fn get(state: &ServerState, caller: &Caller, id: &str) -> AppResult<StoredDraft> {
    let missing = || {
        let detail = "this draft does not exist: it was deployed, discarded, or belongs to another operator; start again in the catalog";
        AppError::refused(Code::NotFound, detail)
    };
    let uuid = Uuid::try_parse(id).map_err(|_| missing())?;
    let stored = state.store.draft_get(uuid, caller.id).await?.ok_or_else(missing)?;
    let draft = serde_json::from_str(&stored.body).map_err(|_| missing())?;
    Ok(StoredDraft { id: uuid, revision: stored.revision, draft })
}

/// Saves a step; rejected if another window has saved one since.
pub async fn put(state: &ServerState, caller: &Caller, stored: &StoredDraft) -> AppResult<i64> {
    // If the version no longer exists, treat all values as sensitive.
    let description = description(state, &stored.draft).await.ok();
    let sensitive = !Sensitive::of(description.as_deref()).is_empty();
    let body = text(&stored.draft);
    Ok(state.store.draft_put(stored.id, caller.id, &body, sensitive, Some(stored.revision), state.now()).await?)
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

/// Copies values and policies from another deployment.
pub async fn like(state: &ServerState, draft: &mut Draft, id: &str) -> AppResult<()> {
    let before = deployments::existing(state, id).await?.deployment;
    let description = description(state, draft).await?;
    let sections = sections(&description, None);
    let is_parameter =
        |name: &str| sections.iter().flat_map(|section| &section.fields).any(|one| one.parameter == name);
    draft.values = before.values.into_iter().filter(|(name, _)| is_parameter(name)).collect();
    draft.policy = before.policy.into();
    Ok(())
}

/// Number of devices whose deployments the draft applies to.
pub async fn matching_count(state: &ServerState, draft: &Draft) -> AppResult<u64> {
    let overview = overview::get(state).await?;
    let versions = overview.uses.get(&draft.application).into_iter().flatten();
    let matching_count = versions.filter(|(version, _)| draft.means(version));
    Ok(matching_count.flat_map(|(_, counts)| counts.0.values()).sum())
}

/// Maximum number of devices the draft affects.
pub async fn target_count(state: &ServerState, draft: &Draft) -> AppResult<u64> {
    match &draft.selector {
        Some(all) if draft.is_by_device() && all.is_empty() => return matching_count(state, draft).await,
        Some(selector) if draft.is_by_device() => {
            let search = Search { labels: Some(selector.clone()), ..Search::default() };
            return Ok(fleet::counted_for(state, &draft.eligibility_query(), &search).await?.values().sum());
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
