//! Drafts: a deployment in the making, step by step. What is kept here says nothing to any device; a change made of it does.

mod open;

use super::access::Caller;
use super::applications::{application_id, described};
use super::changes::{self, Request};
use super::error::{AppError, AppResult, Code};
use super::mask::{Sensitive, is_nothing};
use super::{deployments, fleet, overview};
use crate::state::ServerState;
use indexmap::IndexMap;
use margo::deployment::ApplicationDeployment;
use margo::description::ApplicationDescription;
use margo::parameters::{self, Answers, Schema};
use margrave_api::changes as wire;
use margrave_api::devices::DeviceRef;
use margrave_api::policies::PolicyWish;
use margrave_core::policy::Policy;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use uuid::Uuid;

pub use open::{Open, open};

/// Devices chosen one by one: more are chosen by what they have in common.
pub const CHOSEN_MAX: usize = 2000;
/// Devices with answers of their own; each set of answers is a change of its own.
pub const OVERRIDES_MAX: usize = 50;

/// What is being made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Create,
    Upgrade,
    Reconfigure,
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
}

impl Draft {
    /// A change of version wherever the application is on another one.
    pub fn is_for_all(&self) -> bool {
        self.kind == Kind::Upgrade && self.deployments.is_empty()
    }
}

/// A draft with its place in the store.
#[derive(Debug, Clone)]
pub struct Kept {
    pub id: Uuid,
    pub revision: i64,
    pub draft: Draft,
}

/// One question with everything needed to ask it.
#[derive(Debug, Clone)]
pub struct Asked {
    pub parameter: String,
    pub name: String,
    pub description: Option<String>,
    pub immutable: bool,
    pub schema: Schema,
    pub default: Option<Value>,
    /// There is a default that is not shown.
    pub hides_default: bool,
    pub rules: Vec<String>,
}

/// Questions under one heading.
#[derive(Debug, Clone)]
pub struct Section {
    pub name: String,
    pub questions: Vec<Asked>,
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

/// What is asked, for the profile chosen or for any.
pub fn sections(description: &ApplicationDescription, profile: Option<&str>) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let profiles =
        description.deployment_profiles.iter().filter(|known| profile.is_none_or(|wanted| known.id == wanted));
    for question in profiles.flat_map(|profile| parameters::questions(description, &profile.id)) {
        let index = sections.iter().position(|known| known.name == question.section).unwrap_or_else(|| {
            sections.push(Section { name: question.section.to_owned(), questions: Vec::new() });
            sections.len() - 1
        });
        let asked = &mut sections[index].questions;
        if asked.iter().any(|known| known.parameter == question.setting.parameter) {
            continue;
        }
        asked.push(Asked {
            parameter: question.setting.parameter.clone(),
            name: question.setting.name.clone(),
            description: question.setting.description.clone(),
            immutable: question.setting.immutable,
            schema: question.schema.clone(),
            // PRM-09: a sensitive default is used, not shown.
            default: question.default.filter(|_| !question.schema.sensitive).cloned(),
            hides_default: question.schema.sensitive && question.default.is_some_and(|value| !is_nothing(value)),
            rules: super::applications::rules(question.schema, question.default),
        });
    }
    sections
}

/// What parameters of a version are called when they are asked for; empty where the version is gone.
pub async fn names(state: &ServerState, application: &str, version: &str) -> HashMap<String, String> {
    let Ok(id) = application_id(application) else { return HashMap::new() };
    let Ok((_, description)) = described(state, &id, version).await else { return HashMap::new() };
    let questions = sections(&description, None).into_iter().flat_map(|section| section.questions);
    questions.map(|question| (question.parameter, question.name)).collect()
}

/// What was typed or ticked, as the value the question asks for.
pub fn answer(description: &ApplicationDescription, question: &Asked, typed: &[&str]) -> Value {
    let one = |text: &str| parameters::coerce(description, &question.parameter, text);
    if !question.schema.takes_list() {
        return one(typed.first().copied().unwrap_or_default());
    }
    let items = typed.iter().flat_map(|text| text.lines()).map(str::trim).filter(|text| !text.is_empty());
    Value::Array(
        items
            .flat_map(|text| match one(&text.replace(',', "\u{1}")) {
                Value::Array(items) => items,
                single => vec![single],
            })
            .map(|item| match item {
                // Commas are part of an item here; only the command line separates by them.
                Value::String(text) => Value::String(text.replace('\u{1}', ",")),
                other => other,
            })
            .collect(),
    )
}

