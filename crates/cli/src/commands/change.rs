//! `margrave change`: one intent over one or many devices.

use super::deploy::wait::{self, WaitArgs};
use super::{LimitArgs, ReasonArgs, Session, YesArgs, every, only};
use crate::clock;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use margrave_api::changes::{CallOffChange, CancelChange, Change, ChangeKind, RetryChange};
use margrave_api::deployments::Convergence;
use margrave_api::summary::Counts;
use std::time::Duration;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ChangeCommand {
    /// Show changes, newest first
    #[command(visible_alias = "ls")]
    List(LimitArgs),
    /// Show one change: how far it is, and how its devices do
    Show {
        /// Id of the change, or enough of its first characters
        id: String,
    },
    /// Cancel the rest of a change: devices not told yet stay as they are, the others go on
    Cancel {
        /// Id of the change, or enough of its first characters
        id: String,
        #[command(flatten)]
        reason: ReasonArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
    /// Try again at once what failed of a change, on all its devices together
    Retry {
        /// Id of the change, or enough of its first characters
        id: String,
        #[command(flatten)]
        reason: ReasonArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
    /// Call a change off where it waits for devices that do not call: they find what they had before instead
    CallOff {
        /// Id of the change, or enough of its first characters
        id: String,
        #[command(flatten)]
        reason: ReasonArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
    /// Wait until every device of a change has it; fails unless all succeed
    Wait {
        /// Id of the change, or enough of its first characters
        id: String,
        /// Give up after this long; the change goes on
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = clock::parse_span)]
        timeout: Duration,
    },
}

pub(crate) async fn run(command: ChangeCommand, session: &Session) -> Outcome {
    match command {
        ChangeCommand::List(limit) => {
            let changes = every(limit.get(), async |page| session.api.changes(&page).await).await?;
            let now = clock::now();
            session.out.show(&changes, |out| {
                out.table(
                    &["change", "what", "application", "version", "devices", "published", "when", "who", "why"],
                    changes.iter().map(|change| {
                        vec![
                            change.id.clone(),
                            kind_word(change.kind).to_owned(),
                            change.application.clone(),
                            change.version.clone(),
                            change.total.to_string(),
                            change.published.to_string(),
                            clock::ago(&change.created_at, now),
                            change.actor.clone(),
                            change.reason.clone().unwrap_or_default(),
                        ]
                    }),
                )
            })
        }
        ChangeCommand::Show { id } => {
            let change = find(session, &id).await?;
            session.out.show(&change, |out| render(out, &change))
        }
        ChangeCommand::Cancel { id, reason, yes } => {
            let change = find(session, &id).await?;
            let left = change.total.saturating_sub(change.published);
            if change.finished {
                return Err(Failure::new(Exit::Refused, "every device was told already; nothing is left to cancel")
                    .next("`margrave deployment revert` or `remove` changes what devices have"));
            }
            let question = format!(
                "Cancel the rest of this change of {}? {left} device(s) stay as they are; {} told already go on.",
                change.application, change.published
            );
            session.sure(&question, &yes)?;
            let cancelled = session.api.cancel_change(&change.id, &CancelChange { reason: reason.reason }).await?;
            session.out.show(&cancelled, |out| render(out, &cancelled.change))?;
            session.out.say(format!("Cancelled; {} device(s) stay as they are.", cancelled.left));
            Ok(())
        }
        ChangeCommand::Retry { id, reason, yes } => {
            let change = find(session, &id).await?;
            let failed = change.deployments.as_ref().map(|counts| counts.of(Convergence::Failed)).unwrap_or_default();
            if failed == 0 {
                return Err(Failure::new(Exit::Refused, "nothing of it has failed, so there is nothing to try again"));
            }
            session.sure(&format!("Try {} again on {failed} device(s)?", change.application), &yes)?;
            let again = session.api.retry_change(&change.id, &RetryChange { reason: reason.reason }).await?;
            session.out.show(&again, |out| render(out, &again))
        }
        ChangeCommand::CallOff { id, reason, yes } => {
            let change = find(session, &id).await?;
            let silent =
                change.deployments.as_ref().map(|counts| counts.of(Convergence::NotHeardOf)).unwrap_or_default();
            if silent == 0 {
                let nothing = "it waits for no device that does not call, so there is nothing to call off";
                return Err(Failure::new(Exit::Refused, nothing));
            }
            let find = match change.kind {
                ChangeKind::Create => "it is removed there",
                _ => "they go back to what they had before",
            };
            let question = format!(
                "Call {} off on {silent} device(s) that do not call? When they come back, {find}.",
                change.application
            );
            session.sure(&question, &yes)?;
            let called_off = session.api.call_off_change(&change.id, &CallOffChange { reason: reason.reason }).await?;
            session.out.show(&called_off, |out| {
                called_off.changes.iter().map(|change| render(out, change)).collect::<Vec<_>>().join("\n")
            })
        }
        ChangeCommand::Wait { id, timeout } => {
            let id = find(session, &id).await?.id;
            wait::change(session, &id, &WaitArgs::always(timeout)).await
        }
    }
}

/// A whole id, or as much of it as no other starts with.
async fn find(session: &Session, text: &str) -> Outcome<Change> {
    if text.len() == 36 {
        return Ok(session.api.change(text).await?);
    }
    let all = every(None, async |page| session.api.changes(&page).await).await?;
    let id = only(all, "change", text, |change| &change.id)?.id;
    Ok(session.api.change(&id).await?)
}

pub(crate) fn kind_word(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Create => "create",
        ChangeKind::Reconfigure => "reconfigure",
        ChangeKind::Upgrade => "upgrade",
        ChangeKind::Remove => "remove",
    }
}

pub(crate) fn render(out: Output, change: &Change) -> String {
    let now = clock::now();
    let listed = |counts: &Counts| {
        let counts = counts.0.iter().filter(|(_, count)| **count > 0);
        counts.map(|(state, count)| format!("{count} {}", state.as_str())).collect::<Vec<_>>().join(", ")
    };
    let answers: Vec<String> = change.answers.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let answers = answers.join("\n");
    let past = if change.kind == ChangeKind::Remove { "Forgotten since" } else { "Changed again" };
    let skipped = change.skipped.iter().map(|skipped| format!("{}: {}", skipped.deployment, skipped.reason));
    out.fields(&[
        ("Change", change.id.clone()),
        ("What", format!("{} {} {}", kind_word(change.kind), change.application, change.version)),
        ("Published", format!("{} of {}", change.published, change.total)),
        ("Devices", change.deployments.as_ref().map(listed).unwrap_or_default()),
        (past, listed(&change.past)),
        ("Answers", answers),
        ("Skipped", skipped.collect::<Vec<_>>().join("\n")),
        ("Who", change.actor.clone()),
        ("Why", change.reason.clone().unwrap_or_default()),
        ("Created", clock::ago(&change.created_at, now)),
        ("All published", change.finished_at.as_deref().map(|at| clock::ago(at, now)).unwrap_or_default()),
    ])
}
