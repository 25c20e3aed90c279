//! Confirmations for actions on a deployment: effect on its data, and the manifest diff.

use crate::app::error::AppError;
use crate::app::{drafts, rollouts};
use crate::ui::confirm::{Confirmation, confirm};
use crate::ui::routes::deploy::review::{Line, shorten};
use crate::ui::visit::{PageResult, Section, Shell, Visit, pages};
use crate::ui::words;
use askama::Template;
use margrave_api::deployments::Deployment;
use margrave_api::policies::{OnFailure, OnRemoval};
use margrave_api::rollouts::DiffSign;

/// A confirmation with a diff or a further choice.
#[derive(Template)]
#[template(path = "deployments/ask.html", blocks = ["live", "nav"])]
struct ConfirmPage {
    shell: Shell,
    confirmation: Confirmation,
    /// The manifest diff.
    lines: Vec<Line>,
    /// Offers to delete the data; the device must receive that policy before the removal.
    may_purge: bool,
}
pages!(ConfirmPage);

pub(super) async fn to_retry(visit: &Visit, name: &str, deployment: &Deployment) -> PageResult {
    let confirmation = Confirmation {
        title: format!("Retry {name} on {}?", deployment.device),
        text: vec![
            match deployment.policy.on_failure {
                OnFailure::KeepPartial => "The device retries automatically with back-off. This publishes its manifest again, so that it retries at once and reports all its deployments.",
                OnFailure::Stop => "The device stopped after the failure, as its failure policy says, and waits for a new revision. This publishes the same configuration as a new revision, so that it retries. Running components are not changed.",
                OnFailure::Rollback => "The device rolled back to the previous revision, as its failure policy says. This publishes the same configuration as a new revision, so that it retries; if it fails again, it rolls back again.",
            }
            .to_owned(),
        ],
        devices: Some(1),
        action: format!("/deployments/{}", deployment.id),
        fields: vec![("action", "retry".to_owned())],
        verb: "retry",
        button: "Retry".to_owned(),
        danger: false,
        back: format!("/deployments/{}", deployment.id),
    };
    confirm(visit, Section::Deployments, confirmation).await
}

pub(super) async fn to_remove(visit: &Visit, name: &str, deployment: &Deployment) -> PageResult {
    let knows = deployment.state.is_done();
    let data = match deployment.policy.on_removal {
        OnRemoval::Keep => "Its data is kept on the device.",
        OnRemoval::Purge if knows => "Its data on the device is deleted as well, as its removal policy says.",
        OnRemoval::Purge => {
            "Its removal policy deletes the data, but the device has not reported yet that it has the revision with this policy. If you remove it now, the data may be kept; wait until it is up to date to be sure."
        }
    };
    let confirmation = Confirmation {
        title: format!("Remove {name} from {}?", deployment.device),
        text: vec![format!("The device stops it and uninstalls it at the next check-in. {data}")],
        devices: Some(1),
        action: format!("/deployments/{}", deployment.id),
        fields: vec![("action", "remove".to_owned()), ("revision", deployment.revision.to_string())],
        verb: "remove",
        button: "Remove from 1 device".to_owned(),
        danger: true,
        back: format!("/deployments/{}", deployment.id),
    };
    let shell = visit.shell(Section::Deployments, confirmation.title.clone()).await?;
    let may_purge = deployment.policy.on_removal == OnRemoval::Keep;
    visit.show(&ConfirmPage { shell, confirmation, lines: Vec::new(), may_purge })
}

pub(super) async fn to_roll_back(visit: &Visit, name: &str, deployment: &Deployment, revision: &str) -> PageResult {
    let number = revision.parse().map_err(|_| AppError::not_found(format_args!("revision `{revision}`")))?;
    let request = drafts::back_to(&visit.state, &deployment.id, number).await?;
    let plan = rollouts::dry_run(&visit.state, request).await?;
    let diff = plan.targets.first().map(|target| target.diff.clone()).unwrap_or_default();
    let changed = diff.iter().filter(|line| line.sign != DiffSign::Same).count();
    let confirmation = Confirmation {
        title: format!("Roll back to revision {revision} of {name} on {}?", deployment.device),
        text: vec![format!(
            "The device gets version {} with the configuration and the policies of that revision, as a new revision. {} of its manifest.",
            plan.version,
            match changed {
                1 => "This changes 1 line".to_owned(),
                _ => format!("This changes {} lines", words::thousands(changed as u64)),
            }
        )],
        devices: Some(1),
        action: format!("/deployments/{}", deployment.id),
        fields: vec![("action", "back".to_owned()), ("to", revision.to_owned())],
        verb: "roll-back",
        button: format!("Roll back to revision {revision}"),
        danger: false,
        back: format!("/deployments/{}", deployment.id),
    };
    let shell = visit.shell(Section::Deployments, confirmation.title.clone()).await?;
    visit.show(&ConfirmPage { shell, confirmation, lines: shorten(&diff), may_purge: false })
}
