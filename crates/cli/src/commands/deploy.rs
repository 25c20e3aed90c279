//! `margrave deploy`: deploys an application to devices.

pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod scope;
pub(crate) mod wait;

use super::app::version_or_newest;
use super::{CommentArgs, Session, YesArgs};
use crate::failure::{Failure, Outcome};
use crate::output::plural;
use crate::prompt;
use crate::values::{ParameterValues, ValueArgs, definition, missing};
use margo::similar::{did_you_mean, similar};
use margrave_api::applications::Parameters;
use margrave_api::client::ClientError;
use margrave_api::deployments::RollbackDeployment;
use margrave_api::rollouts::{CreateRollout, Plan, Rollout, RolloutKind};
use policy::PolicyArgs;
use scope::ScopeArgs;
use wait::WaitArgs;

/// How often invalid values are prompted for again at a terminal before giving up.
const ROUNDS_MAX: usize = 5;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  margrave deploy line-monitor --device press-01
  margrave deploy line-monitor@1.0.0 --selector site=graz --set lineName='Press 7' --skip-incompatible --wait
  margrave deploy vibration-analytics --group graz-presses --values values.yaml --dry-run
  margrave deploy line-monitor --device press-01 --on-failure rollback --drift report

At a terminal, the command prompts for missing required values, section by section.
Otherwise set values with --set or --values. `margrave app parameters` lists the parameters.")]
pub(crate) struct DeployArgs {
    /// Application id, with @VERSION for a version other than the newest
    #[arg(value_name = "APPLICATION[@VERSION]")]
    application: String,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    values: ValueArgs,
    /// Use this profile instead of the first compatible one of each device
    #[arg(long)]
    profile: Option<String>,
    /// Skip incompatible devices instead of rejecting the whole rollout
    #[arg(long)]
    skip_incompatible: bool,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    carry_out: CarryOutArgs,
}

/// Options shared by all commands that create a rollout.
#[derive(Debug, clap::Args)]
pub(crate) struct CarryOutArgs {
    /// Show what would change on each device without changing anything
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    reason: CommentArgs,
    #[command(flatten)]
    yes: YesArgs,
}

pub(crate) async fn run(args: DeployArgs, session: &Session) -> Outcome {
    let DeployArgs { application, scope, values, profile, skip_incompatible, policy, carry_out } = args;
    let (application, version) = match application.split_once('@') {
        Some((application, version)) => (application.to_owned(), Some(version.to_owned())),
        None => (application, None),
    };
    let version = version_or_newest(session, &application, version).await?;
    let parameters = session.api.application_parameters(&application, &version, profile.as_deref()).await?;
    let mut values = values.read(&parameters)?;
    let scope = scope.resolve(session).await?;
    complete(session, &application, &parameters, &mut values, &carry_out.yes)?;
    let rollout = CreateRollout {
        kind: RolloutKind::Create,
        application,
        version: Some(version),
        profile,
        scope,
        values,
        policy: policy.patch(),
        skip_incompatible,
        comment: None,
    };
    self::carry_out(session, rollout, Some(&parameters), carry_out).await
}

/// Prompts for missing values; without a terminal, fails and lists them.
fn complete(
    session: &Session,
    application: &str,
    parameters: &Parameters,
    values: &mut ParameterValues,
    yes: &YesArgs,
) -> Outcome {
    if session.out.interactive && !yes.yes {
        return prompt::missing_values(session.out, parameters, values);
    }
    let missing = missing(parameters, values);
    if missing.is_empty() {
        return Ok(());
    }
    let mut failure = Failure::usage(format!("{application} is missing required values"));
    for (section, definition) in &missing {
        let rules =
            if definition.rules.is_empty() { String::new() } else { format!(" ({})", definition.rules.join("; ")) };
        failure = failure.because(format!("{}: {section}, {}{rules}", definition.parameter, definition.name));
    }
    let known = || parameters.sections.iter().flat_map(|section| &section.parameters).map(|one| one.parameter.as_str());
    for name in values.keys().filter(|name| definition(parameters, name).is_none()) {
        let suggestion = did_you_mean(&similar(name, known(), 1));
        failure = failure.because(format!("{name}: not among the parameters of {application}{suggestion}"));
    }
    let flags: Vec<_> = missing.iter().map(|(_, definition)| format!("--set {}=…", definition.parameter)).collect();
    Err(failure.next(format!("add {}, or use --values FILE", flags.join(" "))))
}

/// Plans, asks for confirmation, creates the rollout and waits for it.
pub(crate) async fn carry_out(
    session: &Session,
    mut rollout: CreateRollout,
    parameters: Option<&Parameters>,
    how: CarryOutArgs,
) -> Outcome {
    let CarryOutArgs { dry_run, wait, reason, yes } = how;
    rollout.comment = reason.comment;
    if dry_run {
        let plan = planned(session, &mut rollout, parameters, &yes).await?;
        return session.out.show(&plan, |out| plan::render(out, &plan));
    }
    if rollout.kind == RolloutKind::Remove {
        if !yes.yes {
            let plan = planned(session, &mut rollout, parameters, &yes).await?;
            session.sure(
                &format!("Remove {} from {}?", plan.application, plural(plan.targets.len() as u64, "device")),
                &yes,
            )?;
        }
    } else if session.out.interactive && !yes.yes {
        let plan = planned(session, &mut rollout, parameters, &yes).await?;
        session.out.must_say(plan::summary(&plan));
        if !prompt::confirm("Continue?", true)? {
            return Err(Failure::failed("nothing was changed"));
        }
    }
    let done = session.api.create_rollout(&rollout).await.map_err(|error| refused(error, &rollout))?;
    recorded(session, &done, &wait).await
}

