//! `margrave deployment`: desired and reported deployments.

use super::deploy::policy::PolicyArgs;
use super::deploy::scope::ExistingArgs;
use super::deploy::{CarryOutArgs, carry_out};
use super::{CommentArgs, LimitArgs, Session, device_name, every, lookup};
use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::prompt::plain;
use crate::values::ValueArgs;
use indexmap::IndexMap;
use margrave_api::applications::Parameters;
use margrave_api::client::DeploymentQuery;
use margrave_api::deployments::{Deployment, DeploymentState, Desired, RetryDeployment, Revision, Status};
use margrave_api::lookup::LookupKind;
use margrave_api::policies::PolicyPatch;
use margrave_api::rollouts::{CreateRollout, RolloutKind, Scope};
use std::time::Duration;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum DeploymentCommand {
    /// Show deployments
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show one deployment: state, components, values, explanation
    Show {
        /// Deployment id, or a unique prefix
        deployment: String,
    },
    /// Explain a deployment: desired state, observed state, what it waits for, next steps
    Explain {
        /// Deployment id, or a unique prefix
        deployment: String,
    },
    /// Show the differences between two revisions, or between the desired and the reported state
    #[command(after_help = "Examples:
  margrave deployment diff 3f2a                    # what the current revision changed
  margrave deployment diff 3f2a --from 1 --to 3
  margrave deployment diff 3f2a --reported         # what the device still has to change")]
    Diff {
        /// Deployment id, or a unique prefix
        deployment: String,
        /// A revision, `desired` or `reported` [default: the revision before --to]
        #[arg(long, value_name = "REVISION")]
        from: Option<String>,
        /// A revision, `desired` or `reported` [default: the current revision]
        #[arg(long, value_name = "REVISION")]
        to: Option<String>,
        /// Compare the reported state with the desired state
        #[arg(long, conflicts_with_all = ["from", "to"])]
        reported: bool,
    },
    /// Show the revisions and status reports of a deployment
    History {
        /// Deployment id, or a unique prefix
        deployment: String,
    },
    /// Print the ApplicationDeployment document; sensitive values are masked
    Document {
        /// Deployment id, or a unique prefix
        deployment: String,
        /// An earlier revision instead of the current one
        #[arg(long)]
        revision: Option<i64>,
    },
    /// Change values or policies of existing deployments
    #[command(after_help = "Examples:
  margrave deployment reconfigure 3f2a --set sampleSeconds=10
  margrave deployment reconfigure --app line-monitor --selector site=graz --set sampleSeconds=10 --dry-run
  margrave deployment reconfigure 3f2a --on-failure rollback --on-removal purge")]
    Reconfigure {
        #[command(flatten)]
        existing: ExistingArgs,
        #[command(flatten)]
        values: ValueArgs,
        #[command(flatten)]
        policy: PolicyArgs,
        #[command(flatten)]
        carry_out: CarryOutArgs,
    },
    /// Upgrade or downgrade existing deployments to another version
    #[command(after_help = "Examples:
  margrave deployment upgrade --app line-monitor --all --to 1.1.0 --dry-run
  margrave deployment upgrade 3f2a --to 1.1.0 --set shiftModel=two-shift --wait")]
    Upgrade {
        #[command(flatten)]
        existing: ExistingArgs,
        /// Target version
        #[arg(long, value_name = "VERSION")]
        to: String,
        /// Skip incompatible devices instead of rejecting the whole rollout
        #[arg(long)]
        skip_incompatible: bool,
        #[command(flatten)]
        values: ValueArgs,
        #[command(flatten)]
        policy: PolicyArgs,
        #[command(flatten)]
        carry_out: CarryOutArgs,
    },
    /// Retry failed deployments at once instead of after the back-off
    Retry {
        /// Deployment ids, or unique prefixes
        #[arg(required = true, value_name = "DEPLOYMENT")]
        deployments: Vec<String>,
        #[command(flatten)]
        reason: CommentArgs,
    },
    /// Roll back to the version and values of an earlier revision
    #[command(after_help = "Examples:
  margrave deployment history 3f2a                 # lists the revisions
  margrave deployment rollback 3f2a --to 1 --dry-run
  margrave deployment rollback 3f2a --to 1 --comment \"1.1.0 is too slow\" --yes --wait")]
    Rollback {
        /// Deployment id, or a unique prefix
        deployment: String,
        /// Revision to roll back to
        #[arg(long, value_name = "REVISION")]
        to: i64,
        #[command(flatten)]
        carry_out: CarryOutArgs,
    },
    /// Remove deployments from their devices
    #[command(visible_alias = "rm")]
    Remove {
        #[command(flatten)]
        existing: ExistingArgs,
        #[command(flatten)]
        carry_out: CarryOutArgs,
    },
    /// Wait until these deployments are up to date; fails unless all succeed
    Wait {
        /// Deployment ids, or unique prefixes
        #[arg(required = true, value_name = "DEPLOYMENT")]
        deployments: Vec<String>,
        /// Stop waiting after this time
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = clock::parse_span)]
        timeout: Duration,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only this application
    #[arg(long, value_name = "APPLICATION")]
    app: Option<String>,
    /// Only this version
    #[arg(long)]
    version: Option<String>,
    /// Only on this device
    #[arg(long, short)]
    device: Option<String>,
    /// Only of this client
    #[arg(long)]
    client: Option<String>,
    /// Only deployments of this rollout
    #[arg(long)]
    rollout: Option<String>,
    /// Only in this state
    #[arg(long, value_parser = deployment_state)]
    state: Option<DeploymentState>,
    /// Include removed deployments
    #[arg(long)]
    with_removed: bool,
    /// Sort by `application`, `device`, `state` or `last-report`; `-` in front sorts descending: `--sort=-last-report`
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    sort: Option<String>,
    #[command(flatten)]
    limit: LimitArgs,
}

