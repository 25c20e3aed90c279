//! The beginning of a draft, from an application or from a deployment; and its end without a deployment.

use super::devices::wanted;
use super::{device_value, read_device, steps_of};
use crate::app::drafts::{self, Draft, Kind};
use crate::app::error::{AppError, Code};
use crate::app::{applications, deployments, fleet};
use crate::ui::form::Posted;
use crate::ui::routes::query::link;
use crate::ui::visit::{Answer, go};
use axum::extract::Path;
use indexmap::IndexMap;
use margrave_api::policies::PolicyWish;

pub(in crate::ui) async fn begin(posted: Posted) -> Answer {
    let form = &posted.form;
    let kind = match form.text("kind") {
        "upgrade" => Kind::Upgrade,
        "reconfigure" => Kind::Reconfigure,
        _ => Kind::Create,
    };
    let mut draft = Draft {
        kind,
        application: form.text("application").to_owned(),
        version: form.text("version").to_owned(),
        profile: None,
        devices: Vec::new(),
        selector: None,
        deployments: form.all("deployment").map(str::to_owned).collect(),
        answers: IndexMap::new(),
        overrides: IndexMap::new(),
        policy: PolicyWish::default(),
        answered: false,
    };
    let device = read_device(form.text("device"));
    if let Some(before) = form.given("like") {
        drafts::like(posted.state(), &mut draft, &before).await?;
    }
    if let [only] = draft.deployments.as_slice() {
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
    if draft.is_for_all() {
        // One change for all of them, however many they are.
        draft.selector = Some(String::new());
        if drafts::reach(posted.state(), &draft).await? == 0 {
            let detail = "every deployment of it is on this version already";
            return Err(AppError::refused(Code::Unchanged, detail).into());
        }
    }
    let mut refused = None;
    if let Some(device) = device {
        // A device that cannot take it is never chosen for somebody (CON-02); the next page says why it is not.
        if fleet::candidate(posted.state(), &wanted(&draft), &device).await?.can_take(&wanted(&draft)) {
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

/// The newest version that is not the present one.
async fn other_version(posted: &Posted, application: &str, present: &str) -> Result<String, AppError> {
    let versions = applications::versions(posted.state(), application).await?;
    let other = versions.into_iter().find(|version| version.version != present);
    other
        .map(|version| version.version)
        .ok_or_else(|| AppError::refused(Code::NotFound, "the catalog has no other version of it; add one first"))
}

/// Nothing of it is kept.
pub(in crate::ui) async fn abandon(Path(id): Path<String>, posted: Posted) -> Answer {
    let kept = drafts::get(posted.state(), posted.caller(), &id).await?;
    drafts::drop(posted.state(), posted.caller(), kept.id).await?;
    Ok(go(&format!("/catalog/{}", kept.draft.application), Some("The draft was dropped. Nothing was deployed.")))
}
