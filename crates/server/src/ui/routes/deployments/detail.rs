//! One deployment: how it does and why, what it consists of, what it was before, and what can be done about it.

use super::list::{Row, row};
use crate::app::changes;
use crate::app::deployments;
use crate::app::diff::{self, DiffQuery};
use crate::app::error::{AppError, Code};
use crate::app::{applications, drafts, explain, overview, policies};
use crate::ui::ask::{Question, ask};
use crate::ui::chart;
use crate::ui::form::Posted;
use crate::ui::markup::Markup;
use crate::ui::routes::devices::said;
use crate::ui::routes::query::Asked;
use crate::ui::routes::why::{Part, why};
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use margrave_api::changes::{ChangeKind, DiffSign};
use margrave_api::deployments::{Convergence, Desired, Revision, StatusError};
use margrave_api::policies::{OnFailure, OnRemoval};
use std::collections::HashMap;

#[derive(Template)]
#[template(path = "deployments/detail.html", blocks = ["live", "nav"])]
struct DetailPage {
    shell: Shell,
    row: Row,
    tone: &'static str,
    present: bool,
    /// Why nothing is compared, where that is not plain to see.
    no_difference: Option<&'static str>,
    /// Where it can be deployed once more.
    /// The device, as forms name it.
    place: String,
    summary: String,
    why: Vec<Part>,
    troubles: Vec<Trouble>,
    history: Markup,
    values: Vec<(String, String)>,
    revisions: Vec<Shown>,
    document: String,
    /// How the device differs from what is wanted.
    differs: Vec<(&'static str, String)>,
    other_versions: bool,
    failed: bool,
    /// What the device does by itself.
    policies: [(&'static str, &'static str); 3],
    /// What the device does about a failure.
    after_failure: &'static str,
}
pages!(DetailPage);

/// A revision, and what it changed.
struct Shown {
    revision: Revision,
    what: &'static str,
    /// In the words of the questions, beside what was before.
    changed: Vec<(String, String, String)>,
    present: bool,
}

/// Something a device says went wrong.
struct Trouble {
    component: Option<String>,
    error: StatusError,
    next: Option<&'static str>,
}

pub(in crate::ui) async fn show(visit: Visit, asked: Asked, Path(id): Path<String>) -> Answer {
    let state = &visit.state;
    let deployment = deployments::get(state, &id).await?;
    let overview = overview::get(state).await?;
    let name = overview.names.get(&deployment.application).unwrap_or(&deployment.application).clone();
    match asked.get("ask").as_deref() {
        Some("retry") => return ask_to_retry(&visit, &name, &deployment).await,
        Some("remove") => return ask_to_remove(&visit, &name, &deployment).await,
        Some("back") => {
            let revision = asked.text("revision");
            return ask_to_go_back(&visit, &name, &deployment, &revision).await;
        }
        _ => {}
    }
    let revisions = deployments::revisions(state, &id).await?.items;
    let history = deployments::status_history(state, &id).await?.items;
    let removing = deployment.desired == Desired::Absent;
    // Told again after a failure: the device has the present revision, and only its word is awaited.
    let adopted = deployment.status.as_ref().map(|status| status.adopted_version).unwrap_or_default();
    let present = revisions.iter().find(|revision| revision.revision == deployment.revision);
    let again = adopted > 0 && present.is_some_and(|revision| revision.manifest_version <= adopted);
    let look = words::of_deployment(&deployment, again);
    // A device that never had it differs in everything, and so does one that is to be rid of it: a sentence says as much.
    let differs = if deployment.convergence == Convergence::Converged || removing || adopted == 0 {
        Vec::new()
    } else {
        let found = diff::deployment(state, &id, &DiffQuery { from: Some("reported".to_owned()), to: None }).await?;
        let lines = found.lines.into_iter().filter(|line| line.sign != DiffSign::Same);
        lines
            .map(|line| {
                if line.sign == DiffSign::Added {
                    ("added", format!("+ {}", line.text))
                } else {
                    ("removed", format!("- {}", line.text))
                }
            })
            .collect()
    };
    let versions =
        applications::versions(state, &deployment.application).await.map(|found| found.len()).unwrap_or_default();
    let shell = visit.shell(Section::Deployments, format!("{} - {name} on {}", look.word, deployment.device)).await?;
    let explanation = explain::deployment(state, &id).await?;
    let names = drafts::names(state, &deployment.application, &deployment.version).await;
    let place = format!("{}/{}", deployment.client, deployment.device.trim_end_matches("/*"));
    let mut shown_row = row(deployment.clone(), &overview.names);
    let tone = look.tone;
    shown_row.state = look.into();
    let page = DetailPage {
        why: why(&explanation, true),
        summary: explanation.summary,
        tone,
        present: !removing,
        no_difference: (!removing && adopted == 0)
            .then_some("The device has not said that it has any of this yet, so there is nothing to compare."),
        place,
        troubles: troubles(&deployment),
        history: chart::history(&history, shell.now),
        values: deployment
            .values
            .iter()
            .map(|(parameter, value)| (names.get(parameter).unwrap_or(parameter).clone(), said(value)))
            .collect(),
        revisions: revisions_shown(&revisions, deployment.revision, &names),
        document: String::from_utf8_lossy(&deployments::document(state, &id, None).await.unwrap_or_default())
            .into_owned(),
        differs,
        other_versions: versions > 1,
        failed: deployment.convergence == Convergence::Failed,
        policies: policies::shown(deployment.policy.into()),
        after_failure: match deployment.policy.on_failure {
            OnFailure::KeepPartial => "The device tries again by itself.",
            OnFailure::Hold => "The device has stopped, as its failure policy says. Try again when the cause is gone.",
            OnFailure::Rollback => "The device goes back to what ran before, as its failure policy says.",
        },
        row: shown_row,
        shell,
    };
    visit.show(&page)
}

/// Newest first, each beside the one before it.
fn revisions_shown(revisions: &[Revision], present: i64, names: &HashMap<String, String>) -> Vec<Shown> {
    let before = |index: usize| revisions.get(index + 1);
    let said = |(index, revision): (usize, &Revision)| Shown {
        what: match revision.action {
            ChangeKind::Create => "deployed",
            ChangeKind::Reconfigure => "reconfigured",
            ChangeKind::Upgrade => "changed to another version",
            ChangeKind::Remove => "removed",
        },
        changed: before(index).map(|before| changed(before, revision, names)).unwrap_or_default(),
        present: revision.revision == present,
        revision: revision.clone(),
    };
    revisions.iter().enumerate().map(said).collect()
}

fn changed(before: &Revision, after: &Revision, names: &HashMap<String, String>) -> Vec<(String, String, String)> {
    let differs = after.values.iter().filter(|(name, value)| before.values.get(*name) != Some(value));
    differs
        .filter_map(|(name, value)| {
            let old = before.values.get(name).map_or_else(|| "not set".to_owned(), said);
            // What nobody is asked for follows the version.
            Some((names.get(name)?.clone(), old, said(value)))
        })
        .collect()
}

fn troubles(deployment: &margrave_api::deployments::Deployment) -> Vec<Trouble> {
    let Some(status) = &deployment.status else { return Vec::new() };
    let of_components = status.components.iter().filter_map(|component| {
        let error = component.error.clone()?;
        Some((Some(component.name.clone()), error))
    });
    // What a component says is said again about the whole; once is enough.
    let known: Vec<&str> = status
        .components
        .iter()
        .filter_map(|component| component.error.as_ref())
        .map(|error| error.code.as_str())
        .collect();
    let own = status.error.clone().filter(|error| !known.contains(&error.code.as_str())).map(|error| (None, error));
    let all = of_components.chain(own).filter(|(_, error)| !error.code.is_empty() || !error.message.is_empty());
    all.map(|(component, error)| Trouble { next: explain::next_action(&error.code), component, error }).collect()
}

async fn ask_to_retry(visit: &Visit, name: &str, deployment: &margrave_api::deployments::Deployment) -> Answer {
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

async fn ask_to_remove(visit: &Visit, name: &str, deployment: &margrave_api::deployments::Deployment) -> Answer {
    let data = match deployment.policy.on_removal {
        OnRemoval::Keep => "Its data stays on the device; to delete it as well, reconfigure it before.",
        OnRemoval::Purge => "Its data on the device is deleted as well, as was chosen for it.",
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
    ask(visit, Section::Deployments, question).await
}

async fn ask_to_go_back(
    visit: &Visit,
    name: &str,
    deployment: &margrave_api::deployments::Deployment,
    revision: &str,
) -> Answer {
    let number = revision.parse().map_err(|_| AppError::not_found(format_args!("revision `{revision}`")))?;
    let request = drafts::back_to(&visit.state, &deployment.id, number).await?;
    let plan = changes::dry_run(&visit.state, request).await?;
    let lines = plan.targets.first().map(|target| target.diff.clone()).unwrap_or_default();
    let changed = lines.iter().filter(|line| line.sign != DiffSign::Same).count();
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
    ask(visit, Section::Deployments, question).await
}

pub(in crate::ui) async fn act(Path(id): Path<String>, posted: Posted) -> Answer {
    let state = posted.state();
    if posted.form.text("action") == "retry" {
        deployments::retry(state, posted.caller(), &id, posted.reason()).await?;
        return Ok(go(&format!("/deployments/{id}"), Some("The device is told to try again.")));
    }
    let request = match posted.form.text("action") {
        "remove" => changes::remove_request(state, &id, posted.form.number("revision")).await,
        "back" => drafts::back_to(state, &id, posted.form.number("to").unwrap_or_default()).await,
        _ => Err(AppError::refused(Code::Invalid, "say what should be done with the deployment")),
    };
    // A form sent again may find that what it wanted is so already; then the record of repeats tells.
    let change =
        posted.once(async { changes::submit(state, posted.caller(), request?, posted.reason()).await }).await?;
    Ok(go(&format!("/changes/{}", change.id), None))
}
