//! One deployment: state and explanation, components, revisions and actions.

use super::asks;
use super::list::{Row, row};
use crate::app::deployments;
use crate::app::diff::{self, DiffQuery};
use crate::app::error::{AppError, Code};
use crate::app::policies::Rule;
use crate::app::rollouts;
use crate::app::{applications, drafts, explain, overview, policies, value_format, versions};
use crate::ui::chart;
use crate::ui::form::Posted;
use crate::ui::markup::Markup;
use crate::ui::routes::query::Params;
use crate::ui::routes::why::{Part, why};
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use margrave_api::deployments::{DeploymentState, Desired, Revision, StatusError, UpdateDeployment};
use margrave_api::policies::{OnRemoval, PolicyPatch};
use margrave_api::rollouts::{DiffSign, RolloutKind};
use std::collections::{BTreeSet, HashMap};

#[derive(Template)]
#[template(path = "deployments/detail.html", blocks = ["live", "nav"])]
#[expect(clippy::struct_excessive_bools, reason = "independent facts a template asks for")]
struct DetailPage {
    shell: Shell,
    row: Row,
    tone: &'static str,
    present: bool,
    /// Why there is no diff, if that is not obvious.
    no_difference: Option<&'static str>,
    /// The device as written in forms.
    place: String,
    summary: String,
    why: Vec<Part>,
    troubles: Vec<ReportedError>,
    history: Markup,
    values: Vec<(String, String)>,
    revisions: Vec<RevisionRow>,
    document: String,
    /// Differences between desired and reported state.
    differs: Vec<(&'static str, String)>,
    other_versions: bool,
    failed: bool,
    /// The device is updating, or will be.
    goes_on: bool,
    /// Deployment policies.
    policies: [Rule; 3],
    policies_hint: Option<&'static str>,
    /// What the device does after a failure.
    after_failure: Option<Markup>,
}
pages!(DetailPage);

/// A revision, and what it changed.
struct RevisionRow {
    revision: Revision,
    what: String,
    /// Name of the parameter, previous value, new value.
    changed: Vec<(String, String, String)>,
    present: bool,
}

/// An error reported by a device.
struct ReportedError {
    component: Option<String>,
    error: StatusError,
    next: Option<&'static str>,
}

pub(in crate::ui) async fn show(visit: Visit, params: Params, Path(id): Path<String>) -> PageResult {
    let state = &visit.state;
    let deployment = deployments::get(state, &id).await?;
    let overview = overview::get(state).await?;
    let name = overview.names.get(&deployment.application).unwrap_or(&deployment.application).clone();
    match params.get("ask").as_deref() {
        Some("retry") => return asks::to_retry(&visit, &name, &deployment).await,
        Some("remove") => return asks::to_remove(&visit, &name, &deployment).await,
        Some("back") => return asks::to_roll_back(&visit, &name, &deployment, &params.text("revision")).await,
        _ => {}
    }
    let revisions = deployments::revisions(state, &id).await?.items;
    let history = deployments::status_history(state, &id).await?.items;
    let removing = deployment.desired == Desired::Absent;
    let adopted = deployment.reported.as_ref().map(|status| status.adopted_version).unwrap_or_default();
    let style = words::deployment_state_badge(deployment.state);
    // Before the first report and during a removal everything differs: a sentence replaces the diff.
    let differs = if deployment.state.is_done() || removing || adopted == 0 {
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
    let shell = visit.shell(Section::Deployments, format!("{} - {name} on {}", style.word, deployment.device)).await?;
    let explanation = explain::deployment(state, &id).await?;
    let names = drafts::names(state, &deployment.application, &deployment.version).await;
    // A rollback drops the parameters that only the newer version has; they have names too.
    let versions_before: BTreeSet<&str> = revisions.iter().map(|revision| revision.version.as_str()).collect();
    let mut all_names = HashMap::new();
    for version in versions_before {
        all_names.extend(drafts::names(state, &deployment.application, version).await);
    }
    all_names.extend(names.clone());
    let place = format!("{}/{}", deployment.client, deployment.device.trim_end_matches("/*"));
    let mut shown_row = row(deployment.clone(), &overview.names);
    let tone = style.tone;
    shown_row.state = style.into();
    let after_failure = explanation.waiting_for.iter().find_map(|fact| fact.values.get("nextTry")?.as_str());
    let after_failure = after_failure.map(|text| format!("{}.", words::capital(text)));
    let page = DetailPage {
        why: why(&explanation, true),
        summary: explanation.summary,
        tone,
        present: !removing,
        no_difference: (!removing && adopted == 0)
            .then_some("The device has not reported this deployment yet, so there is nothing to compare."),
        place,
        troubles: troubles(&deployment),
        history: chart::history(&history, shell.now),
        values: deployment
            .values
            .iter()
            .map(|(parameter, value)| (names.get(parameter).unwrap_or(parameter).clone(), value_format::answer(value)))
            .collect(),
        revisions: revisions_shown(&revisions, deployment.revision, &all_names),
        document: String::from_utf8_lossy(&deployments::document(state, &id, None).await.unwrap_or_default())
            .into_owned(),
        differs,
        other_versions: versions > 1,
        failed: deployment.state == DeploymentState::Failed,
        goes_on: deployment.failed_with.is_some() || !deployment.state.is_settled(),
        policies: policies::shown(deployment.policy.into()).map(Rule::from),
        policies_hint: (!removing)
            .then_some("The device applies these policies automatically. Reconfigure the deployment to change them."),
        after_failure: after_failure.map(|text| shell.sentence(&text)),
        row: shown_row,
        shell,
    };
    visit.show(&page)
}

/// Newest first, each compared with the previous revision.
fn revisions_shown(revisions: &[Revision], present: i64, names: &HashMap<String, String>) -> Vec<RevisionRow> {
    let before = |index: usize| revisions.get(index + 1);
    let revision_row = |(index, revision): (usize, &Revision)| RevisionRow {
        what: match (revision.action, revision.rollback_to) {
            (_, Some(earlier)) => format!("rolled back to revision {earlier}, version"),
            (kind, None) => match kind {
                RolloutKind::Create => "deployed",
                RolloutKind::Reconfigure => "reconfigured",
                RolloutKind::Upgrade
                    if before(index).is_some_and(|before| versions::is_older(&revision.version, &before.version)) =>
                {
                    "downgraded to"
                }
                RolloutKind::Upgrade => "upgraded to",
                RolloutKind::Remove => "removed",
            }
            .to_owned(),
        },
        changed: before(index).map(|before| changed(before, revision, names)).unwrap_or_default(),
        present: revision.revision == present,
        revision: revision.clone(),
    };
    revisions.iter().enumerate().map(revision_row).collect()
}

fn changed(before: &Revision, after: &Revision, names: &HashMap<String, String>) -> Vec<(String, String, String)> {
    let value =
        |of: &Revision, name: &str| of.values.get(name).map_or_else(|| "not set".to_owned(), value_format::answer);
    let unset = before.values.keys().filter(|name| !after.values.contains_key(*name));
    let differs = after.values.keys().chain(unset).filter(|name| before.values.get(*name) != after.values.get(*name));
    // Values without a parameter name follow the version.
    differs.filter_map(|name| Some((names.get(name)?.clone(), value(before, name), value(after, name)))).collect()
}

fn troubles(deployment: &margrave_api::deployments::Deployment) -> Vec<ReportedError> {
    let Some(status) = deployment.said_wrong() else { return Vec::new() };
    let of_components = status.components.iter().filter_map(|component| {
        let error = component.error.clone()?;
        Some((Some(component.name.clone()), error))
    });
    // The deployment repeats the errors of its components; show each once.
    let known: Vec<&str> = status
        .components
        .iter()
        .filter_map(|component| component.error.as_ref())
        .map(|error| error.code.as_str())
        .collect();
    let own = status.error.clone().filter(|error| !known.contains(&error.code.as_str())).map(|error| (None, error));
    let all = of_components.chain(own).filter(|(_, error)| !error.code.is_empty() || !error.message.is_empty());
    all.map(|(component, error)| ReportedError { next: explain::next_action(&error.code), component, error }).collect()
}

pub(in crate::ui) async fn act(Path(id): Path<String>, posted: Posted) -> PageResult {
    let state = posted.state();
    if posted.form.text("action") == "retry" {
        deployments::retry(state, posted.caller(), &id, posted.comment()).await?;
        return Ok(go(&format!("/deployments/{id}"), Some(("retry-requested", "Retry requested."))));
    }
    let request = match posted.form.text("action") {
        // The device must receive the removal policy before the removal, so this is a rollout of its own.
        "remove" if posted.form.text("instead") == "purge" => {
            let policy = PolicyPatch { on_removal: Some(OnRemoval::Purge), ..PolicyPatch::default() };
            let body = UpdateDeployment { policy, ..UpdateDeployment::default() };
            rollouts::update_request(state, &id, body, posted.form.number("revision")).await.map(|(request, _)| request)
        }
        "remove" => rollouts::remove_request(state, &id, posted.form.number("revision")).await,
        "back" => drafts::back_to(state, &id, posted.form.number("to").unwrap_or_default()).await,
        _ => Err(AppError::refused(Code::Invalid, "missing or unknown `action` for the deployment")),
    };
    // When the form is sent again, the request may fail as unchanged; the idempotency record has the rollout.
    let rollout =
        posted.once(async { rollouts::submit(state, posted.caller(), request?, posted.comment()).await }).await?;
    Ok(go(&format!("/rollouts/{}", rollout.id), None))
}
