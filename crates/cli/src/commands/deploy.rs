//! `margrave deploy`: an application onto devices.

pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod scope;
pub(crate) mod wait;

use super::app::version_or_newest;
use super::{ReasonArgs, Session, YesArgs};
use crate::answers::{AnswerArgs, Answers, missing, question};
use crate::ask;
use crate::failure::{Failure, Outcome};
use margrave_api::applications::Questions;
use margrave_api::changes::{Change, ChangeKind, CreateChange, Plan};
use margrave_api::client::ClientError;
use margrave_api::deployments::RevertDeployment;
use policy::PolicyArgs;
use scope::ScopeArgs;
use wait::WaitArgs;

/// How often wrong answers are asked again at a terminal before giving up.
const ROUNDS_MAX: usize = 5;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  margrave deploy line-monitor --device press-01
  margrave deploy line-monitor@1.0.0 --selector site=graz --set lineName='Press 7' --skip-unfit --wait
  margrave deploy vibration-analytics --group graz-presses --values answers.yaml --dry-run
  margrave deploy line-monitor --device press-01 --on-failure rollback --drift report

At a terminal, questions that need an answer and have none are asked, section by section.
Elsewhere nothing is asked: give answers with --set or --values. `margrave app questions` lists them.")]
pub(crate) struct DeployArgs {
    /// Id of the application, with @VERSION unless the newest is meant
    #[arg(value_name = "APPLICATION[@VERSION]")]
    application: String,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    answers: AnswerArgs,
    /// Use this profile instead of the first one that fits each device
    #[arg(long)]
    profile: Option<String>,
    /// Leave out devices that do not fit instead of refusing the whole change
    #[arg(long)]
    skip_unfit: bool,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    carry_out: CarryOutArgs,
}

/// How a change is carried out; the same for every command that makes one.
#[derive(Debug, clap::Args)]
pub(crate) struct CarryOutArgs {
    /// Show what would change on each device, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    yes: YesArgs,
}

pub(crate) async fn run(args: DeployArgs, session: &Session) -> Outcome {
    let DeployArgs { application, scope, answers, profile, skip_unfit, policy, carry_out } = args;
    let (application, version) = match application.split_once('@') {
        Some((application, version)) => (application.to_owned(), Some(version.to_owned())),
        None => (application, None),
    };
    let version = version_or_newest(session, &application, version).await?;
    let questions = session.api.application_questions(&application, &version, profile.as_deref()).await?;
    let mut answers = answers.read(&questions)?;
    let scope = scope.resolve(session).await?;
    complete(session, &application, &questions, &mut answers, &carry_out.yes)?;
    let change = CreateChange {
        kind: ChangeKind::Create,
        application,
        version: Some(version),
        profile,
        scope,
        answers,
        policy: policy.wish(),
        skip_unfit,
        reason: None,
    };
    self::carry_out(session, change, Some(&questions), carry_out).await
}

/// Asks for what is missing, or says what is missing where nobody can be asked.
fn complete(
    session: &Session,
    application: &str,
    questions: &Questions,
    answers: &mut Answers,
    yes: &YesArgs,
) -> Outcome {
    if session.out.interactive && !yes.yes {
        return ask::questions(session.out, questions, answers);
    }
    let missing = missing(questions, answers);
    if missing.is_empty() {
        return Ok(());
    }
    let mut failure = Failure::usage(format!("{application} needs answers that nobody gave"));
    for (section, question) in &missing {
        let rules = if question.rules.is_empty() { String::new() } else { format!(" ({})", question.rules.join("; ")) };
        failure = failure.because(format!("{}: {section}, {}{rules}", question.parameter, question.name));
    }
    let flags: Vec<_> = missing.iter().map(|(_, question)| format!("--set {}=…", question.parameter)).collect();
    Err(failure.next(format!("add {}, or a file with --values FILE", flags.join(" "))))
}

/// Plans, asks, does, waits: the same for every kind of change.
pub(crate) async fn carry_out(
    session: &Session,
    mut change: CreateChange,
    questions: Option<&Questions>,
    how: CarryOutArgs,
) -> Outcome {
    let CarryOutArgs { dry_run, wait, reason, yes } = how;
    change.reason = reason.reason;
    if dry_run {
        let plan = planned(session, &mut change, questions, &yes).await?;
        return session.out.show(&plan, |out| plan::render(out, &plan));
    }
    if change.kind == ChangeKind::Remove {
        if !yes.yes {
            let plan = planned(session, &mut change, questions, &yes).await?;
            session.sure(&format!("Remove {} from {} device(s)?", plan.application, plan.targets.len()), &yes)?;
        }
    } else if session.out.interactive && !yes.yes {
        let plan = planned(session, &mut change, questions, &yes).await?;
        session.out.must_say(plan::summary(&plan));
        if !ask::confirm("Go on?", true)? {
            return Err(Failure::failed("nothing was changed"));
        }
    }
    let done = session.api.create_change(&change).await.map_err(|error| refused(error, &change))?;
    recorded(session, &done, &wait).await
}

