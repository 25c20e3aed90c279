//! `margrave token`: API tokens for people and machines.

use super::{ReasonArgs, Session, YesArgs, only};
use crate::clock;
use crate::failure::Outcome;
use margrave_api::access::CreateToken;
use std::time::Duration;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print its secret, once
    #[command(after_help = "Examples:
  margrave token create ci --valid-for 30d > ci.token
  margrave token create ci -o json")]
    Create {
        /// Whose token it is; shown in the audit as the actor
        name: String,
        /// How long it is valid, such as 12h or 30d; without an end if left out
        #[arg(long, value_name = "TIME", value_parser = clock::parse_span)]
        valid_for: Option<Duration>,
        #[command(flatten)]
        reason: ReasonArgs,
    },
    /// Show every token, without its secret
    #[command(visible_alias = "ls")]
    List,
    /// Make a token useless from now on
    Revoke {
        /// Id of the token, or enough of its first characters
        id: String,
        #[command(flatten)]
        reason: ReasonArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
}

pub(crate) async fn run(command: TokenCommand, session: &Session) -> Outcome {
    match command {
        TokenCommand::Create { name, valid_for, reason } => {
            let body =
                CreateToken { name, valid_for_seconds: valid_for.map(|time| time.as_secs()), reason: reason.reason };
            let token = session.api.create_token(&body).await?;
            session.out.show(&token, |_| format!("{}\n", token.secret.clone().unwrap_or_default()))?;
            session
                .out
                .say(format!("Token {} for `{}`. It is shown only here; keep it in a file.", token.id, token.name));
            Ok(())
        }
        TokenCommand::List => {
            let tokens = session.api.tokens().await?.items;
            let now = clock::now();
            session.out.show(&tokens, |out| {
                out.table(
                    &["token", "name", "created", "expires", "state"],
                    tokens.iter().map(|token| {
                        let expired = token
                            .expires_at
                            .as_deref()
                            .and_then(|at| at.parse::<jiff::Timestamp>().ok())
                            .is_some_and(|at| at <= now);
                        let state = match &token.revoked_at {
                            Some(_) => "revoked",
                            None if expired => "expired",
                            None => "ok",
                        };
                        vec![
                            token.id.clone(),
                            token.name.clone(),
                            clock::ago(&token.created_at, now),
                            token.expires_at.as_deref().map_or_else(|| "never".to_owned(), |at| clock::ago(at, now)),
                            state.to_owned(),
                        ]
                    }),
                )
            })
        }
        TokenCommand::Revoke { id, reason, yes } => {
            let token = only(session.api.tokens().await?.items, "token", &id, |token| &token.id)?;
            session.sure(&format!("Revoke token {} of `{}`?", token.id, token.name), &yes)?;
            session.api.revoke_token(&token.id, reason.reason.as_deref()).await?;
            session.out.say(format!("Revoked token {} of `{}`.", token.id, token.name));
            Ok(())
        }
    }
}