fn deployment_state(text: &str) -> Result<DeploymentState, String> {
    DeploymentState::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
        let all: Vec<_> = DeploymentState::ALL.iter().map(|state| state.as_str()).collect();
        format!("one of {}", all.join(", "))
    })
}

pub(crate) async fn run(command: DeploymentCommand, session: &Session) -> Outcome {
    match command {
        DeploymentCommand::List(args) => list(session, args).await,
        DeploymentCommand::Show { deployment } => {
            let deployment = find(session, &deployment).await?;
            session.out.show(&deployment, |out| render(out, &deployment))
        }
        DeploymentCommand::Explain { deployment } => {
            let deployment = find(session, &deployment).await?;
            let explanation = session.api.explain_deployment(&deployment.id).await?;
            session.out.show(&explanation, |out| super::explain::render(out, &explanation))
        }
        DeploymentCommand::Diff { deployment, from, to, reported } => {
            let deployment = find(session, &deployment).await?;
            let (from, to) = if reported { (Some("reported".to_owned()), None) } else { (from, to) };
            let diff = session.api.deployment_diff(&deployment.id, from.as_deref(), to.as_deref()).await?;
            session.out.show(&diff, |out| super::diff::deployment(out, &diff))
        }
        DeploymentCommand::History { deployment } => history(session, &deployment).await,
        DeploymentCommand::Document { deployment, revision } => {
            let deployment = find(session, &deployment).await?;
            let text = session.api.deployment_document(&deployment.id, revision).await?;
            session.out.show(&serde_json::json!({ "yaml": text }), |_| text.clone())
        }
        DeploymentCommand::Reconfigure { existing, values, policy, carry_out } => {
            if values.is_empty() && policy.is_empty() {
                let next = "set values with --set or --values, or a policy such as --drift";
                return Err(Failure::usage("nothing to reconfigure").next(next));
            }
            let requested = RequestedAction { values, policy, ..RequestedAction::of(RolloutKind::Reconfigure) };
            rollout(session, requested, existing, carry_out).await
        }
        DeploymentCommand::Upgrade { existing, to, skip_incompatible, values, policy, carry_out } => {
            let requested =
                RequestedAction { kind: RolloutKind::Upgrade, version: Some(to), skip_incompatible, values, policy };
            rollout(session, requested, existing, carry_out).await
        }
        DeploymentCommand::Retry { deployments, reason } => retry(session, &deployments, reason.comment).await,
        DeploymentCommand::Rollback { deployment, to, carry_out } => {
            let deployment = find(session, &deployment).await?;
            super::deploy::rollback(session, &deployment.id, to, carry_out).await
        }
        DeploymentCommand::Remove { existing, carry_out } => {
            if existing.app.is_none() {
                return remove(session, &existing.deployments, carry_out).await;
            }
            rollout(session, RequestedAction::of(RolloutKind::Remove), existing, carry_out).await
        }
        DeploymentCommand::Wait { deployments, timeout } => wait(session, &deployments, timeout).await,
    }
}

