//! The command line of `margrave-agent`, in the library so that its completions and man pages can be made elsewhere.

use crate::config;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// More belongs into a log system.
const LINES_MAX: i64 = 10_000;

/// The command line, for who makes completions and man pages of it.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the workloads a Margo fleet manager assigns to this device.
///
/// The agent calls out, never listens: it reports what the device can do, polls the desired state, verifies it, applies
/// it component by component, and reports every change. Without network, without server, after a power cut, what was
/// installed keeps running.
///
/// First steps:
///
///   margrave-agent enrol --trust-url https://wfm.example:8443 --ca trust-ca.pem --token mgve_...
///
///   margrave-agent run
///
///   margrave-agent explain
#[derive(Debug, Parser)]
#[command(name = "margrave-agent", version, propagate_version = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Common {
    /// Configuration file [default: /etc/margrave/agent.toml, if it exists]
    #[arg(long, short, global = true, value_name = "FILE", env = "MARGRAVE_AGENT_CONFIG")]
    pub config: Option<PathBuf>,
    /// Folder for everything the agent must remember
    #[arg(long, global = true, value_name = "FOLDER")]
    pub state_dir: Option<PathBuf>,
    /// Base URL of the fleet manager, with a path if it has one
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<Url>,
    /// Logs as JSON, one object a line
    #[arg(long, global = true)]
    pub log_json: bool,
    /// How much to log: error, warn, info, debug, or a filter such as `margrave_agent=debug`
    #[arg(long, global = true, value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Get an identity for this device with a one-time token
    ///
    /// The key is made here and never leaves the device. The endpoint must prove who it is, by a CA file or by the pin
    /// of its public key; nothing is trusted on first use.
    Enrol(EnrolArguments),
    /// Run until stopped
    #[command(after_help = "Example:\n  margrave-agent --config /etc/margrave/agent.toml run")]
    Run,
    /// Do one full cycle, then exit
    ///
    /// Exit codes: 0 everything runs as desired and the server knows; 1 a deployment failed; 3 the time ran out.
    #[command(after_help = "Example:\n  margrave-agent once --timeout 5m")]
    Once {
        /// Give up after this time
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = config::duration::parse)]
        timeout: Duration,
    },
    /// What is desired and what runs, in short
    #[command(after_help = "Example:\n  margrave-agent status -o json")]
    Status {
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// For everything that is not as desired: why, since when, and what would change it
    #[command(after_help = "Example:\n  margrave-agent explain")]
    Explain {
        /// Only this deployment
        deployment: Option<String>,
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// The last lines the components of a deployment have written
    #[command(after_help = "Example:\n  margrave-agent logs energy-monitor --component collector --lines 50")]
    Logs {
        /// Name or id of the deployment, as `status` shows it
        deployment: String,
        /// Only this component
        #[arg(long, value_name = "NAME")]
        component: Option<String>,
        /// How many lines of each component
        #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=LINES_MAX))]
        lines: u32,
    },
    /// Stop changes on this device for a while, for work at the machine
    ///
    /// Nothing is installed, updated, repaired or removed until the time is over; what runs goes on running. The fleet manager sees
    /// it with the reason. It ends by itself, also when the device is restarted or its clock is set.
    #[command(
        after_help = "Examples:\n  margrave-agent hold --for 2h --reason 'changing the fan'\n  margrave-agent hold --end"
    )]
    Hold {
        /// How long
        #[arg(long = "for", value_name = "TIME", value_parser = config::duration::parse, requires = "reason", required_unless_present = "end")]
        length: Option<Duration>,
        /// Why, for the people at the fleet manager
        #[arg(long, value_name = "TEXT", conflicts_with = "end")]
        reason: Option<String>,
        /// Let changes go on now
        #[arg(long, conflicts_with = "length")]
        end: bool,
    },
    /// Check a configuration file, print an example
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Print a commented configuration with every default
    #[command(hide = true)]
    ConfigExample,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Tell everything that is wrong with a configuration file, and what this machine lacks for it
    #[command(after_help = "Example:\n  margrave-agent config check /etc/margrave/agent.toml")]
    Check {
        /// Configuration file [default: the one of --config, or /etc/margrave/agent.toml]
        file: Option<PathBuf>,
    },
    /// Print a commented configuration with every default
    #[command(after_help = "Example:\n  margrave-agent config example > agent.toml")]
    Example,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  margrave-agent enrol --trust-url https://wfm.example:8443 --ca trust-ca.pem --token-file token")]
pub struct EnrolArguments {
    /// Where to enrol
    #[arg(long, value_name = "URL")]
    pub trust_url: Option<Url>,
    /// The token the operator gave you
    #[arg(long, value_name = "TOKEN", required_unless_present = "token_file", conflicts_with = "token_file")]
    pub token: Option<String>,
    /// A file that holds the token
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// CA of the trust endpoint, as PEM
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Public key of the trust endpoint: sha256:<64 hexadecimal digits>
    #[arg(long, value_name = "PIN")]
    pub pin: Option<String>,
    /// Replace the identity this device has
    #[arg(long)]
    pub again: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Table,
    Json,
}
