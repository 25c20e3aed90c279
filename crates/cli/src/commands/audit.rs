//! `margrave audit`: who changed what, when and why.

use super::{LimitArgs, Session, every};
use crate::clock;
use crate::failure::{Failure, Outcome};

/// Enough for a screen; the audit grows for ever.
const RECORDS_DEFAULT: usize = 50;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AuditCommand {
    /// Show records, newest first (50 unless --limit says otherwise)
    #[command(visible_alias = "ls")]
    List {
        /// Only records about this, such as client/press-01
        #[arg(long)]
        subject: Option<String>,
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Check the hash chain from the first record to the last
    Verify,
}

pub(crate) async fn run(command: AuditCommand, session: &Session) -> Outcome {
    match command {
        AuditCommand::List { subject, limit } => {
            let wanted = limit.get().unwrap_or(RECORDS_DEFAULT);
            let records = every(Some(wanted), async |page| session.api.audit(subject.as_deref(), &page).await).await?;
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
