//! Step one: version and deployment profile.

use super::{Steps, next, section, steps};
use crate::app::deployments;
use crate::app::drafts::{self, Kind, StoredDraft};
use crate::app::shelf::{self, Detail};
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
    let kept = drafts::get(&visit.state, visit.caller(), &id).await?;
    let steps = steps(&visit.state, &kept, "version").await?;
    let create = kept.draft.kind == Kind::Create;
    let page = VersionPage {
        shell: visit.shell(section(&kept.draft), format!("Version - {}", steps.title)).await?,
        detail: shelf::detail(&visit.state, &kept.draft.application, Some(&kept.draft.version)).await?,
        profile: kept.draft.profile.clone().unwrap_or_default(),
        present: present(&visit, &kept).await?,
        reaches: if create { None } else { Some(reaches(&visit, &kept).await?) },
        create,
        steps,
    };
    visit.show(&page)
}

async fn present(visit: &Visit, kept: &StoredDraft) -> Result<Option<String>, UiError> {
    match kept.draft.single() {
        Some(only) => Ok(Some(deployments::get(&visit.state, only).await?.version)),
        None => Ok(None),
    }
}

/// What the rollout affects, before a version is selected.
async fn reaches(visit: &Visit, kept: &StoredDraft) -> Result<String, UiError> {
    let (draft, reach) = (&kept.draft, drafts::reach(&visit.state, &kept.draft).await?);
    let devices = words::count(reach, "device");
    Ok(if draft.is_wide() && draft.selector.is_some() {
        let verb = if reach == 1 { "runs" } else { "run" };
        format!("{devices} {verb} a version other than {}; select the devices in the next step.", draft.version)
    } else if let Some(only) = draft.single() {
        let deployment = deployments::get(&visit.state, only).await?;
        format!("This affects {}, which currently has version {}.", deployment.device, deployment.version)
    } else {
        format!("This affects {devices} that currently run it.")
    })
}

pub(in crate::ui) async fn keep(Path(id): Path<String>, posted: Posted) -> PageResult {
    let mut kept = drafts::get(posted.state(), posted.caller(), &id).await?;
    let version = posted.form.text("version").to_owned();
    if version != kept.draft.version {
        // The parameters may differ between versions.
        kept.draft.answered = false;
    }
    kept.draft.version = version;
    kept.draft.profile = posted.form.given("profile");
    // Rejects a version that does not exist.
    drafts::description(posted.state(), &kept.draft).await?;
    kept.revision = posted.form.number("revision").unwrap_or(kept.revision);
    drafts::put(posted.state(), posted.caller(), &kept).await?;
    Ok(go(&next(&kept, "version"), None))
}