async fn retry(session: &Session, texts: &[String], reason: Option<String>) -> Outcome {
    let mut found = Vec::with_capacity(texts.len());
    for text in texts {
        found.push(find(session, text).await?.id);
    }
    let mut retried = Vec::with_capacity(found.len());
    for id in found {
        retried.push(session.api.retry_deployment(&id, &RetryDeployment { comment: reason.clone() }).await?);
    }
    session.out.show(&retried, |out| table(out, &retried))?;
    session.out.say("Retry requested. Follow it: margrave deployment wait ID");
    Ok(())
}

async fn list(session: &Session, args: ListArgs) -> Outcome {
    let ListArgs { app, version, device, client, rollout, state, with_removed, sort, limit } = args;
    let device = match device {
        Some(device) => Some(super::device::find(session, &device).await?),
        None => None,
    };
    let query = DeploymentQuery {
        application: app,
        version,
        client: device.as_ref().map(|device| device.client.clone()).or(client),
        device: device.map(|device| device.device),
        rollout,
        state,
        with_absent: with_removed,
        sort,
    };
    let deployments = every(limit.get(), async |page| session.api.deployments(&query, &page).await).await?;
    session.out.show(&deployments, |out| table(out, &deployments))
}

pub(crate) fn table(out: Output, deployments: &[Deployment]) -> String {
    out.table(
        &["deployment", "application", "version", "device", "state", "reported", "components"],
        deployments.iter().map(|deployment| {
            let status = deployment.reported.as_ref();
            let components = status.map(components_cell).unwrap_or_default();
            let desired = if deployment.desired == Desired::Absent { " (removing)" } else { "" };
            let simulated = if deployment.simulated { " (simulated)" } else { "" };
            vec![
                deployment.id.clone(),
                deployment.application.clone(),
                deployment.version.clone(),
                format!("{}{simulated}", device_name(&deployment.client, &deployment.device)),
                format!("{}{desired}", deployment.state.as_str()),
                status.map_or_else(|| "-".to_owned(), |status| status.state.clone()),
                components,
            ]
        }),
    )
}

fn components_cell(status: &Status) -> String {
    let parts = status.components.iter().map(|component| format!("{} {}", component.name, component.state));
    parts.collect::<Vec<_>>().join(", ")
}

