//! `margrave client`: the clients that may connect.

mod mint;
mod mirror;
mod preload;

use super::{CommentArgs, LimitArgs, Session, YesArgs, every};
use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use margrave_api::clients::{Client, ClientState, CreateClient, CreateEnrollmentToken, IssuedEnrollmentToken};
use std::time::Duration;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ClientCommand {
    /// Show all clients
    #[command(visible_alias = "ls")]
    List {
        /// Only clients in this state
        #[arg(long, value_parser = state_word)]
        state: Option<ClientState>,
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Show one client
    Show {
        /// Client id, the last part of its SPIFFE ID
        id: String,
    },
    /// Accept a client; creates it if it does not exist
    Accept {
        /// Client id, the last part of its SPIFFE ID
        id: String,
        /// Note stored with a new client
        #[arg(long)]
        note: Option<String>,
        #[command(flatten)]
        reason: CommentArgs,
    },
    /// Reject a pending client; the server keeps rejecting its requests
    Reject {
        /// Client id, the last part of its SPIFFE ID
        id: String,
        #[command(flatten)]
        reason: CommentArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
    /// Decommission a client; the server rejects its next request
    Decommission {
        /// Client id, the last part of its SPIFFE ID
        id: String,
        #[command(flatten)]
        reason: CommentArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
    /// Create a key and a certificate, accept the client, and write the files to a folder
    Mint(mint::MintArgs),
    /// Print the container runtime configuration for pulling through the embedded registry with unchanged references
    MirrorConfig(mirror::MirrorArgs),
    /// Write a signed file from which a device starts before its first connection to the server
    Preload(preload::PreloadArgs),
    /// Create a one-time enrollment token and show the command to run on the device
    EnrollmentToken {
        /// Client id, the last part of its SPIFFE ID
        id: String,
        /// Validity of the token, such as 1h or 7d
        #[arg(long, value_name = "TIME", value_parser = clock::parse_span)]
        valid_for: Option<Duration>,
        /// Allow an existing client id; a device that enrolls with this token replaces that client
        #[arg(long)]
        again: bool,
        #[command(flatten)]
        reason: CommentArgs,
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
            let client = accept(session, &id, note, reason.comment).await?;
            session.out.show(&client, |out| render(out, &client))
        }
        ClientCommand::Reject { id, reason, yes } => {
            let id = session.api.client(&id).await?.id;
            session.sure(&format!("Reject client {id}?"), &yes)?;
            let client = session.api.reject_client(&id, reason.comment.as_deref()).await?;
            session.out.show(&client, |out| render(out, &client))
        }
        ClientCommand::Decommission { id, reason, yes } => {
            let id = session.api.client(&id).await?.id;
            session.sure(&format!("Decommission client {id}?"), &yes)?;
            let client = session.api.decommission_client(&id, reason.comment.as_deref()).await?;
            session.out.show(&client, |out| render(out, &client))
        }
        ClientCommand::Mint(args) => mint::run(session, args).await,
        ClientCommand::MirrorConfig(args) => mirror::run(session, args).await,
        ClientCommand::Preload(args) => preload::run(session, args).await,
        ClientCommand::EnrollmentToken { id, valid_for, again, reason } => {
            let valid_for_seconds = valid_for.map(|time| time.as_secs());
            let body = CreateEnrollmentToken { valid_for_seconds, again, comment: reason.comment };
            let token = create_token(session, &id, body).await?;
            session.out.show(&token, |_| enroll_command(&token))?;
            session.out.say(format!(
                "Run this command once on the device before {}. The token is shown only once.",
                token.expires_at
            ));
            session.out.say(AGENT);
            Ok(())
        }
    }
}

/// Asks for confirmation if the client id is in use. Without a terminal, `--again` is required.
async fn create_token(session: &Session, id: &str, body: CreateEnrollmentToken) -> Outcome<IssuedEnrollmentToken> {
    match session.api.create_enrollment_token(id, &body).await {
        Err(error) if error.code() == Some("in-use") => {
            let refused = Failure::from(error);
            if !session.out.interactive {
                return Err(refused.next("add --again to replace the existing client"));
            }
            session.out.say(&refused.what);
            if !crate::prompt::confirm(&format!("Create another token for {id}?"), false)? {
                return Err(Failure::failed("nothing was changed"));
            }
            Ok(session.api.create_enrollment_token(id, &CreateEnrollmentToken { again: true, ..body }).await?)
        }
        other => Ok(other?),
    }
}

/// How to get the agent that runs the command.
const AGENT: &str = "\
Build margrave-agent from the Margrave source: `make dist` builds a Debian package and a container image,
`cargo build --release -p margrave-agent` builds only the program. Start it with `margrave-agent run`.
To run applications, its configuration needs `[compose]` or `[kubernetes]`; without them it enrolls, runs no
applications, and prints the lines to add for the runtimes of the device.";

/// Accepts a client; creates it if it does not exist.
async fn accept(session: &Session, id: &str, note: Option<String>, reason: Option<String>) -> Outcome<Client> {
    match session.api.client(id).await {
        Ok(client) if client.state == ClientState::Accepted => Ok(client),
        Ok(_) => Ok(session.api.accept_client(id, reason.as_deref()).await?),
        Err(error) if error.code() == Some("not-found") => {
            let body = CreateClient { id: id.to_owned(), state: Some(ClientState::Accepted), note, comment: reason };
            Ok(session.api.create_client(&body).await?)
        }
        Err(error) => Err(error.into()),
    }
}

/// The command to run on the device. The pin lets the device verify the server.
fn enroll_command(token: &IssuedEnrollmentToken) -> String {
    let IssuedEnrollmentToken { trust_url, pin, token, .. } = token;
    // Through a pipe, because other users of the device can read arguments. `printf` is a shell builtin.
    format!("printf %s {token} | margrave-agent enroll --trust-url {trust_url} --pin {pin} --token-file /dev/stdin\n")
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
        &["client", "state", "last seen", "manifest", "note"],
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
        ("Last seen", clock::contact(client.last_seen_at.as_deref(), now)),
        (
            "Rejected version",
            client.rejected_version.map(|version| format!("{version}, which no server has issued")).unwrap_or_default(),
        ),
        ("Last rejected", client.last_rejected_at.as_deref().map(|at| clock::ago(at, now)).unwrap_or_default()),
        ("Manifest version", client.manifest_version.to_string()),
    ])
}
