//! External registries: `margrave registry external`, `add`, `change`, `check`, `remove`.

use super::super::{CommentArgs, Session, YesArgs};
use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use margrave_api::registries::{CheckOutcome, CheckRegistry, PutRegistry, RegistryCheck, SavedRegistry};
use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

/// Passwords and tokens are short; a larger input is a wrong file.
const PASSWORD_BYTES_MAX: u64 = 64 << 10;

/// Access to a registry.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct AccessArgs {
    /// User name for the server; anonymous access if not given
    #[arg(long, value_name = "USER")]
    username: Option<String>,
    /// Read the password from stdin instead of prompting for it
    #[arg(long, conflicts_with = "password_file")]
    password_stdin: bool,
    /// Read the password from the first line of a file
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// PEM file of a certificate authority to trust only for this registry
    #[arg(long, value_name = "FILE")]
    registry_ca: Option<PathBuf>,
    /// Use plain HTTP; loopback addresses of the server only
    #[arg(long)]
    plain_http: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// Host name and port, such as `registry.example:5000`
    host: String,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    reason: CommentArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UpdateArgs {
    /// Host name and port, such as `registry.example:5000`
    host: String,
    #[command(flatten)]
    access: AccessArgs,
    /// Remove user name and password: anonymous access
    #[arg(long, conflicts_with_all = ["username", "password_stdin", "password_file"])]
    no_login: bool,
    /// Remove the certificate authority: trust those of the system
    #[arg(long, conflicts_with = "registry_ca")]
    no_ca: bool,
    /// Use HTTPS again
    #[arg(long, conflicts_with = "plain_http")]
    https: bool,
    #[command(flatten)]
    reason: CommentArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Host name and port, such as `registry.example:5000`
    host: String,
    #[command(flatten)]
    reason: CommentArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RemoveArgs {
    /// Host name and port, such as `registry.example:5000`
    host: String,
    #[command(flatten)]
    reason: CommentArgs,
    #[command(flatten)]
    yes: YesArgs,
}

impl AccessArgs {
    fn gives_password(&self) -> bool {
        self.password_stdin || self.password_file.is_some()
    }

    /// From a file, from stdin, or a prompt; never from an argument, which other users could see.
    fn password(&self, out: Output, user: &str, host: &str) -> Outcome<String> {
        let text = if let Some(path) = &self.password_file {
            crate::connection::read_text(path, "password file")?
        } else if self.password_stdin && !std::io::stdin().is_terminal() {
            let mut text = String::new();
            std::io::stdin()
                .take(PASSWORD_BYTES_MAX)
                .read_to_string(&mut text)
                .map_err(|error| Failure::usage("read the password from stdin").caused_by(&error))?;
            text
        } else if out.interactive {
            return crate::prompt::secret(&format!("Password of {user} for {host}"));
        } else {
            return Err(Failure::usage("cannot prompt for the password: not a terminal")
                .next("--password-stdin, or --password-file FILE"));
        };
        match text.lines().next().filter(|line| !line.is_empty()) {
            Some(line) => Ok(line.to_owned()),
            None => Err(Failure::usage("the password is empty")),
        }
    }

    fn ca(&self) -> Outcome<Option<String>> {
        self.registry_ca.as_ref().map(|path| crate::connection::read_text(path, "CA file")).transpose()
    }
}

pub(super) async fn list(session: &Session) -> Outcome {
    let registries = session.api.registries().await?.items;
    let now = clock::now();
    session.out.show(&registries, |out| {
        out.table(
            &["registry", "user", "last check", "when", "added by"],
            registries.iter().map(|one| {
                let check = one.last_check.as_ref();
                vec![
                    one.host.clone(),
                    one.username.clone().unwrap_or_default(),
                    check.map_or_else(|| "never".to_owned(), |check| word(check.outcome)),
                    check.map(|check| clock::ago(&check.at, now)).unwrap_or_default(),
                    one.added_by.clone(),
                ]
            }),
        )
    })?;
    if registries.is_empty() {
        session.out.say("No external registries. Add one: margrave registry add HOST --username USER");
    }
    Ok(())
}

pub(super) async fn add(session: &Session, args: AddArgs) -> Outcome {
    let AddArgs { host, access, reason } = args;
    let password = match &access.username {
        Some(user) => Some(access.password(session.out, user, &host)?),
        None if access.gives_password() => {
            return Err(Failure::usage("a password is given without a user name").next("--username USER"));
        }
        None => None,
    };
    let ca = access.ca()?;
    let AccessArgs { username, plain_http, .. } = access;
    let body = PutRegistry { username, password, ca, plain_http, comment: reason.comment.clone() };
    match session.api.put_registry(&host, &body, None).await {
        Err(error) if error.code() == Some("exists") => {
            Err(Failure::from(error).next(format!("`margrave registry update {host}` updates it")))
        }
        saved => show_with_check(session, &saved?, reason.comment, "Added").await,
    }
}

pub(super) async fn update(session: &Session, args: UpdateArgs) -> Outcome {
    let UpdateArgs { host, access, no_login, no_ca, https, reason } = args;
    let known = session.api.saved_registry(&host).await?;
    let username = if no_login { None } else { access.username.clone().or(known.username.clone()) };
    let password = match &username {
        Some(user) if access.gives_password() || known.username.as_ref() != Some(user) => {
            Some(access.password(session.out, user, &host)?)
        }
        None if access.gives_password() => {
            return Err(Failure::usage("a password is given without a user name").next("--username USER"));
        }
        _ => None,
    };
    let ca = if no_ca { None } else { access.ca()?.or(known.ca) };
    let plain_http = access.plain_http || (known.plain_http && !https);
    let body = PutRegistry { username, password, ca, plain_http, comment: reason.comment.clone() };
    let changed = session.api.put_registry(&host, &body, Some(known.revision)).await?;
    show_with_check(session, &changed, reason.comment, "Updated").await
}

/// Shows the saved registry and the result of a check.
async fn show_with_check(session: &Session, saved: &SavedRegistry, reason: Option<String>, done: &str) -> Outcome {
    let check = session.api.check_registry(&saved.host, &CheckRegistry { comment: reason }).await?;
    let now = SavedRegistry { last_check: Some(check.clone()), ..saved.clone() };
    session.out.show(&now, |_| format!("{done} {}.\n", saved.host))?;
    session.out.say(sentence(&check));
    if !check.outcome.is_good() {
        session.out.say(format!("The registry is saved anyway. `margrave registry update {}` updates it.", saved.host));
    }
    Ok(())
}

pub(super) async fn check(session: &Session, args: CheckArgs) -> Outcome {
    let check = session.api.check_registry(&args.host, &CheckRegistry { comment: args.reason.comment }).await?;
    session.out.show(&check, |_| format!("{}\n", sentence(&check)))?;
    if check.outcome.is_good() {
        Ok(())
    } else {
        Err(Failure::failed(format!("{} cannot be used with the saved settings", args.host))
            .next(format!("`margrave registry update {}`, or fix the registry", args.host)))
    }
}

pub(super) async fn remove(session: &Session, args: RemoveArgs) -> Outcome {
    let RemoveArgs { host, reason, yes } = args;
    if !yes.yes {
        let known = session.api.saved_registry(&host).await?;
        let password = known.username.map(|user| format!(" The password of {user} is deleted.")).unwrap_or_default();
        let question = format!("Remove {host}?{password} Imported applications stay.");
        session.sure(&question, &yes)?;
    }
    session.api.delete_registry(&host, reason.comment.as_deref(), None).await?;
    session.out.say(format!("Removed {host}."));
    Ok(())
}

fn sentence(check: &RegistryCheck) -> String {
    let mut letters = check.message.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// The API value.
fn word(outcome: CheckOutcome) -> String {
    serde_json::to_value(outcome).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}
