//! The command `margrave-agent`.

mod cli;

use clap::Parser as _;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = cli::Arguments::parse();
    cli::run(arguments).await
}
