//! `margrave session`: browser sessions.

use super::{CommentArgs, Session, YesArgs, lookup};
use crate::clock;
use crate::failure::Outcome;
use margrave_api::lookup::LookupKind;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum SessionCommand {
    /// Show browser sessions, most recently used first
    #[command(visible_alias = "ls")]
    List,
    /// Sign a browser out
    End {
        /// Session id, or a unique prefix
        id: String,
        #[command(flatten)]
        reason: CommentArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
}

pub(crate) async fn run(command: SessionCommand, session: &Session) -> Outcome {
    match command {
        SessionCommand::List => {
            let sessions = session.api.sessions().await?.items;
            let now = clock::now();
            session.out.show(&sessions, |out| {
                out.table(
                    &["session", "actor", "state", "address", "signed in", "last used", "expires", "browser"],
                    sessions.iter().map(|one| {
                        vec![
                            one.id.clone(),
                            one.actor.clone(),
                            one.state.as_str().to_owned(),
                            one.address.clone(),
                            clock::ago(&one.created_at, now),
                            clock::ago(&one.seen_at, now),
                            clock::ago(&one.expires_at, now),
                            one.browser.clone(),
                        ]
                    }),
                )
            })
        }
        SessionCommand::End { id, reason, yes } => {
            let found = lookup::only(session, LookupKind::Session, &id).await?;
            let owner = found.name.unwrap_or_default();
            session.sure(&format!("Sign out `{owner}` (session {})?", found.id), &yes)?;
            session.api.end_session(&found.id, reason.comment.as_deref()).await?;
            session.out.say(format!("Signed out `{owner}` (session {}).", found.id));
            Ok(())
        }
    }
}
