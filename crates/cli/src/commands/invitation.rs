//! `margrave invitation`: one-time tokens devices join with, made by `margrave client enrol-token`.

use super::{ReasonArgs, Session, YesArgs};
use crate::clock;
use crate::failure::{Exit, Failure, Outcome};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum InvitationCommand {
    /// Show the enrolment tokens that were made, newest first, without the tokens themselves
    #[command(visible_alias = "ls")]
    List,
    /// Withdraw the enrolment tokens of a client that nobody has used yet
    Withdraw {
        /// Id of the client they were made for
        client: String,
        #[command(flatten)]
        reason: ReasonArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
}

pub(crate) async fn run(command: InvitationCommand, session: &Session) -> Outcome {
    match command {
        InvitationCommand::List => {
            let invitations = session.api.invitations().await?.items;
            let now = clock::now();
            session.out.show(&invitations, |out| {
                out.table(
                    &["client", "state", "made", "ends", "used"],
                    invitations.iter().map(|one| {
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
        InvitationCommand::Withdraw { client, reason, yes } => {
            session.sure(&format!("Withdraw the open invitations of {client}?"), &yes)?;
            let withdrawn = session.api.withdraw_invitations(&client, reason.reason.as_deref()).await?;
            if withdrawn.tokens == 0 {
                return Err(Failure::new(Exit::NotFound, format!("{client} has no open invitation"))
                    .next("`margrave invitation list` shows all"));
            }
            session.out.show(&withdrawn, |_| String::new())?;
            session.out.say(format!("Withdrew {} invitation(s) of {client}.", withdrawn.tokens));
            Ok(())
        }
    }
}
