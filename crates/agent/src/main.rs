//! The command `margrave-agent`.

mod cli;

use clap::Parser as _;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = margrave_agent::arguments::Arguments::parse();
    cli::run(arguments).await
}
