//! `margrave user`: people who sign in with a name and a password.

use super::{ReasonArgs, Session};
use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use margrave_api::access::SetPassword;
use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

/// The operator every server has.
const ADMIN: &str = "admin";
/// A password is a sentence at most; more than this is some other file.
const PASSWORD_BYTES_MAX: u64 = 4096;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum UserCommand {
    /// Show who signs in with a name and a password
    #[command(visible_alias = "ls")]
    List,
    /// Set a password; browsers signed in with the old one are signed out
    #[command(after_help = "Examples:
  margrave user password
  margrave user password admin --password-stdin < password.txt
  margrave --data ./fleet user password            # on the server's machine, with its admin token
  margrave --data ./fleet user password --offline  # without a token, while the server is stopped

The password is asked for, or read from stdin; it is never an argument, which others could see.")]
    Password(PasswordArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct PasswordArgs {
    /// Whose password
    #[arg(default_value = ADMIN)]
    pub(crate) name: String,
    /// Read the password from stdin: the first line
    #[arg(long)]
    password_stdin: bool,
    /// Write to the data folder of a server that is stopped, for whoever has neither password nor token
    #[arg(long, conflicts_with_all = ["url", "token_file", "reason"])]
    pub(crate) offline: bool,
    /// With --offline: the configuration file of the server, if it has one
    #[arg(long, value_name = "FILE", requires = "offline")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    reason: ReasonArgs,
}

pub(crate) async fn run(command: UserCommand, session: &Session) -> Outcome {
    match command {
        UserCommand::List => {
            let users = session.api.operators().await?.items;
            let now = clock::now();
            session.out.show(&users, |out| {
                out.table(
                    &["name", "created", "password set"],
                    users.iter().map(|user| {
                        vec![
                            user.name.clone(),
                            clock::ago(&user.created_at, now),
                            clock::ago(&user.password_set_at, now),
                        ]
                    }),
                )
            })
        }
        UserCommand::Password(args) => {
            let password = args.read(session.out)?;
            let body = SetPassword { password, reason: args.reason.reason };
            let set = session.api.set_password(&args.name, &body).await?;
            session.out.show(&set, |_| String::new())?;
            session.out.say(done(&set.name, set.sessions_ended));
            Ok(())
        }
    }
}

/// What was done, in a sentence.
pub(crate) fn done(name: &str, ended: u64) -> String {
    let sessions = match ended {
        0 => "No browser was signed in with the old one.".to_owned(),
        1 => "One browser was signed out.".to_owned(),
        ended => format!("{ended} browsers were signed out."),
    };
    format!("The password of {name} was set. {sessions}")
}

impl PasswordArgs {
    /// Asked twice at a terminal, or from stdin.
    pub(crate) fn read(&self, out: Output) -> Outcome<String> {
        if !self.password_stdin {
            if !out.interactive {
                return Err(Failure::usage("nobody can be asked for the password here").next("--password-stdin"));
            }
            return crate::ask::new_secret(&format!("New password of {}", self.name));
        }
        if std::io::stdin().is_terminal() {
            return crate::ask::new_secret(&format!("New password of {}", self.name));
        }
        let mut text = String::new();
        std::io::stdin()
            .take(PASSWORD_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(|error| Failure::usage("read the password from stdin").caused_by(&error))?;
        match text.lines().next().filter(|line| !line.is_empty()) {
            Some(line) => Ok(line.to_owned()),
            None => Err(Failure::usage("stdin holds no password")),
        }
    }
}
