//! `margrave rollout`: rollouts, each one operator decision on one or many devices.

use super::deploy::wait::{self, WaitArgs};
use super::{CommentArgs, LimitArgs, Session, YesArgs, every, lookup};
use crate::clock;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, plural};
use margrave_api::deployments::DeploymentState;
use margrave_api::lookup::LookupKind;
use margrave_api::rollouts::{CancelRollout, RetryRollout, Rollout, RolloutKind, WithdrawRollout};
use margrave_api::summary::Counts;
use std::time::Duration;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum RolloutCommand {
    /// Show rollouts, newest first
    #[command(visible_alias = "ls")]
    List(LimitArgs),
    /// Show one rollout: progress and the states of its devices
    Show {
        /// Rollout id, or a unique prefix
        id: String,
    },
    /// Cancel a rollout on devices it is not published to yet; the others continue
    Cancel {
        /// Rollout id, or a unique prefix
        id: String,
        #[command(flatten)]
        reason: CommentArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
    /// Retry a rollout at once on all devices where it failed
    Retry {
        /// Rollout id, or a unique prefix
        id: String,
        #[command(flatten)]
        reason: CommentArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
    /// Withdraw a rollout on offline devices; they get their previous state when they reconnect
    Withdraw {
        /// Rollout id, or a unique prefix
        id: String,
        #[command(flatten)]
        reason: CommentArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
    /// Wait until every device of a rollout is up to date; fails unless all succeed
    Wait {
        /// Rollout id, or a unique prefix
        id: String,
        /// Stop waiting after this time; the rollout continues
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = clock::parse_span)]
        timeout: Duration,
    },
}

pub(crate) async fn run(command: RolloutCommand, session: &Session) -> Outcome {
    match command {
        RolloutCommand::List(limit) => {
            let rollouts = every(limit.get(), async |page| session.api.rollouts(&page).await).await?;
            let now = clock::now();
            session.out.show(&rollouts, |out| {
                out.table(
                    &[
                        "rollout",
                        "action",
                        "application",
                        "version",
                        "state",
                        "devices",
                        "published",
                        "created",
                        "actor",
                        "comment",
                    ],
                    rollouts.iter().map(|rollout| {
                        vec![
                            rollout.id.clone(),
                            kind_word(rollout.kind).to_owned(),
                            rollout.application.clone(),
                            rollout.version.clone(),
                            rollout.state.as_str().to_owned(),
                            rollout.total.to_string(),
                            rollout.published.to_string(),
                            clock::ago(&rollout.created_at, now),
                            rollout.actor.clone(),
                            rollout.comment.clone().unwrap_or_default(),
                        ]
                    }),
                )
            })
        }
        RolloutCommand::Show { id } => {
            let rollout = find(session, &id).await?;
            session.out.show(&rollout, |out| render(out, &rollout))
        }
        RolloutCommand::Cancel { id, reason, yes } => {
            let rollout = find(session, &id).await?;
            let left = rollout.total.saturating_sub(rollout.published);
            if rollout.finished {
                return Err(Failure::new(Exit::Refused, "already published to every device; nothing left to cancel")
                    .next("use `margrave deployment rollback` or `remove` instead"));
            }
            let question = format!(
                "Cancel this rollout of {}? It is not yet published to {} and continues on {}.",
                rollout.application,
                plural(left, "device"),
                plural(rollout.published, "device")
            );
            session.sure(&question, &yes)?;
            let cancelled = session.api.cancel_rollout(&rollout.id, &CancelRollout { comment: reason.comment }).await?;
            session.out.show(&cancelled, |out| render(out, &cancelled.rollout))?;
            session.out.say(format!("Cancelled; {} not updated.", plural(cancelled.left, "device")));
            Ok(())
        }
        RolloutCommand::Retry { id, reason, yes } => {
            let rollout = find(session, &id).await?;
            let failed =
                rollout.deployments.as_ref().map(|counts| counts.of(DeploymentState::Failed)).unwrap_or_default();
            if failed == 0 {
                return Err(Failure::new(Exit::Refused, "nothing to retry: no deployment of this rollout has failed"));
            }
            session.sure(&format!("Retry {} on {}?", rollout.application, plural(failed, "device")), &yes)?;
            let again = session.api.retry_rollout(&rollout.id, &RetryRollout { comment: reason.comment }).await?;
            session.out.show(&again, |out| render(out, &again))
        }
        RolloutCommand::Withdraw { id, reason, yes } => {
            let rollout = find(session, &id).await?;
            let offline = rollout
                .deployments
                .as_ref()
                .map(|counts| counts.of(DeploymentState::DeviceOffline))
                .unwrap_or_default();
            if offline == 0 {
                let nothing = "nothing to withdraw: this rollout waits for no offline device";
                return Err(Failure::new(Exit::Refused, nothing));
            }
            let find = match rollout.kind {
                RolloutKind::Create => "the application is removed",
                _ => "the previous state is restored",
            };
            let question = format!(
                "Withdraw {} on {}? After reconnecting, {find}.",
                rollout.application,
                plural(offline, "offline device")
            );
            session.sure(&question, &yes)?;
            let withdrawn =
                session.api.withdraw_rollout(&rollout.id, &WithdrawRollout { comment: reason.comment }).await?;
            session.out.show(&withdrawn, |out| {
                withdrawn.rollouts.iter().map(|rollout| render(out, rollout)).collect::<Vec<_>>().join("\n")
            })
        }
        RolloutCommand::Wait { id, timeout } => {
            let id = find(session, &id).await?.id;
            wait::rollout(session, &id, &WaitArgs::always(timeout)).await
        }
    }
}

/// Finds a rollout by its id or a unique prefix.
async fn find(session: &Session, text: &str) -> Outcome<Rollout> {
    if text.len() == 36 {
        return Ok(session.api.rollout(text).await?);
    }
    let found = lookup::only(session, LookupKind::Rollout, text).await?;
    Ok(session.api.rollout(&found.id).await?)
}

/// `upgrade`, or `roll back to 2`.
pub(crate) fn action_words(kind: RolloutKind, rollback_to: Option<i64>) -> String {
    rollback_to.map_or_else(|| kind_word(kind).to_owned(), |revision| format!("roll back to {revision}"))
}

pub(crate) fn kind_word(kind: RolloutKind) -> &'static str {
    match kind {
        RolloutKind::Create => "create",
        RolloutKind::Reconfigure => "reconfigure",
        RolloutKind::Upgrade => "upgrade",
        RolloutKind::Remove => "remove",
    }
}

