//! `margrave client`: who may connect.

mod mint;
mod mirror;
mod preload;

use super::{LimitArgs, ReasonArgs, Session, YesArgs, every};
use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use margrave_api::clients::{Client, ClientState, CreateClient, CreateEnrolmentToken, EnrolmentToken};
use std::time::Duration;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ClientCommand {
    /// Show every client
    #[command(visible_alias = "ls")]
    List {
        /// Only those in this state
        #[arg(long, value_parser = state_word)]
        state: Option<ClientState>,
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Show one client
    Show {
        /// Id of the client, the last part of its SPIFFE ID
        id: String,
    },
    /// Let a client in; it is created if nobody has heard of it
    Accept {
        /// Id of the client, the last part of its SPIFFE ID
        id: String,
        /// A note for people, kept with a client that is created
        #[arg(long)]
        note: Option<String>,
        #[command(flatten)]
        reason: ReasonArgs,
    },
    /// Shut a client out from its next request on
    Retire {
        /// Id of the client, the last part of its SPIFFE ID
        id: String,
        #[command(flatten)]
        reason: ReasonArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
    /// Make a key, get a certificate for it, accept the client, and write all into a folder
    Mint(mint::MintArgs),
    /// Print what lets a device's container runtime pull through the server's own registry, references unchanged
    MirrorConfig(mirror::MirrorArgs),
    /// Write a signed file with which a device begins before it has heard from the server
    Preload(preload::PreloadArgs),
    /// Make a one-time token with which a device enrols, and show the command to paste there
    EnrolToken {
        /// Id of the client, the last part of its SPIFFE ID
        id: String,
        /// How long the token can be used, such as 1h or 7d
        #[arg(long, value_name = "TIME", value_parser = clock::parse_span)]
        valid_for: Option<Duration>,
        /// Also when a client of this name has been here: whatever joins becomes it
        #[arg(long)]
        again: bool,
        #[command(flatten)]
        reason: ReasonArgs,
    },
}

pub(crate) async fn run(command: ClientCommand, session: &Session) -> Outcome {
    match command {
        ClientCommand::List { state, limit } => {
            let clients = every(limit.get(), async |page| match state {
                Some(state) => session.api.clients_in(state, &page).await,
                None => session.api.clients(&page).await,
            })
            .await?;
            session.out.show(&clients, |out| table(out, &clients))
        }
        ClientCommand::Show { id } => {
            let client = session.api.client(&id).await?;
            session.out.show(&client, |out| render(out, &client))
        }
        ClientCommand::Accept { id, note, reason } => {
            let client = accept(session, &id, note, reason.reason).await?;
            session.out.show(&client, |out| render(out, &client))
        }
        ClientCommand::Retire { id, reason, yes } => {
            session.sure(&format!("Shut client {id} out?"), &yes)?;
            let client = session.api.retire_client(&id, reason.reason.as_deref()).await?;
            session.out.show(&client, |out| render(out, &client))
        }
        ClientCommand::Mint(args) => mint::run(session, args).await,
        ClientCommand::MirrorConfig(args) => mirror::run(session, args).await,
        ClientCommand::Preload(args) => preload::run(session, args).await,
        ClientCommand::EnrolToken { id, valid_for, again, reason } => {
            let valid_for_seconds = valid_for.map(|time| time.as_secs());
            let body = CreateEnrolmentToken { valid_for_seconds, again, reason: reason.reason };
            let token = invite(session, &id, body).await?;
            session.out.show(&token, |_| enrol_command(&token))?;
            session.out.say(format!(
                "Run this on the device, once, until {}. The token is shown only here.",
                token.expires_at
            ));
            session.out.say(AGENT);
            Ok(())
        }
    }
}

/// Asks once more for a name that is in use; where nobody can be asked, `--again` must be there.
async fn invite(session: &Session, id: &str, body: CreateEnrolmentToken) -> Outcome<EnrolmentToken> {
    match session.api.create_enrolment_token(id, &body).await {
        Err(error) if error.code() == Some("in-use") => {
            let refused = Failure::from(error);
            if !session.out.interactive {
                return Err(refused.next("add --again if that is what you want"));
            }
            session.out.say(&refused.what);
            if !crate::ask::confirm(&format!("Invite {id} again?"), false)? {
                return Err(Failure::failed("nothing was changed"));
            }
            Ok(session.api.create_enrolment_token(id, &CreateEnrolmentToken { again: true, ..body }).await?)
        }
        other => Ok(other?),
    }
}

/// What somebody needs who has the command and nothing to run it with.
const AGENT: &str = "\
margrave-agent comes from the source of Margrave: `make dist` makes a Debian package and a container image,
`cargo build --release -p margrave-agent` the program alone. Then start it with `margrave-agent run`.
It runs applications with `[compose]` or `[kubernetes]` in its configuration; without, it joins, runs none, and
says which lines to add for what the device has.";

/// Accepts a client whether or not it is known.
async fn accept(session: &Session, id: &str, note: Option<String>, reason: Option<String>) -> Outcome<Client> {
    match session.api.client(id).await {
        Ok(client) if client.state == ClientState::Accepted => Ok(client),
        Ok(_) => Ok(session.api.accept_client(id, reason.as_deref()).await?),
        Err(error) if error.code() == Some("not-found") => {
            let body = CreateClient { id: id.to_owned(), state: Some(ClientState::Accepted), note, reason };
            Ok(session.api.create_client(&body).await?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Ready to paste: everything the device needs to know, and nothing it has to trust blindly.
fn enrol_command(token: &EnrolmentToken) -> String {
    let EnrolmentToken { trust_url, pin, token, .. } = token;
    // Through a pipe: every user of the device could read an argument while the command runs. `printf` is the shell's.
    format!("printf %s {token} | margrave-agent enrol --trust-url {trust_url} --pin {pin} --token-file /dev/stdin\n")
}

fn state_word(text: &str) -> Result<ClientState, String> {
    ClientState::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
        let all: Vec<_> = ClientState::ALL.iter().map(|state| state.as_str()).collect();
        format!("one of {}", all.join(", "))
    })
}

fn table(out: Output, clients: &[Client]) -> String {
    let now = clock::now();
    out.table(
        &["client", "state", "seen", "manifest", "note"],
        clients.iter().map(|client| {
            vec![
                client.id.clone(),
                client.state.as_str().to_owned(),
                clock::contact(client.last_seen_at.as_deref(), now),
                client.manifest_version.to_string(),
                client.note.clone().unwrap_or_default(),
            ]
        }),
    )
}

fn render(out: Output, client: &Client) -> String {
    let now = clock::now();
    out.fields(&[
        ("Client", client.id.clone()),
        ("SPIFFE ID", client.spiffe_id.clone()),
        ("State", client.state.as_str().to_owned()),
        ("Note", client.note.clone().unwrap_or_default()),
        ("Created", clock::ago(&client.created_at, now)),
        ("Seen", clock::contact(client.last_seen_at.as_deref(), now)),
        ("Asked, not let in", client.last_asked_at.as_deref().map(|at| clock::ago(at, now)).unwrap_or_default()),
        ("Manifest version", client.manifest_version.to_string()),
    ])
}