/// Back to an earlier revision: plans, asks, does, waits.
pub(crate) async fn revert(session: &Session, deployment: &str, revision: i64, how: CarryOutArgs) -> Outcome {
    let CarryOutArgs { dry_run, wait, reason, yes } = how;
    let body = RevertDeployment { revision, reason: reason.reason };
    if dry_run || (session.out.interactive && !yes.yes) {
        let plan = session.api.plan_revert(deployment, &body).await?;
        if dry_run {
            return session.out.show(&plan, |out| plan::render(out, &plan));
        }
        session.out.must_say(plan::summary(&plan));
        if !ask::confirm("Go on?", true)? {
            return Err(Failure::failed("nothing was changed"));
        }
    }
    let done = session.api.revert_deployment(deployment, &body).await?;
    recorded(session, &done, &wait).await
}

/// Says what was recorded, and waits for it where that is wanted.
async fn recorded(session: &Session, done: &Change, wait: &WaitArgs) -> Outcome {
    session.out.say(format!("Change {} covers {} device(s).", done.id, done.total));
    if wait.wanted() {
        return wait::change(session, &done.id, wait).await;
    }
    session.out.show(done, |out| super::change::render(out, done))?;
    session.out.say(format!("Watch it: margrave change wait {}", done.id));
    Ok(())
}

/// A dry run; answers the server refuses are asked again at a terminal.
async fn planned(
    session: &Session,
    change: &mut CreateChange,
    questions: Option<&Questions>,
    yes: &YesArgs,
) -> Outcome<Plan> {
    let may_ask = session.out.interactive && !yes.yes;
    for _ in 0..ROUNDS_MAX {
        let error = match session.api.plan_change(change).await {
            Ok(plan) => return Ok(plan),
            Err(error) => error,
        };
        let again = questions.filter(|_| may_ask).map(|questions| wrong_answers(&error, questions)).unwrap_or_default();
        if again.is_empty() {
            return Err(refused(error, change));
        }
        for (parameter, message, questions) in again {
            session.out.must_say(format!("{parameter}: {message}"));
            if let Some(question) = question(questions, &parameter) {
                change.answers.insert(parameter, ask::one(session.out, question)?);
            }
        }
    }
    Err(Failure::usage("the answers still do not fit").next("`margrave app questions` shows the rules"))
}

/// The answers a refusal names, with what is wrong with them.
fn wrong_answers<'a>(error: &ClientError, questions: &'a Questions) -> Vec<(String, String, &'a Questions)> {
    let Some(problem) = error.problem() else { return Vec::new() };
    let fields = problem.errors.iter().filter_map(|field| {
        let parameter = field.field.rsplit(['.', '/']).next().unwrap_or(&field.field);
        question(questions, parameter).map(|_| (parameter.to_owned(), field.message.clone(), questions))
    });
    fields.collect()
}

fn refused(error: ClientError, change: &CreateChange) -> Failure {
    let unplaceable = error.code() == Some("unplaceable");
    let nobody = unplaceable && error.problem().is_some_and(|problem| problem.errors.is_empty());
    let application = &change.application;
    let mut failure = Failure::from(error);
    // The server speaks of the API's field; people here know the flag.
    failure.what = failure.what.replace("`skipUnfit`", "`--skip-unfit`");
    match (unplaceable, change.kind) {
        _ if nobody => failure.next(match (&change.scope.selector, &change.scope.group) {
            (_, Some(group)) => format!("`margrave group devices {group}` shows who is in the group"),
            (Some(selector), _) if !selector.is_empty() => {
                format!("`margrave device list --selector '{selector}'` shows whom it matches, `margrave device list` all labels")
            }
            _ => "`margrave client enrol-token NAME` brings a device in".to_owned(),
        }),
        (true, ChangeKind::Create) if !change.skip_unfit => failure.next(format!(
            "`--skip-unfit` leaves these devices out; `margrave app fit {application}` explains each one"
        )),
        (true, _) => failure.next(format!("`margrave app fit {application}` explains each device")),
        _ => failure,
    }
}
