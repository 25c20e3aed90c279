//! `margrave token`: API tokens for operators and programs.

use super::{CommentArgs, Session, YesArgs, lookup};
use crate::clock;
use crate::failure::Outcome;
use margrave_api::access::CreateToken;
use margrave_api::lookup::LookupKind;
use std::time::Duration;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print its secret once
    #[command(after_help = "Examples:
  margrave token create ci --valid-for 30d > ci.token
  margrave token create ci -o json")]
    Create {
        /// Name of the token; the actor in the audit log
        name: String,
        /// Validity, such as 12h or 30d; no expiry if not given
        #[arg(long, value_name = "TIME", value_parser = clock::parse_span)]
        valid_for: Option<Duration>,
        #[command(flatten)]
        reason: CommentArgs,
    },
    /// Show all tokens, without their secrets
    #[command(visible_alias = "ls")]
    List,
    /// Revoke a token
    Revoke {
        /// Token id, or a unique prefix
        id: String,
        #[command(flatten)]
        reason: CommentArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
}

pub(crate) async fn run(command: TokenCommand, session: &Session) -> Outcome {
    match command {
        TokenCommand::Create { name, valid_for, reason } => {
            let body =
                CreateToken { name, valid_for_seconds: valid_for.map(|time| time.as_secs()), comment: reason.comment };
            let token = session.api.create_token(&body).await?;
            session.out.show(&token, |_| format!("{}\n", token.secret.clone().unwrap_or_default()))?;
            session
                .out
                .say(format!("Token {} for `{}`. It is shown only once; save it to a file.", token.id, token.name));
            Ok(())
        }
        TokenCommand::List => {
            let tokens = session.api.tokens().await?.items;
            let now = clock::now();
            session.out.show(&tokens, |out| {
                out.table(
                    &["token", "name", "created", "expires", "state"],
                    tokens.iter().map(|token| {
                        vec![
                            token.id.clone(),
                            token.name.clone(),
                            clock::ago(&token.created_at, now),
                            token.expires_at.as_deref().map_or_else(|| "never".to_owned(), |at| clock::ago(at, now)),
                            token.state.as_str().to_owned(),
                        ]
                    }),
                )
            })
        }
        TokenCommand::Revoke { id, reason, yes } => {
            let token = lookup::only(session, LookupKind::Token, &id).await?;
            let name = token.name.unwrap_or_default();
            session.sure(&format!("Revoke token {} of `{name}`?", token.id), &yes)?;
            session.api.revoke_token(&token.id, reason.comment.as_deref()).await?;
            session.out.say(format!("Revoked token {} of `{name}`.", token.id));
            Ok(())
        }
    }
}