/// Everything wrong with the answers, by parameter, in the words every reader gets.
pub async fn problems(
    state: &ServerState,
    draft: &Draft,
    answers: &Answers,
) -> AppResult<IndexMap<String, Vec<String>>> {
    let description = description(state, draft).await?;
    let (before, kept) = (before(state, draft).await?, kept_by_each(state, draft).await?);
    let mut joined = before.clone().unwrap_or_default();
    joined.retain(|name, _| description.parameters.contains_key(name));
    joined.extend(answers.iter().map(|(name, value)| (name.clone(), value.clone())));
    let mut found: IndexMap<String, Vec<String>> = IndexMap::new();
    for profile in &description.deployment_profiles {
        if draft.profile.as_ref().is_some_and(|wanted| *wanted != profile.id) {
            continue;
        }
        let Err(errors) = parameters::resolve(&description, &profile.id, &joined, before.as_ref()) else { continue };
        for error in
            errors.into_iter().filter(|error| answers.contains_key(&error.field) || !kept.contains(&error.field))
        {
            // The field is beside it, so the section and the name need not be repeated.
            let message = error
                .message
                .rsplit_once(" / ")
                .and_then(|(_, rest)| rest.split_once(": "))
                .map_or(error.message.as_str(), |(_, words)| words)
                .to_owned();
            let messages = found.entry(error.field).or_default();
            if !messages.contains(&message) {
                messages.push(message);
            }
        }
    }
    Ok(found)
}

/// Parameters the deployments of a draft for many have already, each with a value of its own: nobody is asked for them.
pub async fn kept_by_each(state: &ServerState, draft: &Draft) -> AppResult<HashSet<String>> {
    let mut kept = HashSet::new();
    if !draft.is_for_all() {
        return Ok(kept);
    }
    let overview = overview::get(state).await?;
    let versions = overview.uses.get(&draft.application).into_iter().flatten();
    for (version, _) in versions.filter(|(version, _)| **version != draft.version) {
        let (_, description) = described(state, &application_id(&draft.application)?, version).await?;
        kept.extend(description.parameters.keys().cloned());
    }
    Ok(kept)
}

/// The values an existing deployment has; for several, none.
pub async fn before(state: &ServerState, draft: &Draft) -> AppResult<Option<Answers>> {
    match draft.deployments.as_slice() {
        [only] => Ok(Some(deployments::existing(state, only).await?.deployment.values)),
        _ => Ok(None),
    }
}

