//! `margrave audit`: list and verify the audit log.

use super::{LimitArgs, Session, every};
use crate::clock;
use crate::failure::{Failure, Outcome};
use margrave_api::client::AuditQuery;

/// Default number of records, because the audit log grows without bound.
const RECORDS_DEFAULT: usize = 50;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AuditCommand {
    /// Show records, newest first (50 unless --limit is given)
    #[command(visible_alias = "ls")]
    #[command(after_help = "Examples:
  margrave audit list --subject client/press-07
  margrave audit list --actor operator:admin --since 7d
  margrave audit list --about press --action deployment --since 2026-09-01T00:00:00Z --until 2026-09-02T00:00:00Z")]
    List(ListArgs),
    /// Verify the integrity of the hash chain from the first record to the last
    Verify,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only records with exactly this target, such as client/press-01
    #[arg(long)]
    subject: Option<String>,
    /// Only records whose target name contains this text: an application, device, client or group
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// Only records of this actor, such as operator:admin, token:ci or client:press-01
    #[arg(long)]
    actor: Option<String>,
    /// Only this action or prefix: `token.create`, `token`
    #[arg(long)]
    action: Option<String>,
    /// Only records since a time such as 2026-09-21T08:00:00Z, a day in UTC, or a span such as 90s, 1h or 7d
    #[arg(long, value_name = "TIME", value_parser = clock::parse_instant)]
    since: Option<jiff::Timestamp>,
    /// Only records before a time, the end of a day in UTC, or a span back from now
    #[arg(long, value_name = "TIME", value_parser = clock::parse_end)]
    until: Option<jiff::Timestamp>,
    #[command(flatten)]
    limit: LimitArgs,
}

pub(crate) async fn run(command: AuditCommand, session: &Session) -> Outcome {
    match command {
        AuditCommand::List(args) => {
            let ListArgs { subject, about, actor, action, since, until, limit } = args;
            let (since, until) = (since.map(|at| at.to_string()), until.map(|at| at.to_string()));
            let query = AuditQuery { subject, about, actor, action, since, until };
            let requested = limit.get().unwrap_or(RECORDS_DEFAULT);
            let records = every(Some(requested), async |page| session.api.search_audit(&query, &page).await).await?;
            let now = clock::now();
            session.out.show(&records, |out| {
                out.table(
                    &["record", "time", "actor", "action", "target", "comment"],
                    records.iter().map(|record| {
                        vec![
                            record.seq.to_string(),
                            clock::ago(&record.at, now),
                            record.actor.clone(),
                            record.action.clone(),
                            record.subject.clone(),
                            record.comment.clone().unwrap_or_default(),
                        ]
                    }),
                )
            })
        }
        AuditCommand::Verify => {
            let verification = session.api.verify_audit().await?;
            session.out.show(&verification, |_| match verification.broken_at {
                None => format!("Verified: {} records, no gaps or changes.\n", verification.records),
                Some(seq) => {
                    format!("Not intact: {} records, the chain is broken at record {seq}.\n", verification.records)
                }
            })?;
            if verification.intact {
                return Ok(());
            }
            let at = verification.broken_at.unwrap_or_default();
            Err(Failure::failed("the audit log was modified outside the server")
                .because(format!("record {at} does not match the record before it"))
                .next("compare it with a backup; all earlier records can be trusted"))
        }
    }
}
