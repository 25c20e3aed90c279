//! `margrave registry`: the embedded registry, external registries, and copies from them.

mod external;

use super::{CommentArgs, LimitArgs, Session, YesArgs, every};
use crate::clock;
use crate::failure::{Exit, Failure, Outcome};
use indicatif::HumanBytes;
use margrave_api::copies::Copy;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum RegistryCommand {
    /// Show the embedded registry: address, usage, limits
    Show,
    /// Show the repositories of the embedded registry
    #[command(visible_alias = "ls")]
    List(LimitArgs),
    /// Run garbage collection on unreferenced content
    Gc,
    /// Show external registries with the result of the last check
    External,
    /// Add an external registry, so that imports and copies need no user name and password
    #[command(after_help = "Examples:
  margrave registry add registry.example --username ci
  margrave registry add registry.example:5000 --username ci --password-stdin < password.txt
  margrave registry add registry.example --username ci --password-file token.txt --registry-ca ca.pem
  margrave registry add 127.0.0.1:5000 --plain-http

The command prompts for the password or reads it from stdin or a file; never from an argument, which other users could see.
The server stores it encrypted, sends it only to this registry, and never shows it.
The server checks the registry at once and saves it in any case. `margrave registry check` checks it again.")]
    Add(external::AddArgs),
    /// Update the access to an external registry; options not given stay unchanged
    #[command(after_help = "Examples:
  margrave registry update registry.example --password-stdin < password.txt
  margrave registry update registry.example --username robot --password-file token.txt
  margrave registry update registry.example --registry-ca ca.pem --comment \"new CA\"
  margrave registry update registry.example --no-login")]
    Update(external::UpdateArgs),
    /// Check whether an external registry is reachable and accepts the user name and password
    #[command(after_help = "Examples:
  margrave registry check registry.example
  margrave registry check registry.example -o json

The server connects as it would for an import. Exit code 1 means that the registry cannot be used; the message says why:
host not found, connection refused, untrusted certificate, wrong password, or not a registry.")]
    Check(external::CheckArgs),
    /// Remove an external registry and its password; imported applications stay
    #[command(visible_alias = "rm")]
    Remove(external::RemoveArgs),
    /// Show recent copies of applications from external registries
    Copies,
    /// Cancel a copy in progress; artifacts already copied stay, and copying again resumes
    CancelCopy {
        /// Copy id, or a unique prefix
        id: String,
        #[command(flatten)]
        reason: CommentArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
}

pub(crate) async fn run(command: RegistryCommand, session: &Session) -> Outcome {
    match command {
        RegistryCommand::Show => {
            let registry = session.api.registry().await?;
            let bound = |bytes: Option<u64>| {
                bytes.map_or_else(|| "unlimited".to_owned(), |bytes| HumanBytes(bytes).to_string())
            };
            session.out.show(&registry, |out| {
                out.fields(&[
                    ("Address", registry.address.clone()),
                    ("Used", HumanBytes(registry.bytes).to_string()),
                    ("Limit", bound(registry.bytes_max)),
                    ("Limit per repository", bound(registry.repository_bytes_max)),
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
        RegistryCommand::Gc => {
            let taken = session.api.run_registry_garbage_collection().await?;
            session.out.show(&taken, |out| {
                out.fields(&[
                    ("Freed", HumanBytes(taken.bytes).to_string()),
                    ("Blobs", taken.blobs.to_string()),
                    ("Uploads", taken.uploads.to_string()),
                    ("Repositories", taken.repositories.to_string()),
                ])
            })
        }
        RegistryCommand::External => external::list(session).await,
        RegistryCommand::Add(args) => external::add(session, args).await,
        RegistryCommand::Update(args) => external::update(session, args).await,
        RegistryCommand::Check(args) => external::check(session, args).await,
        RegistryCommand::Remove(args) => external::remove(session, args).await,
        RegistryCommand::Copies => {
            let copies = session.api.copies().await?.items;
            let now = clock::now();
            session.out.show(&copies, |out| {
                out.table(
                    &["copy", "source", "state", "copied", "already present", "started", "actor", "error"],
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
            let copy = find_copy(session.api.copies().await?.items, &id)?;
            session.sure(&format!("Cancel the copy of {}?", copy.source), &yes)?;
            session.api.cancel_copy(&copy.id, reason.comment.as_deref()).await?;
            session.out.say(format!("Cancelled the copy of {}.", copy.source));
            Ok(())
        }
    }
}

/// The copy whose id equals `text` or starts with it; the server keeps few copies.
fn find_copy(copies: Vec<Copy>, text: &str) -> Outcome<Copy> {
    let mut found: Vec<Copy> = copies.into_iter().filter(|copy| copy.id.starts_with(text)).collect();
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => {
            Err(Failure::new(Exit::NotFound, format!("no copy `{text}`")).next("`margrave registry copies` lists all"))
        }
        (Some(last), others) => {
            let failure = Failure::usage(format!("`{text}` matches {} copies", others + 1));
            let failure = found.iter().chain([&last]).fold(failure, |failure, copy| failure.because(copy.id.clone()));
            Err(failure.next("use a longer prefix"))
        }
    }
}

/// The API value.
fn state(copy: &Copy) -> String {
    serde_json::to_value(copy.state).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}
