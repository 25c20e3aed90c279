//! The beginning of a draft, from an application or from a deployment; and its end without a deployment.

use super::{device_value, read_device, section, steps_of, title};
use crate::app::drafts::{self, CHOSEN_MAX, Draft, Kind};
use crate::app::error::{AppError, Code};
use crate::app::{applications, changes, deployments, fleet, groups, overview};
use crate::ui::form::Posted;
use crate::ui::routes::query::link;
use crate::ui::visit::{Answer, Shell, Visit, go, pages};
use askama::Template;
use axum::extract::Path;

/// Nothing of a draft is in the audit, so there is no reason to give.
#[derive(Template)]
#[template(path = "deploy/drop.html", blocks = ["live", "nav"])]
struct DropPage {
    shell: Shell,
    what: String,
    id: String,
    back: String,
}
pages!(DropPage);

pub(in crate::ui) async fn begin(posted: Posted) -> Answer {
    let form = &posted.form;
    let kind = match form.text("kind") {
        "upgrade" => Kind::Upgrade,
        "reconfigure" => Kind::Reconfigure,
        "remove" => Kind::Remove,
        _ => Kind::Create,
    };
    let mut draft = Draft::new(kind, form.text("application").to_owned(), form.text("version").to_owned());
    draft.deployments = form.all("deployment").map(str::to_owned).collect();
    let device = read_device(form.text("device"));
    if let Some(before) = form.given("like") {
        drafts::like(posted.state(), &mut draft, &before).await?;
    }
    if let Some(change) = form.given("change") {
        draft.deployments = changes::touched(posted.state(), &change, CHOSEN_MAX).await?;
    }
    draft.wide = kind != Kind::Create && (form.has("change") || draft.deployments.is_empty());
    if let Some(only) = draft.single() {
        let deployment = deployments::get(posted.state(), only).await?;
        draft.application = deployment.application;
        if draft.version.is_empty() {
            draft.version = if kind == Kind::Upgrade {
                other_version(&posted, &draft.application, &deployment.version).await?
            } else {
                deployment.version
            };
        }
    }
    if let Some(group) = form.given("group") {
        if draft.version.is_empty() {
            draft.version = other_version(&posted, &draft.application, "").await?;
        }
        draft.selector = Some(groups::selector(posted.state(), &group).await?.to_string());
    }
    if draft.is_wide() {
        // One change for all of them, however many they are, unless others are chosen.
        draft.selector = (!form.has("change")).then(String::new);
        if drafts::reach(posted.state(), &draft).await? == 0 {
            let detail = match kind {
                Kind::Upgrade => "every deployment of it is on this version already",
                _ => "it runs on no device",
            };
            return Err(AppError::refused(Code::Unchanged, detail).into());
        }
    }
    let mut refused = None;
    if let Some(device) = device {
        // A device that cannot take it is never chosen for somebody (CON-02); the next page says why it is not.
        if fleet::candidate(posted.state(), &draft.wanted(), &device).await?.can_take(&draft.wanted()) {
            draft.devices.push(device);
        } else {
            refused = Some(device);
        }
    }
    let id = drafts::create(posted.state(), posted.caller(), &draft).await?;
    if let (Some(device), Kind::Create) = (&refused, kind) {
        let value = device_value(device);
        return Ok(go(&link(&format!("/deploy/{id}/devices"), &[("for", &value)]), None));
    }
    let first = steps_of(&draft).first().map_or("review", |(step, _)| step);
    // With the version chosen already, the devices are next.
    let first =
        if kind == Kind::Create && form.has("version") && !draft.devices.is_empty() { "devices" } else { first };
    Ok(go(&format!("/deploy/{id}/{first}"), None))
}

/// A change of version for one deployment, begun from elsewhere.
pub(super) async fn moving(posted: &Posted, deployment: &str, like: &Draft) -> Result<String, AppError> {
    let mut draft = Draft::new(Kind::Upgrade, like.application.clone(), like.version.clone());
    draft.deployments.push(deployment.to_owned());
    let id = drafts::create(posted.state(), posted.caller(), &draft).await?;
    Ok(format!("/deploy/{id}/version"))
}

/// The newest version that is not the present one.
async fn other_version(posted: &Posted, application: &str, present: &str) -> Result<String, AppError> {
    let versions = applications::versions(posted.state(), application).await?;
    let other = versions.into_iter().find(|version| version.version != present);
    other
        .map(|version| version.version)
        .ok_or_else(|| AppError::refused(Code::NotFound, "the catalog has no other version of it; add one first"))
}

/// What was answered is gone afterwards, so somebody is asked first.
pub(in crate::ui) async fn ask_to_abandon(visit: Visit, Path(id): Path<String>) -> Answer {
    let kept = drafts::get(&visit.state, visit.caller(), &id).await?;
    let names = &overview::get(&visit.state).await?.names;
    let what = title(&kept.draft, names);
    let shell = visit.shell(section(&kept.draft), format!("Drop the draft? {what}")).await?;
    let back = format!("/deploy/{id}/{}", kept.draft.step());
    visit.show(&DropPage { shell, what, id, back })
}

/// Nothing of it is kept.
pub(in crate::ui) async fn abandon(Path(id): Path<String>, posted: Posted) -> Answer {
    let kept = drafts::get(posted.state(), posted.caller(), &id).await?;
    drafts::drop(posted.state(), posted.caller(), kept.id).await?;
    Ok(go(&format!("/catalog/{}", kept.draft.application), Some("The draft was dropped. Nothing was deployed.")))
}
