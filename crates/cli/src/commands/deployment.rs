//! `margrave deployment`: what should run where, and what does.

use super::deploy::policy::PolicyArgs;
use super::deploy::scope::ExistingArgs;
use super::deploy::{CarryOutArgs, carry_out};
use super::{LimitArgs, ReasonArgs, Session, device_name, every};
use crate::answers::AnswerArgs;
use crate::ask::plain;
use crate::clock;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use margrave_api::applications::Questions;
use margrave_api::changes::{ChangeKind, CreateChange, Scope};
use margrave_api::client::DeploymentQuery;
use margrave_api::deployments::{Convergence, Deployment, Desired, RetryDeployment, Revision, Status};
use std::time::Duration;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum DeploymentCommand {
    /// Show deployments
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show one deployment: state, components, answers, and why it is as it is
    Show {
        /// Id of the deployment, or enough of its first characters
        deployment: String,
    },
    /// Explain a deployment: what is desired, what is known, what is waited for, what would change it
    Explain {
        /// Id of the deployment, or enough of its first characters
        deployment: String,
    },
    /// Show what differs between two revisions, or between what is desired and what the device reports
    #[command(after_help = "Examples:
  margrave deployment diff 3f2a                    # what the present revision changed
  margrave deployment diff 3f2a --from 1 --to 3
  margrave deployment diff 3f2a --reported         # what the device has yet to change")]
    Diff {
        /// Id of the deployment, or enough of its first characters
        deployment: String,
        /// A revision, `desired` or `reported`; the one before --to if left out
        #[arg(long, value_name = "REVISION")]
        from: Option<String>,
        /// A revision, `desired` or `reported`; the present one if left out
        #[arg(long, value_name = "REVISION")]
        to: Option<String>,
        /// From what the device reports to what is desired
        #[arg(long, conflicts_with_all = ["from", "to"])]
        reported: bool,
    },
    /// Show the revisions and status reports of a deployment
    History {
        /// Id of the deployment, or enough of its first characters
        deployment: String,
    },
    /// Print the ApplicationDeployment document; sensitive values are masked
    Document {
        /// Id of the deployment, or enough of its first characters
        deployment: String,
        /// An earlier revision instead of the present one
        #[arg(long)]
        revision: Option<i64>,
    },
    /// Change answers or policies of existing deployments
    #[command(after_help = "Examples:
  margrave deployment reconfigure 3f2a --set sampleSeconds=10
  margrave deployment reconfigure --app line-monitor --selector site=graz --set sampleSeconds=10 --dry-run
  margrave deployment reconfigure 3f2a --on-failure rollback --on-removal purge")]
    Reconfigure {
        #[command(flatten)]
        existing: ExistingArgs,
        #[command(flatten)]
        answers: AnswerArgs,
        #[command(flatten)]
        policy: PolicyArgs,
        #[command(flatten)]
        carry_out: CarryOutArgs,
    },
    /// Move existing deployments to another version
    #[command(after_help = "Examples:
  margrave deployment upgrade --app line-monitor --all --to 1.1.0 --dry-run
  margrave deployment upgrade 3f2a --to 1.1.0 --set shiftModel=two-shift --wait")]
    Upgrade {
        #[command(flatten)]
        existing: ExistingArgs,
        /// The version to move to
        #[arg(long, value_name = "VERSION")]
        to: String,
        /// Leave out devices that cannot run that version instead of refusing the whole change
        #[arg(long)]
        skip_unfit: bool,
        #[command(flatten)]
        answers: AnswerArgs,
        #[command(flatten)]
        policy: PolicyArgs,
        #[command(flatten)]
        carry_out: CarryOutArgs,
    },
    /// Have devices try again at once what failed, instead of after their pause
    Retry {
        /// Ids of deployments, or enough of their first characters
        #[arg(required = true, value_name = "DEPLOYMENT")]
        deployments: Vec<String>,
        #[command(flatten)]
        reason: ReasonArgs,
    },
    /// Go back to the version and the answers of an earlier revision
    #[command(after_help = "Examples:
  margrave deployment history 3f2a                 # which revisions there are
  margrave deployment revert 3f2a --to 1 --dry-run
  margrave deployment revert 3f2a --to 1 --reason \"1.1.0 is too slow\" --yes --wait")]
    Revert {
        /// Id of the deployment, or enough of its first characters
        deployment: String,
        /// The revision to go back to
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
    /// Wait until these deployments are as desired; fails unless all are
    Wait {
        /// Ids of deployments, or enough of their first characters
        #[arg(required = true, value_name = "DEPLOYMENT")]
        deployments: Vec<String>,
        /// Give up after this long
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
    /// Only those of this change
    #[arg(long)]
    change: Option<String>,
    /// Only in this state
    #[arg(long, value_parser = convergence)]
    state: Option<Convergence>,
    /// Also those that were removed
    #[arg(long)]
    with_removed: bool,
    #[command(flatten)]
    limit: LimitArgs,
}

fn convergence(text: &str) -> Result<Convergence, String> {
    Convergence::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
        let all: Vec<_> = Convergence::ALL.iter().map(|state| state.as_str()).collect();
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
        DeploymentCommand::Reconfigure { existing, answers, policy, carry_out } => {
            if answers.is_empty() && policy.is_empty() {
                let next = "give answers with --set or --values, or a policy such as --drift";
                return Err(Failure::usage("reconfigure what?").next(next));
            }
            let wanted = Wanted { answers, policy, ..Wanted::of(ChangeKind::Reconfigure) };
            change(session, wanted, existing, carry_out).await
        }
        DeploymentCommand::Upgrade { existing, to, skip_unfit, answers, policy, carry_out } => {
            let wanted = Wanted { kind: ChangeKind::Upgrade, version: Some(to), skip_unfit, answers, policy };
            change(session, wanted, existing, carry_out).await
        }
        DeploymentCommand::Retry { deployments, reason } => retry(session, &deployments, reason.reason).await,
        DeploymentCommand::Revert { deployment, to, carry_out } => {
            let deployment = find(session, &deployment).await?;
            super::deploy::revert(session, &deployment.id, to, carry_out).await
        }
        DeploymentCommand::Remove { existing, carry_out } => {
            change(session, Wanted::of(ChangeKind::Remove), existing, carry_out).await
        }
        DeploymentCommand::Wait { deployments, timeout } => wait(session, &deployments, timeout).await,
    }
}

