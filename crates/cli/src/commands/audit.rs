//! `margrave audit`: who changed what, when and why.

use super::{LimitArgs, Session, every};
use crate::clock;
use crate::failure::{Failure, Outcome};
use margrave_api::client::AuditQuery;

/// Enough for a screen; the audit grows for ever.
const RECORDS_DEFAULT: usize = 50;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AuditCommand {
    /// Show records, newest first (50 unless --limit says otherwise)
    #[command(visible_alias = "ls")]
    #[command(after_help = "Examples:
  margrave audit list --subject client/press-07
  margrave audit list --actor operator:admin --since 7d
  margrave audit list --about press --action deployment --since 2026-09-01T00:00:00Z --until 2026-09-02T00:00:00Z")]
    List(ListArgs),
    /// Check the hash chain from the first record to the last
    Verify,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only records about exactly this, such as client/press-01
    #[arg(long)]
    subject: Option<String>,
    /// Only records about something with this in its name: an application, a device, a client, a group
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// Only what this actor did, such as operator:admin, token:ci or client:press-01
    #[arg(long)]
    actor: Option<String>,
    /// Only this action, or all that begin with it: `token.create`, `token`
    #[arg(long)]
    action: Option<String>,
    /// Only what was done since: a time such as 2026-09-21T08:00:00Z, a day in UTC, or a span such as 90s, 1h or 7d
    #[arg(long, value_name = "TIME", value_parser = clock::parse_instant)]
    since: Option<jiff::Timestamp>,
    /// Only what was done before: a time, the end of a day in UTC, or a span back from now
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
            let wanted = limit.get().unwrap_or(RECORDS_DEFAULT);
            let records = every(Some(wanted), async |page| session.api.search_audit(&query, &page).await).await?;
            let now = clock::now();
            session.out.show(&records, |out| {
                out.table(
                    &["record", "when", "who", "did", "to", "why"],
                    records.iter().map(|record| {
                        vec![
                            record.seq.to_string(),
                            clock::ago(&record.at, now),
                            record.actor.clone(),
                            record.action.clone(),
                            record.subject.clone(),
                            record.reason.clone().unwrap_or_default(),
                        ]
                    }),
                )
            })
        }
        AuditCommand::Verify => {
            let verification = session.api.verify_audit().await?;
            session.out.show(&verification, |_| match verification.broken_at {
                None => format!("The chain of {} records is intact.\n", verification.records),
                Some(seq) => format!("The chain of {} records is broken at record {seq}.\n", verification.records),
            })?;
            if verification.intact {
                return Ok(());
            }
            let at = verification.broken_at.unwrap_or_default();
            Err(Failure::failed("the audit was changed from outside")
                .because(format!("record {at} does not fit the one before it"))
                .next("compare it with a backup; everything before this record can be trusted"))
        }
    }
}
