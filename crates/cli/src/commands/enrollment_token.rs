//! `margrave enrollment-token`: enrollment tokens, created by `margrave client enrollment-token`.

use super::{CommentArgs, Session, YesArgs};
use crate::clock;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::plural;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum EnrollmentTokenCommand {
    /// Show enrollment tokens, newest first, without the secrets
    #[command(visible_alias = "ls")]
    List,
    /// Revoke the unused enrollment tokens of a client
    Revoke {
        /// Client id of the tokens
        client: String,
        #[command(flatten)]
        reason: CommentArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
}

pub(crate) async fn run(command: EnrollmentTokenCommand, session: &Session) -> Outcome {
    match command {
        EnrollmentTokenCommand::List => {
            let enrollment_tokens = session.api.enrollment_tokens().await?.items;
            let now = clock::now();
            session.out.show(&enrollment_tokens, |out| {
                out.table(
                    &["client", "state", "created", "expires", "used"],
                    enrollment_tokens.iter().map(|one| {
                        vec![
                            one.client.clone(),
                            one.state.as_str().to_owned(),
                            clock::ago(&one.created_at, now),
                            clock::ago(&one.expires_at, now),
                            one.used_at.as_deref().map(|at| clock::ago(at, now)).unwrap_or_default(),
                        ]
                    }),
                )
            })
        }
        EnrollmentTokenCommand::Revoke { client, reason, yes } => {
            session.sure(&format!("Revoke the active enrollment tokens of {client}?"), &yes)?;
            let withdrawn = session.api.revoke_enrollment_tokens(&client, reason.comment.as_deref()).await?;
            if withdrawn.tokens == 0 {
                return Err(Failure::new(Exit::NotFound, format!("{client} has no active enrollment token"))
                    .next("`margrave enrollment-token list` lists all"));
            }
            session.out.show(&withdrawn, |_| String::new())?;
            session.out.say(format!("Revoked {} of {client}.", plural(withdrawn.tokens, "enrollment token")));
            Ok(())
        }
    }
}
