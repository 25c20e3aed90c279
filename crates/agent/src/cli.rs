//! Commands and their output. Decisions are the library's.

mod explain;
mod style;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand, ValueEnum};
use margrave_agent::config::{self, AgentConfig, RuntimeKind};
use margrave_agent::machine::Settled;
use margrave_agent::runtimes::Runtime;
use margrave_agent::runtimes::simulated::Simulated;
use margrave_agent::{SystemClock, enrol};
use margrave_core::time::Clock;
use secrecy::SecretString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use url::Url;

/// Everything runs as desired, and the server knows.
const EXIT_OK: u8 = 0;
/// At least one deployment failed, or the command could not do its work.
const EXIT_FAILED: u8 = 1;
/// The time ran out before the device had settled.
const EXIT_UNSETTLED: u8 = 3;

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
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// Configuration file [default: /etc/margrave/agent.toml, if it exists]
    #[arg(long, short, global = true, value_name = "FILE", env = "MARGRAVE_AGENT_CONFIG")]
    config: Option<PathBuf>,
    /// Folder for everything the agent must remember
    #[arg(long, global = true, value_name = "FOLDER")]
    state_dir: Option<PathBuf>,
    /// Base URL of the fleet manager, with a path if it has one
    #[arg(long, global = true, value_name = "URL")]
    server: Option<Url>,
    /// Logs as JSON, one object a line
    #[arg(long, global = true)]
    log_json: bool,
    /// How much to log: error, warn, info, debug, or a filter such as `margrave_agent=debug`
    #[arg(long, global = true, value_name = "LEVEL", default_value = "info")]
    log: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Get an identity for this device with a one-time token
    ///
    /// The key is made here and never leaves the device. The endpoint must prove who it is, by a CA file or by the pin
    /// of its public key; nothing is trusted on first use.
    Enrol(EnrolArguments),
    /// Run until stopped
    Run,
    /// Do one full cycle, then exit
    ///
    /// Exit codes: 0 everything runs as desired and the server knows; 1 a deployment failed; 3 the time ran out.
    Once {
        /// Give up after this time
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = config::duration::parse)]
        timeout: Duration,
    },
    /// What is desired and what runs, in short
    Status {
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// For everything that is not as desired: why, since when, and what would change it
    Explain {
        /// Only this deployment
        deployment: Option<String>,
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Print a commented configuration with every default
    ConfigExample,
}

#[derive(Debug, Args)]
struct EnrolArguments {
    /// Where to enrol
    #[arg(long, value_name = "URL")]
    trust_url: Option<Url>,
    /// The token the operator gave you
    #[arg(long, value_name = "TOKEN", required_unless_present = "token_file", conflicts_with = "token_file")]
    token: Option<String>,
    /// A file that holds the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// CA of the trust endpoint, as PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Public key of the trust endpoint: sha256:<64 hexadecimal digits>
    #[arg(long, value_name = "PIN")]
    pin: Option<String>,
    /// Replace the identity this device has
    #[arg(long)]
    again: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
}

pub(crate) async fn run(arguments: Arguments) -> ExitCode {
    match command(arguments).await {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = writeln!(anstream::stderr(), "{} {error:#}", style::problem("error:"));
            ExitCode::from(EXIT_FAILED)
        }
    }
}

async fn command(arguments: Arguments) -> anyhow::Result<u8> {
    let Arguments { command, common } = arguments;
    start_logging(&common)?;
    let mut config = load(&common)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    match command {
        Command::Enrol(arguments) => {
            let token = token(&arguments)?;
            config.trust.url = arguments.trust_url.or(config.trust.url);
            config.trust.ca_file = arguments.ca.or(config.trust.ca_file);
            config.trust.pin = arguments.pin.or(config.trust.pin);
            let enrolment = enrol::enrol(&config, &token, arguments.again, clock).await?;
            writeln!(anstream::stdout(), "enrolled as {}", enrolment.spiffe_id)?;
            writeln!(anstream::stdout(), "fleet manager is {}", enrolment.wfm_url)?;
            Ok(EXIT_OK)
        }
        Command::Run => {
            let runtime = runtime(&config)?;
            let cancel = CancellationToken::new();
            stop_on_signal(cancel.clone())?;
            margrave_agent::run(config, runtime, clock, cancel).await?;
            Ok(EXIT_OK)
        }
        Command::Once { timeout } => {
            let runtime = runtime(&config)?;
            let cancel = CancellationToken::new();
            stop_on_signal(cancel.clone())?;
            let out_of_time = cancel.clone();
            tokio::spawn(async move {
                tokio::time::sleep(timeout).await;
                out_of_time.cancel();
            });
            let (settled, report) = margrave_agent::once(config, runtime, clock, cancel).await?;
            explain::status(&report, Output::Table)?;
            Ok(match settled {
                Settled::Converged => EXIT_OK,
                Settled::Failed => EXIT_FAILED,
                Settled::Working => EXIT_UNSETTLED,
            })
        }
        Command::Status { output } => {
            explain::status(&explain::load(&config.state_dir, &*clock)?, output)?;
            Ok(EXIT_OK)
        }
        Command::Explain { deployment, output } => {
            explain::explain(&explain::load(&config.state_dir, &*clock)?, deployment.as_deref(), output)?;
            Ok(EXIT_OK)
        }
        Command::ConfigExample => {
            write!(anstream::stdout(), "{}", config::EXAMPLE)?;
            Ok(EXIT_OK)
        }
    }
}

fn load(common: &Common) -> anyhow::Result<AgentConfig> {
    let default = Path::new(config::DEFAULT_PATH);
    let mut config = match &common.config {
        Some(path) => AgentConfig::read(path)?,
        None if default.exists() => AgentConfig::read(default)?,
        None => AgentConfig::default(),
    };
    if let Some(state_dir) = &common.state_dir {
        config.state_dir.clone_from(state_dir);
    }
    if let Some(server) = &common.server {
        config.server = Some(server.clone());
    }
    Ok(config)
}

fn token(arguments: &EnrolArguments) -> anyhow::Result<SecretString> {
    let token = match (&arguments.token, &arguments.token_file) {
        (Some(token), _) => token.clone(),
        (None, Some(path)) => {
            std::fs::read_to_string(path).with_context(|| format!("read the token file `{}`", path.display()))?
        }
        (None, None) => anyhow::bail!("give a token: `--token` or `--token-file`"),
    };
    Ok(SecretString::from(token.trim().to_owned()))
}

fn runtime(config: &AgentConfig) -> anyhow::Result<Arc<dyn Runtime>> {
    match config.runtime {
        RuntimeKind::Simulated => {
            std::fs::create_dir_all(&config.state_dir)
                .with_context(|| format!("make the state folder `{}`", config.state_dir.display()))?;
            Ok(Arc::new(Simulated::open(&config.state_dir, config.simulated.script.clone())?))
        }
    }
}

fn stop_on_signal(cancel: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        tracing::info!("stopping; workloads keep running");
        cancel.cancel();
    });
    Ok(())
}

fn start_logging(common: &Common) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(&common.log).context("`--log` is not a log filter")?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
    if common.log_json {
        builder.json().flatten_event(true).init();
    } else {
        builder.with_ansi(colours).init();
    }
    Ok(())
}
