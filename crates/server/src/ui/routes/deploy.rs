//! The deployment wizard: version, devices, configuration, review. Each step is a URL with a plain form; the draft is stored on the
//! server.

pub(super) mod configuration;
pub(super) mod begin;
pub(super) mod devices;
pub(super) mod overrides;
mod fields;
pub(super) mod review;
pub(super) mod version;

use crate::app::drafts::{self, Draft, Kind, StoredDraft};
use crate::app::overview;
use crate::state::ServerState;
use crate::ui::errors::UiError;
use crate::ui::markup::Markup;
use crate::ui::routes::query::link;
use crate::ui::visit::{Section, Shell, Visit};
use crate::ui::words;
use margrave_api::devices::DeviceRef;
use std::collections::HashMap;

/// The position in the wizard, for the head of every step.
pub(super) struct Steps {
    pub(super) id: String,
    pub(super) revision: i64,
    pub(super) version: String,
    pub(super) list: Vec<Step>,
    /// The form of this step; its buttons lead to the other steps.
    pub(super) form: &'static str,
    /// The action of Enter in that form; none if the step has nothing to save.
    pub(super) enter: Option<&'static str>,
    /// The previous step.
    pub(super) back: Option<&'static str>,
    pub(super) title: String,
    /// Name of the application.
    pub(super) name: String,
}

pub(super) struct Step {
    /// As in URLs.
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    pub(super) link: String,
    pub(super) done: bool,
    pub(super) here: bool,
}

/// The steps of a draft; drafts that change existing deployments have fewer.
pub(super) fn steps_of(draft: &Draft) -> Vec<(&'static str, &'static str)> {
    let all =
        [("version", "Version"), ("devices", "Devices"), ("configuration", "Configuration"), ("review", "Review")];
    let has = |step: &str| match step {
        "version" => matches!(draft.kind, Kind::Create | Kind::Upgrade),
        "devices" => draft.kind == Kind::Create || draft.is_by_device(),
        "configuration" => draft.kind != Kind::Remove,
        _ => true,
    };
    all.into_iter().filter(|(step, _)| has(step)).collect()
}

/// An unfinished draft.
pub(super) struct DraftLink {
    pub(super) title: String,
    pub(super) link: String,
    /// What tells it apart from another draft with the same title.
    pub(super) detail: String,
    pub(super) discard: String,
    pub(super) at: Markup,
}

/// `back`: the page that lists them, to return to after discarding one.
pub(super) async fn started(visit: &Visit, shell: &Shell, back: &str) -> Result<Vec<DraftLink>, UiError> {
    let open = drafts::open(&visit.state, visit.caller()).await?.into_iter();
    let shown = |open: drafts::Open| DraftLink {
        title: title(&open.stored.draft, shell.names()),
        link: format!("/deploy/{}/{}", open.stored.id, open.stored.draft.step()),
        detail: detail(&open.stored.draft),
        discard: link(&format!("/deploy/{}/discard", open.stored.id), &[("to", back)]),
        at: shell.ago_at(&open.at),
    };
    Ok(open.map(shown).collect())
}

/// The menu section of its pages: Catalog for new deployments, Deployments for existing ones.
pub(super) fn section(draft: &Draft) -> Section {
    if draft.kind == Kind::Create { Section::Catalog } else { Section::Deployments }
}

/// The title of a draft.
pub(super) fn title(draft: &Draft, names: &HashMap<String, String>) -> String {
    let name = names.get(&draft.application).unwrap_or(&draft.application);
    match draft.kind {
        Kind::Create => format!("Deploy {name}"),
        Kind::Upgrade => format!("Upgrade or downgrade {name}"),
        Kind::Reconfigure => format!("Reconfigure {name}"),
        Kind::Remove => format!("Remove {name}"),
    }
}

/// Version and devices of a draft.
fn detail(draft: &Draft) -> String {
    let devices = match (&draft.selector, draft.devices.len().max(draft.deployments.len())) {
        (Some(selector), _) if !selector.is_empty() => format!("devices with {selector}"),
        (Some(_), _) => "all eligible devices".to_owned(),
        (None, 0) => "no device selected yet".to_owned(),
        (None, 1) => draft.devices.first().map_or_else(|| "1 device".to_owned(), |only| only.device.clone()),
        (None, many) => words::count(many as u64, "device"),
    };
    if draft.kind == Kind::Remove { devices } else { format!("{}, {devices}", draft.version) }
}

pub(super) async fn steps(state: &ServerState, stored: &StoredDraft, here: &str) -> Result<Steps, UiError> {
    let overview = overview::get(state).await?;
    let draft = &stored.draft;
    let name = overview.names.get(&draft.application).unwrap_or(&draft.application).clone();
    let title = title(draft, &overview.names);
    let all = steps_of(draft);
    let place = all.iter().position(|(step, _)| *step == here).unwrap_or_default();
    Ok(Steps {
        id: stored.id.to_string(),
        revision: stored.revision,
        // A removal covers all versions.
        version: if draft.kind == Kind::Remove { String::new() } else { draft.version.clone() },
        form: if here == "configuration" { "configuration" } else { "step" },
        enter: match here {
            "devices" => Some("filter"),
            "configuration" => Some("continue"),
            "review" => Some("deploy"),
            _ => None,
        },
        back: place.checked_sub(1).map(|before| all[before].0),
        list: all
            .into_iter()
            .enumerate()
            .map(|(index, (step, name))| Step {
                key: step,
                name,
                link: format!("/deploy/{}/{step}", stored.id),
                done: index < place,
                here: index == place,
            })
            .collect(),
        title,
        name,
    })
}

/// A device as written in forms and URLs.
pub(super) fn device_value(device: &DeviceRef) -> String {
    format!("{}/{}", device.client, device.device)
}

pub(super) fn read_device(value: &str) -> Option<DeviceRef> {
    let (client, device) = value.split_once('/')?;
    Some(DeviceRef { client: client.to_owned(), device: device.to_owned() })
}

/// The URL of a button that leads to another step and saves the form, valid or not.
pub(super) fn elsewhere(stored: &StoredDraft, go: &str) -> Option<String> {
    let requested = go.strip_prefix("step:")?;
    let (step, _) = steps_of(&stored.draft).into_iter().find(|(step, _)| *step == requested)?;
    Some(format!("/deploy/{}/{step}", stored.id))
}

/// The step after one.
pub(super) fn next(stored: &StoredDraft, step: &str) -> String {
    let all = steps_of(&stored.draft);
    let place = all.iter().position(|(known, _)| *known == step).unwrap_or_default();
    let next = all.get(place + 1).or(all.last()).map_or("review", |(step, _)| step);
    format!("/deploy/{}/{next}", stored.id)
}
