//! Operations on the data folder of a stopped server.

use crate::commands::user::{self, PasswordArgs};
use crate::connection::ConnectionArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use margrave_server::clock::SystemClock;
use margrave_server::config::Config;
use margrave_server::run::{self, StartError};

/// `margrave user password --offline`
pub(crate) async fn password(args: &PasswordArgs, connection: &ConnectionArgs, out: Output) -> Outcome {
    let mut config = match &args.config {
        Some(path) => Config::read(path).map_err(|error| {
            Failure::usage(format!("use the configuration file `{}`", path.display())).caused_by(&error)
        })?,
        None => Config::default(),
    };
    match &connection.data {
        Some(data) => config.data_dir.clone_from(data),
        None if args.config.is_none() => {
            return Err(Failure::usage("no server given").next("margrave --data DIR user password --offline"));
        }
        None => {}
    }
    if !config.data_dir.is_dir() {
        return Err(Failure::usage(format!("no folder `{}`", config.data_dir.display()))
            .next("set the server's data folder with --data DIR"));
    }
    let password = args.read(out)?;
    let ended = run::set_password(&config, &SystemClock, &args.name, password.into()).await.map_err(|error| {
        let exit = if matches!(error, StartError::Password(_)) { Exit::Refused } else { Exit::Failed };
        let running = matches!(error, StartError::InUse { .. });
        let failure = Failure::new(exit, "the password was not set").caused_by(&error);
        if running { failure.next("stop the server first, or omit --offline to use its admin token") } else { failure }
    })?;
    out.say(user::done(&args.name, ended));
    Ok(())
}
