//! `margrave login` and `margrave logout`.

use crate::connection::{ConnectionArgs, Environment, Target, given_token, read_text, saved};
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use std::io::{IsTerminal as _, Read as _};

/// A token is a few dozen characters; a larger input is a wrong file.
const TOKEN_BYTES_MAX: u64 = 4096;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  margrave login --url https://fleet.example:8080 --token-file token --ca https-ca.pem
  printf %s \"$TOKEN\" | margrave login --url http://127.0.0.1:8080 --token-stdin
  margrave login --data ./fleet          # a server on this machine, with its admin token

The login is saved in $XDG_CONFIG_HOME/margrave/login.toml (mode 0600).")]
pub(crate) struct LoginArgs {
    /// Read the token from stdin
    #[arg(long, conflicts_with = "token_file")]
    token_stdin: bool,
}

pub(crate) async fn login(
    args: LoginArgs,
    connection: &ConnectionArgs,
    environment: &Environment,
    out: Output,
) -> Outcome {
    let target = target(&args, connection, environment, out)?;
    let who = target.client(None)?.whoami().await?;
    let path = saved::path().ok_or_else(|| {
        Failure::usage("neither XDG_CONFIG_HOME nor HOME is set").because("there is no folder to save the login in")
    })?;
    let saved = saved::Saved { url: target.url, token: target.token, ca: target.ca_pem };
    saved::store(&path, &saved)?;
    out.say(format!(
        "Logged in to {} as {} (server {}); saved in {}.",
        saved.url,
        who.actor,
        who.server_version,
        path.display()
    ));
    out.say("Try `margrave status`, `margrave app list`, `margrave device list`.");
    Ok(())
}

fn target(args: &LoginArgs, connection: &ConnectionArgs, environment: &Environment, out: Output) -> Outcome<Target> {
    if connection.data.is_some() {
        return crate::connection::resolve(connection, environment, None);
    }
    let url = connection.url.clone().or_else(|| environment.url.clone()).ok_or_else(|| {
        Failure::usage("no server given").next("margrave login --url https://fleet.example:8080 --token-file FILE")
    })?;
    let token = if args.token_stdin {
        read_stdin()?
    } else if let Some(token) = given_token(connection, environment)? {
        token
    } else if out.interactive {
        crate::prompt::secret("Token")?
    } else {
        return Err(Failure::usage("no token given").next("--token-file FILE or --token-stdin"));
    };
    let ca = connection.ca.as_ref().or(environment.ca.as_ref());
    let ca_pem = ca.map(|path| read_text(path, "CA file")).transpose()?;
    Ok(Target { url, token, ca_pem })
}

fn read_stdin() -> Outcome<String> {
    let mut text = String::new();
    if std::io::stdin().is_terminal() {
        return crate::prompt::secret("Token");
    }
    std::io::stdin()
        .take(TOKEN_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage("read the token from stdin").caused_by(&error))?;
    let token = text.trim().to_owned();
    if token.is_empty() { Err(Failure::usage("stdin contains no token")) } else { Ok(token) }
}

pub(crate) fn logout(out: Output) -> Outcome {
    let path = saved::path().ok_or_else(|| Failure::usage("neither XDG_CONFIG_HOME nor HOME is set"))?;
    if saved::forget(&path)? {
        out.say(format!("Removed {}.", path.display()));
    } else {
        out.say("Not logged in.");
    }
    Ok(())
}
