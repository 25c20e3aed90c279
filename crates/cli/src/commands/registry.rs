//! `margrave registry`: the registry inside the server, others that packages come from, and copies from them.

mod others;

use super::{LimitArgs, ReasonArgs, Session, YesArgs, every, only};
use crate::clock;
use crate::failure::Outcome;
use indicatif::HumanBytes;
use margrave_api::copies::Copy;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum RegistryCommand {
    /// Show the registry of the server: its address, what it holds, what it may hold
    Show,
    /// Show the repositories of the registry
    #[command(visible_alias = "ls")]
    List(LimitArgs),
    /// Take away what nothing refers to
    Collect,
    /// Show other registries the server keeps, with what came of the last check
    Others,
    /// Keep another registry, so that imports and copies from it need no user and password
    #[command(after_help = "Examples:
  margrave registry add registry.example --username ci
  margrave registry add registry.example:5000 --username ci --password-stdin < password.txt
  margrave registry add registry.example --username ci --password-file token.txt --registry-ca ca.pem
  margrave registry add 127.0.0.1:5000 --plain-http

The password is asked for, or read from stdin or a file; it is never an argument, which others could see.
The server keeps it sealed, sends it to this registry only, and shows it to nobody.
The registry is asked at once; whatever it says, it is kept. `margrave registry check` asks it again.")]
    Add(others::AddArgs),
    /// Change how another registry is asked; what is not given stays
    #[command(after_help = "Examples:
  margrave registry change registry.example --password-stdin < password.txt
  margrave registry change registry.example --username robot --password-file token.txt
  margrave registry change registry.example --registry-ca ca.pem --reason \"new CA\"
  margrave registry change registry.example --no-login")]
    Change(others::ChangeArgs),
    /// Ask another registry whether it is there and takes the user and password
    #[command(after_help = "Examples:
  margrave registry check registry.example
  margrave registry check registry.example -o json

The server asks, as it would for an import. Exit code 1 says that it cannot be used; the reason is in words:
its name is not found, nothing listens there, its certificate is not trusted, the password is wrong, it is no registry.")]
    Check(others::CheckArgs),
    /// Forget another registry and its password; what came from it stays
    #[command(visible_alias = "rm")]
    Remove(others::RemoveArgs),
    /// Show copies of applications from other registries, as long as the server remembers them
    Copies,
    /// End a copy that is under way; what has come stays, and copying again goes on from there
    CancelCopy {
        /// Id of the copy, or enough of its first characters
        id: String,
        #[command(flatten)]
        reason: ReasonArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
}

pub(crate) async fn run(command: RegistryCommand, session: &Session) -> Outcome {
    match command {
        RegistryCommand::Show => {
            let registry = session.api.registry().await?;
            let bound =
                |bytes: Option<u64>| bytes.map_or_else(|| "no bound".to_owned(), |bytes| HumanBytes(bytes).to_string());
            session.out.show(&registry, |out| {
                out.fields(&[
                    ("Address", registry.address.clone()),
                    ("Holds", HumanBytes(registry.bytes).to_string()),
                    ("May hold", bound(registry.bytes_max)),
                    ("A repository", bound(registry.repository_bytes_max)),
                    ("Blobs", registry.blobs.to_string()),
                    ("Manifests", registry.manifests.to_string()),
                    ("Tags", registry.tags.to_string()),
                ])
            })
        }
        RegistryCommand::List(limit) => {
            let repositories = every(limit.get(), async |page| session.api.repositories(&page).await).await?;
            session.out.show(&repositories, |out| {
                out.table(
                    &["repository", "tags", "manifests", "size"],
                    repositories.iter().map(|one| {
                        vec![
                            one.name.clone(),
                            one.tags.to_string(),
                            one.manifests.to_string(),
                            HumanBytes(one.bytes).to_string(),
                        ]
                    }),
                )
            })
        }
        RegistryCommand::Collect => {
            let taken = session.api.collect_registry().await?;
            session.out.show(&taken, |out| {
                out.fields(&[
                    ("Freed", HumanBytes(taken.bytes).to_string()),
                    ("Blobs", taken.blobs.to_string()),
                    ("Uploads", taken.uploads.to_string()),
                    ("Repositories", taken.repositories.to_string()),
                ])
            })
        }
        RegistryCommand::Others => others::list(session).await,
        RegistryCommand::Add(args) => others::add(session, args).await,
        RegistryCommand::Change(args) => others::change(session, args).await,
        RegistryCommand::Check(args) => others::check(session, args).await,
        RegistryCommand::Remove(args) => others::remove(session, args).await,
        RegistryCommand::Copies => {
            let copies = session.api.copies().await?.items;
            let now = clock::now();
            session.out.show(&copies, |out| {
                out.table(
                    &["copy", "from", "state", "copied", "was here", "begun", "who", "error"],
                    copies.iter().map(|copy| {
                        vec![
                            copy.id.clone(),
                            copy.source.clone(),
                            state(copy),
                            HumanBytes(copy.bytes_copied).to_string(),
                            HumanBytes(copy.bytes_present).to_string(),
                            clock::ago(&copy.created_at, now),
                            copy.actor.clone(),
                            copy.error.clone().unwrap_or_default(),
                        ]
                    }),
                )
            })
        }
        RegistryCommand::CancelCopy { id, reason, yes } => {
            let copy = only(session.api.copies().await?.items, "copy", &id, |copy| &copy.id)?;
            session.sure(&format!("End the copy of {}?", copy.source), &yes)?;
            session.api.cancel_copy(&copy.id, reason.reason.as_deref()).await?;
            session.out.say(format!("Ended the copy of {}.", copy.source));
            Ok(())
        }
    }
}

/// The word of the API.
fn state(copy: &Copy) -> String {
    serde_json::to_value(copy.state).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}
