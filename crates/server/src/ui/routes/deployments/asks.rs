//! What is asked before something is done with a deployment: what happens to its data, and what its document becomes.

use crate::app::error::AppError;
use crate::app::{changes, drafts};
use crate::ui::ask::{Question, ask};
use crate::ui::routes::deploy::review::{Line, shorten};
use crate::ui::visit::{Answer, Section, Shell, Visit, pages};
use crate::ui::words;
use askama::Template;
use margrave_api::changes::DiffSign;
use margrave_api::deployments::{Convergence, Deployment};
use margrave_api::policies::{OnFailure, OnRemoval};

/// A question with more to it than sentences.
#[derive(Template)]
#[template(path = "deployments/ask.html", blocks = ["live", "nav"])]
struct AskPage {
    shell: Shell,
    question: Question,
    /// What its document becomes.
    lines: Vec<Line>,
    /// Its data can be had deleted as well, which the device has to be told first.
    may_purge: bool,
}
pages!(AskPage);

pub(super) async fn to_retry(visit: &Visit, name: &str, deployment: &Deployment) -> Answer {
    let question = Question {
        title: format!("Try {name} on {} again now?", deployment.device),
        text: vec![
            match deployment.policy.on_failure {
                OnFailure::KeepPartial => "The device tries again by itself with growing pauses. This tells it once more what to run, so that it tries at once and reports anew about everything it has.",
                OnFailure::Hold => "The device has stopped after the failure, as its failure policy says, and does nothing until something changes here. This gives it the same once more as a new revision, so that it tries again. What runs already is left alone.",
                OnFailure::Rollback => "The device went back to what ran before, as its failure policy says. This gives it the same once more as a new revision, so that it tries again; if it fails again, it goes back again.",
            }
            .to_owned(),
        ],
        devices: Some(1),
        action: format!("/deployments/{}", deployment.id),
        fields: vec![("action", "retry".to_owned())],
        button: "Try again now".to_owned(),
        danger: false,
        back: format!("/deployments/{}", deployment.id),
    };
    ask(visit, Section::Deployments, question).await
}

pub(super) async fn to_remove(visit: &Visit, name: &str, deployment: &Deployment) -> Answer {
    let knows = deployment.convergence == Convergence::Converged;
    let data = match deployment.policy.on_removal {
        OnRemoval::Keep => "Its data stays on the device.",
        OnRemoval::Purge if knows => "Its data on the device is deleted as well, as was chosen for it.",
        OnRemoval::Purge => {
            "Its data on the device is to be deleted as well, but the device has not reported yet that it has the revision that says so. Removed now, its data may stay; wait until it is up to date to be sure."
        }
    };
    let question = Question {
        title: format!("Remove {name} from {}?", deployment.device),
        text: vec![format!("The device stops it and takes it away as soon as it hears of it. {data}")],
        devices: Some(1),
        action: format!("/deployments/{}", deployment.id),
        fields: vec![("action", "remove".to_owned()), ("revision", deployment.revision.to_string())],
        button: "Remove from 1 device".to_owned(),
        danger: true,
        back: format!("/deployments/{}", deployment.id),
    };
    let shell = visit.shell(Section::Deployments, question.title.clone()).await?;
    let may_purge = deployment.policy.on_removal == OnRemoval::Keep;
    visit.show(&AskPage { shell, question, lines: Vec::new(), may_purge })
}

pub(super) async fn to_go_back(visit: &Visit, name: &str, deployment: &Deployment, revision: &str) -> Answer {
    let number = revision.parse().map_err(|_| AppError::not_found(format_args!("revision `{revision}`")))?;
    let request = drafts::back_to(&visit.state, &deployment.id, number).await?;
    let plan = changes::dry_run(&visit.state, request).await?;
    let diff = plan.targets.first().map(|target| target.diff.clone()).unwrap_or_default();
    let changed = diff.iter().filter(|line| line.sign != DiffSign::Same).count();
    let question = Question {
        title: format!("Go back to revision {revision} of {name} on {}?", deployment.device),
        text: vec![format!(
            "The device gets version {} with the answers of that revision, and with what it did then when something goes wrong, as a new revision. {} of its document.",
            plan.version,
            match changed {
                1 => "This changes 1 line".to_owned(),
                _ => format!("This changes {} lines", words::thousands(changed as u64)),
            }
        )],
        devices: Some(1),
        action: format!("/deployments/{}", deployment.id),
        fields: vec![("action", "back".to_owned()), ("to", revision.to_owned())],
        button: format!("Go back to revision {revision}"),
        danger: false,
        back: format!("/deployments/{}", deployment.id),
    };
    let shell = visit.shell(Section::Deployments, question.title.clone()).await?;
    visit.show(&AskPage { shell, question, lines: shorten(&diff), may_purge: false })
}