/// The changes a draft comes to: one for each set of answers, those of single devices first, so that the last takes the rest.
pub(super) fn requests(draft: &Draft) -> AppResult<Vec<Request>> {
    let kind = match draft.kind {
        Kind::Create => wire::ChangeKind::Create,
        Kind::Upgrade => wire::ChangeKind::Upgrade,
        Kind::Reconfigure => wire::ChangeKind::Reconfigure,
    };
    let make = |scope: wire::Scope, answers: Answers| {
        let body = wire::CreateChange {
            kind,
            application: draft.application.clone(),
            version: (kind != wire::ChangeKind::Reconfigure).then(|| draft.version.clone()),
            profile: (kind == wire::ChangeKind::Create).then(|| draft.profile.clone()).flatten(),
            scope,
            answers,
            policy: draft.policy,
            skip_unfit: true,
            reason: None,
        };
        Request::read(body).map(|(request, _)| Request { movers: draft.is_for_all(), ..request })
    };
    let mut requests = Vec::new();
    let mut rest = draft.devices.clone();
    let mut sets: Vec<(Answers, Vec<DeviceRef>)> = Vec::new();
    for (device, own) in draft.overrides.iter().filter(|(_, own)| !own.is_empty()) {
        let Some((client, device)) = device.split_once('/') else { continue };
        let device = DeviceRef { client: client.to_owned(), device: device.to_owned() };
        rest.retain(|known| *known != device);
        let mut answers = draft.answers.clone();
        answers.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
        match sets.iter_mut().find(|(known, _)| *known == answers) {
            Some((_, devices)) => devices.push(device),
            None => sets.push((answers, vec![device])),
        }
    }
    for (answers, devices) in sets {
        requests.push(make(wire::Scope { devices: Some(devices), ..wire::Scope::default() }, answers)?);
    }
    let scope = if !draft.deployments.is_empty() {
        Some(wire::Scope { deployments: Some(draft.deployments.clone()), ..wire::Scope::default() })
    } else if let Some(selector) = &draft.selector {
        Some(wire::Scope { selector: Some(selector.clone()), ..wire::Scope::default() })
    } else {
        (!rest.is_empty()).then(|| wire::Scope { devices: Some(rest), ..wire::Scope::default() })
    };
    if let Some(scope) = scope {
        requests.push(make(scope, draft.answers.clone())?);
    }
    if requests.is_empty() {
        return Err(AppError::refused(Code::Invalid, "no device is chosen; choose at least one"));
    }
    Ok(requests)
}

/// With others before it, a change may find nothing left to do.
pub(super) fn is_nothing_left(error: &AppError) -> bool {
    matches!(error, AppError::Refused { code: Code::Unplaceable | Code::Unchanged | Code::Exists, .. })
}

/// The revision of the one deployment a draft is about.
pub async fn revision(state: &ServerState, draft: &Draft) -> AppResult<Option<i64>> {
    match draft.deployments.as_slice() {
        [only] => Ok(Some(deployments::existing(state, only).await?.deployment.revision)),
        _ => Ok(None),
    }
}

