//! One deployment: how it does and why, what it consists of, what it was before, and what can be done about it.

use super::asks;
use super::list::{Row, row};
use crate::app::changes;
use crate::app::deployments;
use crate::app::diff::{self, DiffQuery};
use crate::app::error::{AppError, Code};
use crate::app::policies::Rule;
use crate::app::{applications, drafts, explain, overview, policies, shown};
use crate::ui::chart;
use crate::ui::form::Posted;
use crate::ui::markup::Markup;
use crate::ui::routes::query::Asked;
use crate::ui::routes::why::{Part, why};
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use margrave_api::changes::{ChangeKind, DiffSign};
use margrave_api::deployments::{Convergence, Desired, Revision, StatusError, UpdateDeployment};
use margrave_api::policies::{OnRemoval, PolicyWish};
use std::collections::HashMap;

#[derive(Template)]
#[template(path = "deployments/detail.html", blocks = ["live", "nav"])]
#[expect(clippy::struct_excessive_bools, reason = "independent facts a template asks for")]
struct DetailPage {
    shell: Shell,
    row: Row,
    tone: &'static str,
    present: bool,
    /// Why nothing is compared, where that is not plain to see.
    no_difference: Option<&'static str>,
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
    /// The device is at it, or will be.
    goes_on: bool,
    /// What the device does by itself.
    policies: [Rule; 3],
    policies_hint: Option<&'static str>,
    /// What the device does about a failure.
    after_failure: Option<Markup>,
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
        Some("retry") => return asks::to_retry(&visit, &name, &deployment).await,
        Some("remove") => return asks::to_remove(&visit, &name, &deployment).await,
        Some("back") => return asks::to_go_back(&visit, &name, &deployment, &asked.text("revision")).await,
        _ => {}
    }
    let revisions = deployments::revisions(state, &id).await?.items;
    let history = deployments::status_history(state, &id).await?.items;
    let removing = deployment.desired == Desired::Absent;
    let adopted = deployment.status.as_ref().map(|status| status.adopted_version).unwrap_or_default();
    let look = words::of_deployment(&deployment);
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
    let after_failure = explanation.waiting_for.iter().find_map(|fact| fact.values.get("nextTry")?.as_str());
    let after_failure = after_failure.map(|text| format!("{}.", words::capital(text)));
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
            .map(|(parameter, value)| (names.get(parameter).unwrap_or(parameter).clone(), shown::answer(value)))
            .collect(),
        revisions: revisions_shown(&revisions, deployment.revision, &names),
        document: String::from_utf8_lossy(&deployments::document(state, &id, None).await.unwrap_or_default())
            .into_owned(),
        differs,
        other_versions: versions > 1,
        failed: deployment.convergence == Convergence::Failed,
        goes_on: deployment.failed_with.is_some()
            || !matches!(deployment.convergence, Convergence::Converged | Convergence::Failed),
        policies: policies::shown(deployment.policy.into()).map(Rule::from),
        policies_hint: (!removing).then_some("The device does it by itself. Reconfigure it to choose otherwise."),
        after_failure: after_failure.map(|text| shell.sentence(&text)),
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
            let old = before.values.get(name).map_or_else(|| "not set".to_owned(), shown::answer);
            // What nobody is asked for follows the version.
            Some((names.get(name)?.clone(), old, shown::answer(value)))
        })
        .collect()
}

fn troubles(deployment: &margrave_api::deployments::Deployment) -> Vec<Trouble> {
    let Some(status) = deployment.said_wrong() else { return Vec::new() };
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

pub(in crate::ui) async fn act(Path(id): Path<String>, posted: Posted) -> Answer {
    let state = posted.state();
    if posted.form.text("action") == "retry" {
        deployments::retry(state, posted.caller(), &id, posted.reason()).await?;
        return Ok(go(&format!("/deployments/{id}"), Some("The device is told to try again.")));
    }
    let request = match posted.form.text("action") {
        // Only what a device was told while it had the deployment holds when that goes: so this comes before the removal.
        "remove" if posted.form.text("instead") == "purge" => {
            let policy = PolicyWish { on_removal: Some(OnRemoval::Purge), ..PolicyWish::default() };
            let body = UpdateDeployment { policy, ..UpdateDeployment::default() };
            changes::update_request(state, &id, body, posted.form.number("revision")).await.map(|(request, _)| request)
        }
        "remove" => changes::remove_request(state, &id, posted.form.number("revision")).await,
        "back" => drafts::back_to(state, &id, posted.form.number("to").unwrap_or_default()).await,
        _ => Err(AppError::refused(Code::Invalid, "say what should be done with the deployment")),
    };
    // A form sent again may find that what it wanted is so already; then the record of repeats tells.
    let change =
        posted.once(async { changes::submit(state, posted.caller(), request?, posted.reason()).await }).await?;
    Ok(go(&format!("/changes/{}", change.id), None))
}
