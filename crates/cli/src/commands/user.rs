//! `margrave user`: users who sign in with a name and a password.

use super::{CommentArgs, Session};
use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use margrave_api::access::SetPassword;
use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

/// The built-in operator.
const ADMIN: &str = "admin";
/// A password is at most a sentence; a larger input is a wrong file.
const PASSWORD_BYTES_MAX: u64 = 4096;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum UserCommand {
    /// Show users who sign in with a name and a password
    #[command(visible_alias = "ls")]
    List,
    /// Set a password; sessions with the old password end
    #[command(after_help = "Examples:
  margrave user password
  margrave user password admin --password-stdin < password.txt
  margrave --data ./fleet user password            # on the server host, with its admin token
  margrave --data ./fleet user password --offline  # without a token, while the server is stopped

The command prompts for the password or reads it from stdin; never from an argument, which other users could see.")]
    Password(PasswordArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct PasswordArgs {
    /// User name
    #[arg(default_value = ADMIN)]
    pub(crate) name: String,
    /// Read the password from the first line of stdin
    #[arg(long)]
    password_stdin: bool,
    /// Write to the data folder of a stopped server; needs neither the password nor a token
    #[arg(long, conflicts_with_all = ["url", "token_file", "comment"])]
    pub(crate) offline: bool,
    /// With --offline: the server's configuration file, if any
    #[arg(long, value_name = "FILE", requires = "offline")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    reason: CommentArgs,
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
            let body = SetPassword { password, comment: args.reason.comment };
            let set = session.api.set_password(&args.name, &body).await?;
            session.out.show(&set, |_| String::new())?;
            session.out.say(done(&set.name, set.sessions_ended));
            Ok(())
        }
    }
}

/// The result as a sentence.
pub(crate) fn done(name: &str, ended: u64) -> String {
    let sessions = match ended {
        0 => "No sessions ended.".to_owned(),
        1 => "1 session ended.".to_owned(),
        ended => format!("{ended} sessions ended."),
    };
    format!("Password of {name} set. {sessions}")
}

impl PasswordArgs {
    /// Prompts twice at a terminal, or reads from stdin.
    pub(crate) fn read(&self, out: Output) -> Outcome<String> {
        if !self.password_stdin {
            if !out.interactive {
                return Err(Failure::usage("cannot prompt for the password: not a terminal").next("--password-stdin"));
            }
            return crate::prompt::new_secret(&format!("New password of {}", self.name));
        }
        if std::io::stdin().is_terminal() {
            return crate::prompt::new_secret(&format!("New password of {}", self.name));
        }
        let mut text = String::new();
        std::io::stdin()
            .take(PASSWORD_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(|error| Failure::usage("read the password from stdin").caused_by(&error))?;
        match text.lines().next().filter(|line| !line.is_empty()) {
            Some(line) => Ok(line.to_owned()),
            None => Err(Failure::usage("stdin contains no password")),
        }
    }
}