/// Removals of several applications: plans all of them, asks for confirmation once, and creates one rollout for each.
pub(crate) async fn remove_all(session: &Session, mut rollouts: Vec<CreateRollout>, how: CarryOutArgs) -> Outcome {
    let CarryOutArgs { dry_run, wait, reason, yes } = how;
    let mut plans = Vec::with_capacity(rollouts.len());
    for rollout in &mut rollouts {
        rollout.comment.clone_from(&reason.comment);
        plans.push(session.api.plan_rollout(rollout).await.map_err(|error| refused(error, rollout))?);
    }
    if dry_run {
        return session.out.show(&plans, |out| plans.iter().map(|plan| plan::render(out, plan)).collect());
    }
    let parts: Vec<String> = plans
        .iter()
        .map(|plan| format!("{} from {}", plan.application, plural(plan.targets.len() as u64, "device")))
        .collect();
    session.sure(&format!("Remove {}?", parts.join(", ")), &yes)?;
    let mut done = Vec::with_capacity(rollouts.len());
    for rollout in &rollouts {
        let made = session.api.create_rollout(rollout).await.map_err(|error| refused(error, rollout))?;
        session.out.say(format!("Rollout {} affects {}.", made.id, plural(made.total, "device")));
        done.push(made);
    }
    if wait.requested() {
        for rollout in &done {
            wait::rollout(session, &rollout.id, &wait).await?;
        }
        return Ok(());
    }
    session.out.show(&done, |out| {
        done.iter().map(|rollout| super::rollout::render(out, rollout)).collect::<Vec<_>>().join("\n")
    })
}

/// Rolls back to an earlier revision: plans, asks for confirmation, rolls back and waits.
pub(crate) async fn rollback(session: &Session, deployment: &str, revision: i64, how: CarryOutArgs) -> Outcome {
    let CarryOutArgs { dry_run, wait, reason, yes } = how;
    let body = RollbackDeployment { revision, comment: reason.comment };
    if dry_run || (session.out.interactive && !yes.yes) {
        let plan = session.api.plan_revert(deployment, &body).await?;
        if dry_run {
            return session.out.show(&plan, |out| plan::render(out, &plan));
        }
        session.out.must_say(plan::summary(&plan));
        if !prompt::confirm("Continue?", true)? {
            return Err(Failure::failed("nothing was changed"));
        }
    }
    let done = session.api.rollback_deployment(deployment, &body).await?;
    recorded(session, &done, &wait).await
}

/// Reports the created rollout and waits for it if requested.
async fn recorded(session: &Session, done: &Rollout, wait: &WaitArgs) -> Outcome {
    session.out.say(format!("Rollout {} affects {}.", done.id, plural(done.total, "device")));
    if wait.requested() {
        return wait::rollout(session, &done.id, wait).await;
    }
    session.out.show(done, |out| super::rollout::render(out, done))?;
    session.out.say(format!("Follow it: margrave rollout wait {}", done.id));
    Ok(())
}

/// A dry run; at a terminal, prompts again for values that the server rejects.
async fn planned(
    session: &Session,
    rollout: &mut CreateRollout,
    parameters: Option<&Parameters>,
    yes: &YesArgs,
) -> Outcome<Plan> {
    let may_prompt = session.out.interactive && !yes.yes;
    for _ in 0..ROUNDS_MAX {
        let error = match session.api.plan_rollout(rollout).await {
            Ok(plan) => return Ok(plan),
            Err(error) => error,
        };
        let again =
            parameters.filter(|_| may_prompt).map(|parameters| wrong_values(&error, parameters)).unwrap_or_default();
        if again.is_empty() {
            return Err(refused(error, rollout));
        }
        for (parameter, message, parameters) in again {
            session.out.must_say(format!("{parameter}: {message}"));
            if let Some(definition) = definition(parameters, &parameter) {
                rollout.values.insert(parameter, prompt::one(session.out, definition)?);
            }
        }
    }
    Err(Failure::usage("the values are still not valid").next("`margrave app parameters` shows the rules"))
}

/// The values that the server rejected, with the reasons.
fn wrong_values<'a>(error: &ClientError, parameters: &'a Parameters) -> Vec<(String, String, &'a Parameters)> {
    let Some(problem) = error.problem() else { return Vec::new() };
    let fields = problem.errors.iter().filter_map(|field| {
        let parameter = field.field.rsplit(['.', '/']).next().unwrap_or(&field.field);
        definition(parameters, parameter).map(|_| (parameter.to_owned(), field.message.clone(), parameters))
    });
    fields.collect()
}

fn refused(error: ClientError, rollout: &CreateRollout) -> Failure {
    let unplaceable = error.code() == Some("unplaceable");
    let no_device = unplaceable && error.problem().is_some_and(|problem| problem.errors.is_empty());
    let application = &rollout.application;
    let mut failure = Failure::from(error);
    // The server names the API field; show the flag instead.
    failure.what = failure.what.replace("`skipIncompatible`", "`--skip-incompatible`");
    match (unplaceable, rollout.kind) {
        _ if no_device => failure.next(match (&rollout.scope.selector, &rollout.scope.group) {
            (_, Some(group)) => format!("`margrave group devices {group}` lists its devices"),
            (Some(selector), _) if !selector.is_empty() => {
                format!("`margrave device list --selector '{selector}'` lists the matching devices, `margrave device list` lists all labels")
            }
            _ => "`margrave client enrollment-token NAME` creates a token to enroll a device".to_owned(),
        }),
        (true, RolloutKind::Create) if !rollout.skip_incompatible => failure.next(format!(
            "`--skip-incompatible` skips these devices; `margrave app compatibility {application}` explains each one"
        )),
        (true, _) => failure.next(format!("`margrave app compatibility {application}` explains each device")),
        _ => failure,
    }
}
