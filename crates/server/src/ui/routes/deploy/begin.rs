//! Creates a draft from an application or a deployment, and discards drafts.

use super::{device_value, read_device, section, steps_of, title};
use crate::app::drafts::{self, Draft, Kind, SELECTED_MAX};
use crate::app::error::{AppError, Code};
use crate::app::{applications, deployments, fleet, groups, overview, rollouts};
use crate::ui::form::Posted;
use crate::ui::routes::query::{Params, link};
use crate::ui::visit::{PageResult, Shell, Visit, go, pages};
use askama::Template;
use axum::extract::Path;

/// Drafts are not in the audit log, so there is no comment field.
#[derive(Template)]
#[template(path = "deploy/discard.html", blocks = ["live", "nav"])]
struct DiscardPage {
    shell: Shell,
    what: String,
    id: String,
    back: String,
    /// Where to go after it is discarded, if it was asked on a list of drafts.
    to: String,
}
pages!(DiscardPage);

pub(in crate::ui) async fn begin(posted: Posted) -> PageResult {
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
    if let Some(rollout) = form.given("rollout") {
        draft.deployments = rollouts::touched(posted.state(), &rollout, SELECTED_MAX).await?;
    }
    draft.by_device = kind != Kind::Create && (form.has("rollout") || draft.deployments.is_empty());
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
    if kind == Kind::Create && form.has("all") {
        // Every compatible device.
        draft.selector = Some(String::new());
    }
    if draft.is_by_device() {
        // One rollout for all of them, unless the operator selects individual devices.
        draft.selector = (!form.has("rollout")).then(String::new);
        if drafts::target_count(posted.state(), &draft).await? == 0 {
            let detail = match kind {
                Kind::Upgrade => "all deployments already have this version",
                _ => "no device runs it",
            };
            return Err(AppError::refused(Code::Unchanged, detail).into());
        }
    }
    let mut refused = None;
    if let Some(device) = device {
        // Never preselect an incompatible device (CON-02); the next page says why.
        if fleet::candidate(posted.state(), &draft.eligibility_query(), &device)
            .await?
            .can_take(&draft.eligibility_query())
        {
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
    // Version and devices are already selected: continue with the devices.
    let chosen = !draft.devices.is_empty() || draft.selector.is_some();
    let first = if form.given("version").is_some() && first == "version" && chosen { "devices" } else { first };
    Ok(go(&format!("/deploy/{id}/{first}"), None))
}

/// Creates an upgrade draft for one deployment from another draft.
pub(super) async fn moving(posted: &Posted, deployment: &str, like: &Draft) -> Result<String, AppError> {
    let mut draft = Draft::new(Kind::Upgrade, like.application.clone(), like.version.clone());
    draft.deployments.push(deployment.to_owned());
    let id = drafts::create(posted.state(), posted.caller(), &draft).await?;
    Ok(format!("/deploy/{id}/version"))
}

/// The newest version other than the current one.
async fn other_version(posted: &Posted, application: &str, present: &str) -> Result<String, AppError> {
    let versions = applications::versions(posted.state(), application).await?;
    let other = versions.into_iter().find(|version| version.version != present);
    other.map(|version| version.version).ok_or_else(|| {
        AppError::refused(Code::NotFound, "the catalog has no other version of this application; add one first")
    })
}

/// Asks for confirmation, because the draft cannot be restored.
pub(in crate::ui) async fn confirm_discard(visit: Visit, params: Params, Path(id): Path<String>) -> PageResult {
    let stored = drafts::get(&visit.state, visit.caller(), &id).await?;
    let names = &overview::get(&visit.state).await?.names;
    let what = title(&stored.draft, names);
    let shell = visit.shell(section(&stored.draft), format!("Discard the draft? {what}")).await?;
    let to = params.text("to");
    let back = if is_list(&to) { to.clone() } else { format!("/deploy/{id}/{}", stored.draft.step()) };
    visit.show(&DiscardPage { shell, what, id, back, to })
}

/// A page that lists drafts.
fn is_list(to: &str) -> bool {
    matches!(to, "/" | "/catalog")
}

/// Discards the draft.
pub(in crate::ui) async fn abandon(Path(id): Path<String>, posted: Posted) -> PageResult {
    let stored = drafts::get(posted.state(), posted.caller(), &id).await?;
    drafts::drop(posted.state(), posted.caller(), stored.id).await?;
    let to = posted.form.text("to");
    let to = if is_list(to) { to.to_owned() } else { format!("/catalog/{}", stored.draft.application) };
    Ok(go(&to, Some(("draft-discarded", "Draft discarded. Nothing was deployed."))))
}