pub(crate) fn render(out: Output, rollout: &Rollout) -> String {
    let now = clock::now();
    let listed = |counts: &Counts| {
        let counts = counts.0.iter().filter(|(_, count)| **count > 0);
        counts.map(|(state, count)| format!("{count} {}", state.as_str())).collect::<Vec<_>>().join(", ")
    };
    let values: Vec<String> = rollout.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let values = values.join("\n");
    let past = if rollout.kind == RolloutKind::Remove { "Deleted since" } else { "Superseded" };
    let skipped = rollout.skipped.iter().map(|skipped| format!("{}: {}", skipped.deployment, skipped.reason));
    out.fields(&[
        ("Rollout", rollout.id.clone()),
        (
            "Action",
            format!("{} {} {}", action_words(rollout.kind, rollout.rollback_to), rollout.application, rollout.version),
        ),
        ("State", rollout.state.as_str().to_owned()),
        ("Published", format!("{} of {}", rollout.published, rollout.total)),
        ("Devices", rollout.deployments.as_ref().map(listed).unwrap_or_default()),
        (past, listed(&rollout.past)),
        ("Values", values),
        ("Skipped", skipped.collect::<Vec<_>>().join("\n")),
        ("Actor", rollout.actor.clone()),
        ("Comment", rollout.comment.clone().unwrap_or_default()),
        ("Created", clock::ago(&rollout.created_at, now)),
        ("All published", rollout.finished_at.as_deref().map(|at| clock::ago(at, now)).unwrap_or_default()),
    ])
}