fn render(out: Output, deployment: &Deployment) -> String {
    let now = clock::now();
    let values = deployment.values.iter().map(|(name, value)| format!("{name} = {}", plain(value)));
    let mut text = out.fields(&[
        ("Deployment", deployment.id.clone()),
        ("Application", format!("{} {}, profile {}", deployment.application, deployment.version, deployment.profile)),
        ("Device", device_name(&deployment.client, &deployment.device)),
        ("Desired", if deployment.desired == Desired::Present { "present".into() } else { "absent".into() }),
        ("State", deployment.state.as_str().to_owned()),
        ("Explanation", deployment.explanation.clone()),
        ("Runtime", if deployment.simulated { super::device::SIMULATED.to_owned() } else { String::new() }),
        ("Revision", format!("{}, manifest version {}", deployment.revision, deployment.target_version)),
        ("Values", values.collect::<Vec<_>>().join("\n")),
        ("Policies", margrave_core::policy::Policy::from(deployment.policy).to_string()),
        ("Digest", deployment.digest.clone()),
        ("Rollout", deployment.rollout.clone()),
        ("Created", clock::ago(&deployment.created_at, now)),
        ("Updated", clock::ago(&deployment.updated_at, now)),
    ]);
    if let Some(status) = &deployment.reported {
        text.push_str(&out.heading("Last report"));
        text.push_str(
            &out.fields(&[
                ("State", status.state.clone()),
                ("Received", clock::ago(&status.received_at, now)),
                ("Adopted manifest", status.adopted_version.to_string()),
                ("Hosted by", status.hosted_by.clone().unwrap_or_default()),
                (
                    "Error",
                    status
                        .error
                        .as_ref()
                        .map(|error| format!("{} (code {})", error.message, error.code))
                        .unwrap_or_default(),
                ),
            ]),
        );
        if let Some(failing) = &deployment.failing {
            text.push_str(&out.heading("Failing"));
            text.push_str(&out.fields(&[
                ("Since", clock::ago(&failing.since, now)),
                ("Attempts", failing.attempts.to_string()),
                ("Last failure", clock::ago(&failing.last_at, now)),
            ]));
        }
        if let Some(failed) = &deployment.failed_with {
            text.push_str(&out.heading("Previous failure, retrying"));
            let errors = failed.components.iter().filter_map(|component| component.error.as_ref()).chain(&failed.error);
            let error = errors.map(|error| format!("{} (code {})", error.message, error.code)).next();
            text.push_str(
                &out.fields(&[
                    ("Received", clock::ago(&failed.received_at, now)),
                    ("Error", error.unwrap_or_default()),
                ]),
            );
        }
        text.push_str(&out.heading("Components"));
        text.push_str(&out.table(
            &["component", "state", "error"],
            status.components.iter().map(|component| {
                let error = component.error.as_ref();
                vec![
                    component.name.clone(),
                    component.state.clone(),
                    error.map(|error| format!("{} (code {})", error.message, error.code)).unwrap_or_default(),
                ]
            }),
        ));
    }
    text
}

/// For `-o json`.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct History {
    revisions: Vec<Revision>,
    reports: Vec<Status>,
}

async fn history(session: &Session, deployment: &str) -> Outcome {
    let deployment = find(session, deployment).await?;
    let history = History {
        revisions: session.api.deployment_revisions(&deployment.id).await?.items,
        reports: session.api.deployment_status_history(&deployment.id).await?.items,
    };
    let now = clock::now();
    session.out.show(&history, |out| {
        let mut text = out.heading("Revisions").trim_start().to_owned();
        text.push_str(&out.table(
            &["revision", "action", "version", "manifest", "created", "actor", "comment"],
            history.revisions.iter().map(|revision| {
                vec![
                    revision.revision.to_string(),
                    super::rollout::action_words(revision.action, revision.rollback_to),
                    revision.version.clone(),
                    revision.manifest_version.to_string(),
                    clock::ago(&revision.at, now),
                    revision.actor.clone(),
                    revision.comment.clone().unwrap_or_default(),
                ]
            }),
        ));
        text.push_str(&out.heading("Reports"));
        text.push_str(&out.table(
            &["received", "state", "adopted manifest", "components", "error"],
            history.reports.iter().map(|status| {
                vec![
                    clock::ago(&status.received_at, now),
                    status.state.clone(),
                    status.adopted_version.to_string(),
                    components_cell(status),
                    status.error.as_ref().map(|error| error.message.clone()).unwrap_or_default(),
                ]
            }),
        ));
        text
    })
}

/// The requested action on deployments.
struct RequestedAction {
    kind: RolloutKind,
    version: Option<String>,
    skip_incompatible: bool,
    values: ValueArgs,
    policy: PolicyArgs,
}

