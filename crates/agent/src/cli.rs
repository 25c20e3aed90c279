//! Commands and their output. The library makes the decisions.

mod explain;
mod hold;
mod style;

use anyhow::Context as _;
use margrave_agent::arguments::{Arguments, Command, Common, ConfigCommand, EnrollArguments, Output};
use margrave_agent::config::{self, AgentConfig};
use margrave_agent::machine::Settled;
use margrave_agent::runtimes::absent::{self, Places};
use margrave_agent::runtimes::{LogsQuery, Runtime};
use margrave_agent::{SystemClock, enroll};
use margrave_core::time::Clock;
use secrecy::SecretString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Everything runs as desired and is reported to the server.
const EXIT_OK: u8 = 0;
/// At least one deployment failed, or the command could not do its work.
const EXIT_FAILED: u8 = 1;
/// The timeout passed before the device had settled.
const EXIT_UNSETTLED: u8 = 3;

pub(crate) async fn run(arguments: Arguments) -> ExitCode {
    match Box::pin(command(arguments)).await {
        Ok(code) => ExitCode::from(code),
        // The reader of the output has seen enough, such as `head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::from(EXIT_OK),
        Err(error) => {
            let _ = writeln!(anstream::stderr(), "{} {error:#}", style::problem("error:"));
            ExitCode::from(EXIT_FAILED)
        }
    }
}

/// Whether writing the output failed because its reader is gone. Other errors carry a context.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
        && error.chain().count() == 1
}

async fn command(arguments: Arguments) -> anyhow::Result<u8> {
    let Arguments { command, common } = arguments;
    start_logging(&common)?;
    if let Command::Config { command } = command {
        return settings(command, common.config).await;
    }
    let mut config = load(&common)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    match command {
        Command::Enroll(arguments) => {
            let token = token(&arguments)?;
            config.trust.url = arguments.trust_url.or(config.trust.url);
            config.trust.ca_file = arguments.ca.or(config.trust.ca_file);
            config.trust.pin = arguments.pin.or(config.trust.pin);
            let enrollment = enroll::enroll(&config, &token, arguments.again, clock).await?;
            writeln!(anstream::stdout(), "enrolled as {}", enrollment.spiffe_id)?;
            writeln!(anstream::stdout(), "fleet manager is {}", enrollment.wfm_url)?;
            if let Some(advice) = absent::advice(&config, &Places::of_this_machine()).await {
                write!(anstream::stdout(), "\n{}", advice.terminal_text())?;
            }
            Ok(EXIT_OK)
        }
        Command::Run => {
            let runtime = runtime(&config)?;
            if runtime.is_simulated() {
                tracing::warn!(
                    "the runtime is simulated: deployments are reported as installed, but nothing runs; \
                     configure `[compose]` or `[kubernetes]` to run real workloads"
                );
            }
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
                Settled::UpToDate => EXIT_OK,
                Settled::Failed => EXIT_FAILED,
                Settled::Working => EXIT_UNSETTLED,
            })
        }
        Command::Status { output } => {
            explain::status(&explain::load(&config, &*clock).await?, output)?;
            Ok(EXIT_OK)
        }
        Command::Explain { deployment, output } => {
            explain::explain(&explain::load(&config, &*clock).await?, deployment.as_deref(), output)?;
            Ok(EXIT_OK)
        }
        Command::Logs { deployment, component, lines } => {
            let report = explain::load(&config, &*clock).await?;
            let deployment = explain::find(&report, &deployment)?;
            let requested = LogsQuery { deployment, component, lines: lines as usize };
            let text = runtime(&config)?.logs(requested).await.map_err(anyhow::Error::msg)?;
            writeln!(anstream::stdout(), "{}", text.trim_end())?;
            Ok(EXIT_OK)
        }
        Command::Hold { length, comment, end } => hold::command(&config.state_dir, length, comment, end, &*clock),
        Command::ConfigExample => settings(ConfigCommand::Example, None).await,
        Command::Config { .. } => unreachable!("handled before a configuration is read"),
    }
}

async fn settings(command: ConfigCommand, given: Option<PathBuf>) -> anyhow::Result<u8> {
    match command {
        ConfigCommand::Example => write!(anstream::stdout(), "{}", config::EXAMPLE)?,
        ConfigCommand::Check { file } => {
            let path = file.or(given).unwrap_or_else(|| PathBuf::from(config::DEFAULT_PATH));
            let config = AgentConfig::check(&path)?;
            writeln!(anstream::stdout(), "`{}` can be used", path.display())?;
            if let Some(advice) = absent::advice(&config, &Places::of_this_machine()).await {
                write!(anstream::stdout(), "\n{}", advice.terminal_text())?;
            }
        }
    }
    Ok(EXIT_OK)
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

fn token(arguments: &EnrollArguments) -> anyhow::Result<SecretString> {
    let token = match (&arguments.token, &arguments.token_file) {
        (Some(token), _) => token.clone(),
        (None, Some(path)) => {
            std::fs::read_to_string(path).with_context(|| format!("read the token file `{}`", path.display()))?
        }
        (None, None) => anyhow::bail!("missing token: set `--token` or `--token-file`"),
    };
    Ok(SecretString::from(token.trim().to_owned()))
}

fn runtime(config: &AgentConfig) -> anyhow::Result<Arc<dyn Runtime>> {
    Ok(margrave_agent::runtimes::open(config)?)
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
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    let colors = std::io::IsTerminal::is_terminal(&std::io::stderr()) && !unwanted;
    if common.log_json {
        builder.json().flatten_event(true).init();
    } else {
        builder.with_ansi(colors).init();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lost_reader_of_the_output_ends_quietly() {
        let broken = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&anyhow::Error::from(broken())));
        let socket: anyhow::Result<()> = Err(broken()).context("cannot reach the engine");
        assert!(!is_broken_pipe(&socket.unwrap_err()));
        assert!(!is_broken_pipe(&anyhow::Error::from(std::io::Error::from(std::io::ErrorKind::NotFound))));
    }
}
