//! The command line of `margrave-agent`, in the library so that other crates can generate completions and man pages.

use crate::config;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// Longer logs belong in a log system.
const LINES_MAX: i64 = 10_000;

/// The command line, for generating completions and man pages.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the workloads a Margo fleet manager assigns to this device.
///
/// The agent only makes outgoing connections: it reports the capabilities of the device, polls the desired state,
/// verifies it, applies it component by component, and reports every change. Installed workloads keep running without
/// network, without server, and after a power cut.
///
/// First steps:
///
///   margrave-agent enroll --trust-url https://wfm.example:8443 --ca trust-ca.pem --token mgve_...
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
    /// Folder for the state of the agent
    #[arg(long, global = true, value_name = "FOLDER")]
    pub state_dir: Option<PathBuf>,
    /// Base URL of the fleet manager, with a path if it has one
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<Url>,
    /// Log as JSON, one object per line
    #[arg(long, global = true)]
    pub log_json: bool,
    /// Log level: error, warn, info, debug, or a filter such as `margrave_agent=debug`
    #[arg(long, global = true, value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Get an identity for this device with a one-time token
    ///
    /// The key is generated on this device and never leaves it. The endpoint must prove its identity with a CA file or
    /// with the fingerprint (pin) of its public key; nothing is trusted on first use.
    Enroll(EnrollArguments),
    /// Run until stopped
    #[command(after_help = "Example:\n  margrave-agent --config /etc/margrave/agent.toml run")]
    Run,
    /// Do one full cycle, then exit
    ///
    /// Exit codes: 0 everything runs as desired and is reported to the server; 1 a deployment failed; 3 timeout.
    #[command(after_help = "Example:\n  margrave-agent once --timeout 5m")]
    Once {
        /// Give up after this time
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = config::duration::parse)]
        timeout: Duration,
    },
    /// Show the desired and the running state in short
    #[command(after_help = "Example:\n  margrave-agent status -o json")]
    Status {
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Explain the status: desired, observed, waiting for, next steps
    #[command(after_help = "Example:\n  margrave-agent explain")]
    Explain {
        /// Only this deployment
        deployment: Option<String>,
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Show the last log lines of the components of a deployment
    #[command(after_help = "Example:\n  margrave-agent logs energy-monitor --component collector --lines 50")]
    Logs {
        /// Name or id of the deployment, as `status` shows it
        deployment: String,
        /// Only this component
        #[arg(long, value_name = "NAME")]
        component: Option<String>,
        /// Number of lines per component
        #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=LINES_MAX))]
        lines: u32,
    },
    /// Start a maintenance hold: no changes on this device for a while
    ///
    /// The agent installs, updates, repairs and removes nothing until the hold expires; workloads keep running. The
    /// fleet manager shows the hold with its reason. It expires even if the device restarts or its clock is set.
    #[command(
        after_help = "Examples:\n  margrave-agent hold --for 2h --comment 'changing the fan'\n  margrave-agent hold --end"
    )]
    Hold {
        /// Duration of the hold
        #[arg(long = "for", value_name = "TIME", value_parser = config::duration::parse, requires = "comment", required_unless_present = "end")]
        length: Option<Duration>,
        /// Reason, shown to the operators of the fleet manager
        #[arg(long, value_name = "TEXT", conflicts_with = "end")]
        comment: Option<String>,
        /// End the hold now
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
    /// List all problems of a configuration file, including files and programs that this machine lacks
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
  margrave-agent enroll --trust-url https://wfm.example:8443 --ca trust-ca.pem --token-file token")]
pub struct EnrollArguments {
    /// Trust endpoint to enroll at
    #[arg(long, value_name = "URL")]
    pub trust_url: Option<Url>,
    /// Enrollment token from the operator
    #[arg(long, value_name = "TOKEN", required_unless_present = "token_file", conflicts_with = "token_file")]
    pub token: Option<String>,
    /// File that contains the token
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// CA of the trust endpoint, as PEM
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Fingerprint of the public key of the trust endpoint: sha256:<64 hexadecimal digits>
    #[arg(long, value_name = "PIN")]
    pub pin: Option<String>,
    /// Replace the current identity of this device
    #[arg(long)]
    pub again: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Table,
    Json,
}
