//! `margrave`: the server, the demo, and the operator's commands.
//!
//! The commands in [`commands`] use only the client in `margrave-api`; only `serve`, `demo`, `sim`, `config` and
//! offline operations depend on the server.

// Suggested reading order.
mod values;
mod arguments;
mod prompt;
mod clock;
mod commands;
mod config;
mod connection;
mod demo;
mod examples;
mod failure;
mod offline;
mod output;
mod serve;
mod shell;
mod sim;
mod shutdown;
mod watch;

use arguments::{Cli, Command};
use clap::FromArgMatches as _;
use commands::Session;
use commands::user::UserCommand;
use connection::{Environment, saved};
use failure::Outcome;
use output::Output;
use std::process::ExitCode;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(all(feature = "mimalloc", not(feature = "jemalloc")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let matches = examples::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let out = Output::detect(cli.output, cli.quiet);
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| failure::Failure::failed("start the runtime").caused_by(&error))
        .and_then(|runtime| runtime.block_on(run(cli, &matches, out)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            out.must_say(failure.render(out.talk_color));
            failure.exit.into()
        }
    }
}

async fn run(cli: Cli, matches: &clap::ArgMatches, out: Output) -> Outcome {
    let Cli { connection, output: _, quiet: _, command } = cli;
    let environment = Environment::read();
    match command {
        Command::Serve(args) => serve::serve(args, &connection, out).await,
        Command::Demo(args) => Box::pin(demo::run(args, &connection, out)).await,
        Command::Sim(args) => Box::pin(sim::run(args, &connection, &environment, out)).await,
        Command::Config { command } => config::run(command, &connection, out),
        Command::Completions(args) => shell::completions(&args, out),
        Command::Man(args) => shell::man(&args, out),
        Command::Login(args) => commands::login::login(args, &connection, &environment, out).await,
        Command::Logout => commands::login::logout(out),
        Command::User { command: UserCommand::Password(args) } if args.offline => {
            offline::password(&args, &connection, out).await
        }
        Command::Doctor => commands::doctor::run(&connection, &environment, out).await,
        command => {
            let saved = saved::path().map(|path| saved::load(&path)).transpose()?.flatten();
            let target = connection::resolve(&connection, &environment, saved)?;
            let api = target.client(connection.idempotency_key.as_deref())?;
            let session = Session { api, out, target };
            if watch::requested(matches) {
                watch::run(matches, &session).await
            } else {
                operate(command, &session).await
            }
        }
    }
}

async fn operate(command: Command, session: &Session) -> Outcome {
    match command {
        Command::Status => commands::status::run(session).await,
        Command::App { command } => commands::app::run(command, session).await,
        Command::Device { command } => commands::device::run(command, session).await,
        Command::Client { command } => commands::client::run(command, session).await,
        Command::Group { command } => commands::group::run(command, session).await,
        Command::Deploy(args) => commands::deploy::run(args, session).await,
        Command::Deployment { command } => commands::deployment::run(command, session).await,
        Command::Rollout { command } => commands::rollout::run(command, session).await,
        Command::Trust { command } => commands::trust::run(command, session).await,
        Command::Token { command } => commands::token::run(command, session).await,
        Command::User { command } => commands::user::run(command, session).await,
        Command::Session { command } => commands::session::run(command, session).await,
        Command::Registry { command } => commands::registry::run(command, session).await,
        Command::EnrollmentToken { command } => commands::enrollment_token::run(command, session).await,
        Command::Audit { command } => commands::audit::run(command, session).await,
        Command::Events(args) => commands::events::run(args, session).await,
        Command::Serve(_)
        | Command::Demo(_)
        | Command::Sim(_)
        | Command::Config { .. }
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Login(_)
        | Command::Logout
        | Command::Doctor => {
            unreachable!("handled before a session is opened")
        }
    }
}