impl RequestedAction {
    fn of(kind: RolloutKind) -> Self {
        let (values, policy) = (ValueArgs::default(), PolicyArgs::default());
        Self { kind, version: None, skip_incompatible: false, values, policy }
    }
}

/// Creates a rollout over existing deployments, selected by id or by application and device.
async fn rollout(session: &Session, requested: RequestedAction, existing: ExistingArgs, how: CarryOutArgs) -> Outcome {
    let RequestedAction { kind, version, skip_incompatible, values, policy } = requested;
    let ExistingArgs { deployments, app, place } = existing;
    let (application, known_version, scope) = match app {
        Some(application) => {
            let scope = place.resolve(session).await?;
            (application, None, scope)
        }
        None => by_ids(session, &deployments).await?,
    };
    let parameters = match version.as_ref().or(known_version.as_ref()) {
        Some(version) => session.api.application_parameters(&application, version, None).await?,
        None if values.is_empty() => Parameters { sections: Vec::new() },
        None => {
            let newest = super::app::version_or_newest(session, &application, None).await?;
            session.api.application_parameters(&application, &newest, None).await?
        }
    };
    let values = values.read(&parameters)?;
    let policy = policy.patch();
    let body = CreateRollout {
        kind,
        application,
        version,
        profile: None,
        scope,
        values,
        policy,
        skip_incompatible,
        comment: None,
    };
    carry_out(session, body, Some(&parameters), how).await
}

/// Removes deployments of any applications: one rollout per application, all of them planned before the first one is
/// created.
async fn remove(session: &Session, ids: &[String], how: CarryOutArgs) -> Outcome {
    let mut by_application: IndexMap<String, Vec<String>> = IndexMap::new();
    for id in ids {
        let found = find(session, id).await?;
        by_application.entry(found.application).or_default().push(found.id);
    }
    let body = |(application, ids): (String, Vec<String>)| CreateRollout {
        kind: RolloutKind::Remove,
        application,
        version: None,
        profile: None,
        scope: Scope { deployments: Some(ids), ..Scope::default() },
        values: IndexMap::new(),
        policy: PolicyPatch::default(),
        skip_incompatible: false,
        comment: None,
    };
    let mut bodies: Vec<CreateRollout> = by_application.into_iter().map(body).collect();
    match bodies.len() {
        1 => carry_out(session, bodies.remove(0), None, how).await,
        _ => super::deploy::remove_all(session, bodies, how).await,
    }
}

/// A rollout concerns one application; all ids must belong to it.
async fn by_ids(session: &Session, ids: &[String]) -> Outcome<(String, Option<String>, Scope)> {
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.push(find(session, id).await?);
    }
    let first = found.first().expect("clap requires at least one id without --app");
    if let Some(other) = found.iter().find(|one| one.application != first.application) {
        return Err(Failure::usage("the deployments belong to different applications")
            .because(format!(
                "{} belongs to {}, {} belongs to {}",
                first.id, first.application, other.id, other.application
            ))
            .next("run the command once per application"));
    }
    let (application, version) = (first.application.clone(), first.version.clone());
    let ids = found.into_iter().map(|one| one.id).collect();
    Ok((application, Some(version), Scope { deployments: Some(ids), ..Scope::default() }))
}

/// Finds a deployment by its id or a unique prefix.
async fn find(session: &Session, text: &str) -> Outcome<Deployment> {
    if text.len() == 36 {
        return Ok(session.api.deployment(text).await?);
    }
    let found = lookup::only(session, LookupKind::Deployment, text).await?;
    Ok(session.api.deployment(&found.id).await?)
}

async fn wait(session: &Session, texts: &[String], timeout: Duration) -> Outcome {
    let mut ids = Vec::with_capacity(texts.len());
    for text in texts {
        let id = find(session, text).await?.id;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    super::deploy::wait::named::follow(session, &ids, timeout).await
}
