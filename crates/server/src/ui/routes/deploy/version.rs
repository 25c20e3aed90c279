//! Step one: version and deployment profile.

use super::{Steps, next, section, steps};
use crate::app::catalog_view::{self, Detail};
use crate::app::deployments;
use crate::app::drafts::{self, Kind, StoredDraft};
use crate::ui::errors::UiError;
use crate::ui::form::Posted;
use crate::ui::visit::{PageResult, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;

#[derive(Template)]
#[template(path = "deploy/version.html", blocks = ["live", "nav"])]
struct VersionPage {
    shell: Shell,
    steps: Steps,
    detail: Detail,
    profile: String,
    create: bool,
    reaches: Option<String>,
    /// The current version of a single deployment.
    present: Option<String>,
}
pages!(VersionPage);

pub(in crate::ui) async fn show(visit: Visit, Path(id): Path<String>) -> PageResult {
    let stored = drafts::get(&visit.state, visit.caller(), &id).await?;
    let steps = steps(&visit.state, &stored, "version").await?;
    let create = stored.draft.kind == Kind::Create;
    let page = VersionPage {
        shell: visit.shell(section(&stored.draft), format!("Version - {}", steps.title)).await?,
        detail: catalog_view::detail(&visit.state, &stored.draft.application, Some(&stored.draft.version)).await?,
        profile: stored.draft.profile.clone().unwrap_or_default(),
        present: present(&visit, &stored).await?,
        reaches: if create { None } else { Some(reaches(&visit, &stored).await?) },
        create,
        steps,
    };
    visit.show(&page)
}

async fn present(visit: &Visit, stored: &StoredDraft) -> Result<Option<String>, UiError> {
    match stored.draft.single() {
        Some(only) => Ok(Some(deployments::get(&visit.state, only).await?.version)),
        None => Ok(None),
    }
}

/// What the rollout affects, before a version is selected.
async fn reaches(visit: &Visit, stored: &StoredDraft) -> Result<String, UiError> {
    let (draft, target_count) = (&stored.draft, drafts::target_count(&visit.state, &stored.draft).await?);
    let devices = words::count(target_count, "device");
    Ok(if draft.is_by_device() && draft.selector.is_some() {
        let verb = if target_count == 1 { "runs" } else { "run" };
        format!("{devices} {verb} a version other than {}; select the devices in the next step.", draft.version)
    } else if let Some(only) = draft.single() {
        let deployment = deployments::get(&visit.state, only).await?;
        format!("This affects {}, which currently has version {}.", deployment.device, deployment.version)
    } else {
        format!("This affects {devices} that currently run it.")
    })
}

pub(in crate::ui) async fn keep(Path(id): Path<String>, posted: Posted) -> PageResult {
    let mut stored = drafts::get(posted.state(), posted.caller(), &id).await?;
    let version = posted.form.text("version").to_owned();
    if version != stored.draft.version {
        // The parameters may differ between versions.
        stored.draft.configured = false;
    }
    stored.draft.version = version;
    stored.draft.profile = posted.form.given("profile");
    // Rejects a version that does not exist.
    drafts::description(posted.state(), &stored.draft).await?;
    stored.revision = posted.form.number("revision").unwrap_or(stored.revision);
    drafts::put(posted.state(), posted.caller(), &stored).await?;
    Ok(go(&next(&stored, "version"), None))
}