async fn retry(session: &Session, texts: &[String], reason: Option<String>) -> Outcome {
    let mut found = Vec::with_capacity(texts.len());
    for text in texts {
        found.push(find(session, text).await?.id);
    }
    let mut told = Vec::with_capacity(found.len());
    for id in found {
        told.push(session.api.retry_deployment(&id, &RetryDeployment { reason: reason.clone() }).await?);
    }
    session.out.show(&told, |out| table(out, &told))?;
    session.out.say("Told to try again. Watch it: margrave deployment wait ID");
    Ok(())
}

async fn list(session: &Session, args: ListArgs) -> Outcome {
    let ListArgs { app, version, device, client, change, state, with_removed, limit } = args;
    let device = match device {
        Some(device) => Some(super::device::find(session, &device).await?),
        None => None,
    };
    let query = DeploymentQuery {
        application: app,
        version,
        client: device.as_ref().map(|device| device.client.clone()).or(client),
        device: device.map(|device| device.device),
        change,
        convergence: state,
        with_absent: with_removed,
    };
    let deployments = every(limit.get(), async |page| session.api.deployments(&query, &page).await).await?;
    session.out.show(&deployments, |out| table(out, &deployments))
}

pub(crate) fn table(out: Output, deployments: &[Deployment]) -> String {
    out.table(
        &["deployment", "application", "version", "device", "state", "reported", "components"],
        deployments.iter().map(|deployment| {
            let status = deployment.status.as_ref();
            let components = status.map(components_cell).unwrap_or_default();
            let desired = if deployment.desired == Desired::Absent { " (to be removed)" } else { "" };
            let simulated = if deployment.simulated { " (simulated)" } else { "" };
            vec![
                deployment.id.clone(),
                deployment.application.clone(),
                deployment.version.clone(),
                format!("{}{simulated}", device_name(&deployment.client, &deployment.device)),
                format!("{}{desired}", deployment.convergence.as_str()),
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
        ("State", deployment.convergence.as_str().to_owned()),
        ("Why", deployment.explanation.clone()),
        ("Runtime", if deployment.simulated { super::device::SIMULATED.to_owned() } else { String::new() }),
        ("Revision", format!("{}, manifest version {}", deployment.revision, deployment.target_version)),
        ("Answers", values.collect::<Vec<_>>().join("\n")),
        ("Policy", margrave_core::policy::Policy::from(deployment.policy).to_string()),
        ("Digest", deployment.digest.clone()),
        ("Change", deployment.change.clone()),
        ("Created", clock::ago(&deployment.created_at, now)),
        ("Updated", clock::ago(&deployment.updated_at, now)),
    ]);
    if let Some(status) = &deployment.status {
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
        if let Some(failed) = &deployment.failed_with {
            text.push_str(&out.heading("Failed before, trying again"));
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
            &["revision", "what", "version", "manifest", "when", "who", "why"],
            history.revisions.iter().map(|revision| {
                vec![
                    revision.revision.to_string(),
                    super::change::kind_word(revision.action).to_owned(),
                    revision.version.clone(),
                    revision.manifest_version.to_string(),
                    clock::ago(&revision.at, now),
                    revision.actor.clone(),
                    revision.reason.clone().unwrap_or_default(),
                ]
            }),
        ));
        text.push_str(&out.heading("Reports"));
        text.push_str(&out.table(
            &["when", "state", "adopted manifest", "components", "error"],
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

/// What is to become of deployments.
struct Wanted {
    kind: ChangeKind,
    version: Option<String>,
    skip_unfit: bool,
    answers: AnswerArgs,
    policy: PolicyArgs,
}

impl Wanted {
    fn of(kind: ChangeKind) -> Self {
        let (answers, policy) = (AnswerArgs::default(), PolicyArgs::default());
        Self { kind, version: None, skip_unfit: false, answers, policy }
    }
}

/// A change over existing deployments, named by id or by application and place.
async fn change(session: &Session, wanted: Wanted, existing: ExistingArgs, how: CarryOutArgs) -> Outcome {
    let Wanted { kind, version, skip_unfit, answers, policy } = wanted;
    let ExistingArgs { deployments, app, place } = existing;
    let (application, known_version, scope) = match app {
        Some(application) => {
            let scope = place.resolve(session).await?;
            (application, None, scope)
        }
        None => by_ids(session, &deployments).await?,
    };
    let questions = match version.as_ref().or(known_version.as_ref()) {
        Some(version) => session.api.application_questions(&application, version, None).await?,
        None if answers.is_empty() => Questions { sections: Vec::new() },
        None => {
            let newest = super::app::version_or_newest(session, &application, None).await?;
            session.api.application_questions(&application, &newest, None).await?
        }
    };
    let answers = answers.read(&questions)?;
    let policy = policy.wish();
    let body =
        CreateChange { kind, application, version, profile: None, scope, answers, policy, skip_unfit, reason: None };
    carry_out(session, body, Some(&questions), how).await
}

/// One change is about one application; the ids must agree on it.
async fn by_ids(session: &Session, ids: &[String]) -> Outcome<(String, Option<String>, Scope)> {
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.push(find(session, id).await?);
    }
    let first = found.first().expect("clap asks for at least one id where --app is not given");
    if let Some(other) = found.iter().find(|one| one.application != first.application) {
        return Err(Failure::usage("the deployments are of different applications")
            .because(format!("{} is of {}, {} of {}", first.id, first.application, other.id, other.application))
            .next("make one change per application"));
    }
    let (application, version) = (first.application.clone(), first.version.clone());
    let ids = found.into_iter().map(|one| one.id).collect();
    Ok((application, Some(version), Scope { deployments: Some(ids), ..Scope::default() }))
}

/// A whole id, or as much of it as nobody else's starts with.
async fn find(session: &Session, text: &str) -> Outcome<Deployment> {
    if text.len() == 36 {
        return Ok(session.api.deployment(text).await?);
    }
    let query = DeploymentQuery { with_absent: true, ..DeploymentQuery::default() };
    let all = every(None, async |page| session.api.deployments(&query, &page).await).await?;
    let mut found: Vec<_> = all.into_iter().filter(|one| one.id.starts_with(text)).collect();
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => Err(Failure::new(Exit::NotFound, format!("no deployment `{text}`"))
            .next("`margrave deployment list` shows all")),
        (Some(_), others) => {
            Err(Failure::usage(format!("{} deployments start with `{text}`", others + 1)).next("write more of the id"))
        }
    }
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