/// Makes it so; gives the changes. What a single deployment was when it was reviewed is `seen`: it must not have changed since.
/// `caller_of` gives each its own place in the record of repeats.
pub async fn submit(
    state: &ServerState,
    caller_of: impl Fn(usize) -> Caller,
    draft: &Draft,
    seen: Option<i64>,
    reason: Option<String>,
) -> AppResult<Vec<wire::Change>> {
    if let ([only], Some(seen)) = (draft.deployments.as_slice(), seen) {
        let present = deployments::existing(state, only).await?.deployment;
        if present.revision != seen {
            let detail = format!(
                "somebody else changed it in the meantime (it is at revision {} now): look again at what your answers come to",
                present.revision
            );
            return Err(AppError::refused(Code::Conflict, detail));
        }
    }
    let requests = requests(draft)?;
    if requests.len() > 1 {
        // All of it or nothing, as far as it can be told before. One alone is checked when it is made.
        for (index, request) in requests.iter().enumerate() {
            match changes::check(state, request).await {
                Err(error) if index == 0 || !is_nothing_left(&error) => return Err(error),
                _ => {}
            }
        }
    }
    let mut made = Vec::new();
    for (index, request) in requests.into_iter().enumerate() {
        match changes::submit(state, &caller_of(index), request, reason.clone()).await {
            Ok(change) => made.push(change),
            Err(error) if !made.is_empty() && is_nothing_left(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(made)
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

/// How many devices a draft reaches at most.
pub async fn reach(state: &ServerState, draft: &Draft) -> AppResult<u64> {
    if !draft.deployments.is_empty() {
        return Ok(draft.deployments.len() as u64);
    }
    if draft.is_for_all() {
        let uses = &overview::get(state).await?.uses;
        let versions = uses.get(&draft.application).into_iter().flatten();
        let others = versions.filter(|(version, _)| **version != draft.version);
        return Ok(others.flat_map(|(_, counts)| counts.0.values()).sum());
    }
    match &draft.selector {
        Some(selector) => {
            let search = fleet::Search { labels: Some(selector.clone()), ..fleet::Search::default() };
            Ok(fleet::counted(state, &search).await?.values().sum())
        }
        None => Ok(draft.devices.len() as u64),
    }
}

/// What a deployment would be like at an earlier revision, as a change of one.
pub async fn back_to(state: &ServerState, id: &str, revision: i64) -> AppResult<Request> {
    let view = deployments::existing(state, id).await?;
    let known = state.store.deployment_revisions(view.deployment.id).await?;
    let wanted = known
        .into_iter()
        .find(|known| known.revision == revision)
        .ok_or_else(|| AppError::not_found(format_args!("revision {revision} of deployment `{id}`")))?;
    let upgrade = wanted.version != view.deployment.version;
    // What the device does by itself goes back as well; it stands in the document of that revision.
    let document = state.store.deployment_document(view.deployment.id, revision).await?;
    let document = document.and_then(|bytes| ApplicationDeployment::read(&bytes).ok());
    let policy = document.map(|read| PolicyWish::from(Policy::of(&read.document))).unwrap_or_default();
    let body = wire::CreateChange {
        kind: if upgrade { wire::ChangeKind::Upgrade } else { wire::ChangeKind::Reconfigure },
        application: view.deployment.application.to_string(),
        version: upgrade.then(|| wanted.version.clone()),
        profile: upgrade.then(|| wanted.profile.clone()),
        scope: wire::Scope { deployments: Some(vec![id.to_owned()]), ..wire::Scope::default() },
        answers: wanted.values,
        policy,
        skip_unfit: false,
        reason: None,
    };
    Ok(Request::read(body)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use margrave_api::policies::OnFailure;
    use serde_json::json;

    fn described() -> ApplicationDescription {
        let yaml = include_bytes!("../../../../samples/vibration-analytics/2.3.0/margo.yaml");
        ApplicationDescription::read(yaml).unwrap().document
    }

    fn question(name: &str) -> Asked {
        let description = described();
        let all = sections(&description, None).into_iter().flat_map(|section| section.questions);
        all.into_iter().find(|question| question.parameter == name).unwrap()
    }

    #[test]
    fn what_is_typed_becomes_what_is_asked_for() {
        let description = described();
        assert_eq!(answer(&description, &question("retentionDays"), &["30"]), json!(30));
        assert_eq!(answer(&description, &question("retentionDays"), &["many"]), json!("many"));
        assert_eq!(answer(&description, &question("bearings"), &["fan", "gearbox"]), json!(["fan", "gearbox"]));
        assert_eq!(answer(&description, &question("bearings"), &[]), json!([]));
        assert_eq!(answer(&description, &question("bearings"), &["a,b\nfan"]), json!(["a,b", "fan"]));
    }

    #[test]
    fn each_set_of_answers_is_a_change_and_the_rest_comes_last() {
        let device = |name: &str| DeviceRef { client: name.to_owned(), device: name.to_owned() };
        let own = |value: i64| Answers::from([("retentionDays".to_owned(), json!(value))]);
        let draft = Draft {
            kind: Kind::Create,
            application: "vibration-analytics".to_owned(),
            version: "2.3.0".to_owned(),
            profile: None,
            devices: ["a", "b", "c", "d"].map(device).to_vec(),
            selector: None,
            deployments: Vec::new(),
            answers: Answers::from([("machineClass".to_owned(), json!("class-1"))]),
            overrides: IndexMap::from([
                ("a/a".to_owned(), own(5)),
                ("b/b".to_owned(), own(5)),
                ("c/c".to_owned(), own(7)),
            ]),
            policy: PolicyWish { on_failure: Some(OnFailure::Hold), ..PolicyWish::default() },
            answered: true,
        };
        let requests = requests(&draft).unwrap();
        let devices: Vec<Vec<String>> = requests
            .iter()
            .map(|request| request.scope.devices.iter().flatten().map(|device| device.client.clone()).collect())
            .collect();
        assert_eq!(devices, [vec!["a", "b"], vec!["c"], vec!["d"]]);
        assert_eq!(requests[0].answers["retentionDays"], json!(5));
        assert_eq!(requests[2].answers.len(), 1);
        assert!(requests.iter().all(|request| request.policy.to_text() == "onFailure=hold"), "one policy for all");
    }
}
