//! Deploying, step by step: version, devices, answers, review. Each step is an address and a plain form; what was answered is kept
//! on the server.

pub(super) mod answers;
pub(super) mod begin;
pub(super) mod devices;
pub(super) mod own;
mod questions;
pub(super) mod review;
pub(super) mod version;

use crate::app::drafts::{self, Draft, Kept, Kind};
use crate::app::overview;
use crate::state::ServerState;
use crate::ui::errors::UiError;
use crate::ui::markup::Markup;
use crate::ui::visit::{Section, Shell, Visit};
use margrave_api::devices::DeviceRef;
use std::collections::HashMap;

/// Where a person is, for the head of every step.
pub(super) struct Steps {
    pub(super) id: String,
    pub(super) revision: i64,
    pub(super) version: String,
    pub(super) list: Vec<Step>,
    /// The form of the step, whose buttons lead to the others.
    pub(super) form: &'static str,
    /// What Enter in it does; none where there is no form to keep.
    pub(super) enter: Option<&'static str>,
    /// The step before.
    pub(super) back: Option<&'static str>,
    pub(super) title: String,
    /// Of the application.
    pub(super) name: String,
}

pub(super) struct Step {
    /// As addresses have it.
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    pub(super) link: String,
    pub(super) done: bool,
    pub(super) here: bool,
}

/// The steps of a draft; one that changes what exists has fewer.
pub(super) fn steps_of(draft: &Draft) -> Vec<(&'static str, &'static str)> {
    let all = [("version", "Version"), ("devices", "Devices"), ("answers", "Questions"), ("review", "Review")];
    let has = |step: &str| match step {
        "version" => matches!(draft.kind, Kind::Create | Kind::Upgrade),
        "devices" => draft.kind == Kind::Create || draft.is_wide(),
        "answers" => draft.kind != Kind::Remove,
        _ => true,
    };
    all.into_iter().filter(|(step, _)| has(step)).collect()
}

/// Something somebody began and did not finish.
pub(super) struct Begun {
    pub(super) title: String,
    pub(super) link: String,
    pub(super) at: Markup,
}

pub(super) async fn begun(visit: &Visit, shell: &Shell) -> Result<Vec<Begun>, UiError> {
    let open = drafts::open(&visit.state, visit.caller()).await?.into_iter();
    let shown = |open: drafts::Open| Begun {
        title: title(&open.kept.draft, shell.names()),
        link: format!("/deploy/{}/{}", open.kept.id, open.kept.draft.step()),
        at: shell.ago_at(&open.at),
    };
    Ok(open.map(shown).collect())
}

/// Where its pages belong: something new is of the catalog, a change of what exists of the deployments.
pub(super) fn section(draft: &Draft) -> Section {
    if draft.kind == Kind::Create { Section::Catalog } else { Section::Deployments }
}

/// What a draft is about.
pub(super) fn title(draft: &Draft, names: &HashMap<String, String>) -> String {
    let name = names.get(&draft.application).unwrap_or(&draft.application);
    match draft.kind {
        Kind::Create => format!("Deploy {name}"),
        Kind::Upgrade => format!("Change the version of {name}"),
        Kind::Reconfigure => format!("Reconfigure {name}"),
        Kind::Remove => format!("Remove {name}"),
    }
}

pub(super) async fn steps(state: &ServerState, kept: &Kept, here: &str) -> Result<Steps, UiError> {
    let overview = overview::get(state).await?;
    let draft = &kept.draft;
    let name = overview.names.get(&draft.application).unwrap_or(&draft.application).clone();
    let title = title(draft, &overview.names);
    let all = steps_of(draft);
    let place = all.iter().position(|(step, _)| *step == here).unwrap_or_default();
    Ok(Steps {
        id: kept.id.to_string(),
        revision: kept.revision,
        // It is removed whatever its version.
        version: if draft.kind == Kind::Remove { String::new() } else { draft.version.clone() },
        form: if here == "answers" { "answers" } else { "step" },
        enter: match here {
            "devices" => Some("filter"),
            "answers" => Some("continue"),
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
                link: format!("/deploy/{}/{step}", kept.id),
                done: index < place,
                here: index == place,
            })
            .collect(),
        title,
        name,
    })
}

/// A device as forms and addresses name it.
pub(super) fn device_value(device: &DeviceRef) -> String {
    format!("{}/{}", device.client, device.device)
}

pub(super) fn read_device(value: &str) -> Option<DeviceRef> {
    let (client, device) = value.split_once('/')?;
    Some(DeviceRef { client: client.to_owned(), device: device.to_owned() })
}

/// Where a button leads that goes to another step and keeps what is there, right or wrong.
pub(super) fn elsewhere(kept: &Kept, go: &str) -> Option<String> {
    let wanted = go.strip_prefix("step:")?;
    let (step, _) = steps_of(&kept.draft).into_iter().find(|(step, _)| *step == wanted)?;
    Some(format!("/deploy/{}/{step}", kept.id))
}

/// The step behind one.
pub(super) fn next(kept: &Kept, step: &str) -> String {
    let all = steps_of(&kept.draft);
    let place = all.iter().position(|(known, _)| *known == step).unwrap_or_default();
    let next = all.get(place + 1).or(all.last()).map_or("review", |(step, _)| step);
    format!("/deploy/{}/{next}", kept.id)
}
