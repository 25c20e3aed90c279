//! `margrave serve` and `margrave config`: the server itself.

use crate::connection::ConnectionArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use margrave_server::clock::SystemClock;
use margrave_server::config::{Config, LogFormat};
use margrave_server::run::{self, Running, StartError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  margrave serve --data ./fleet
  margrave serve --config /etc/margrave/margrave.toml
  margrave serve --data ./fleet --devices 127.0.0.1:9443 --trust 127.0.0.1:9444 --operators 127.0.0.1:9080
  margrave serve --data ./fleet --operators 0.0.0.0:8080 --name fleet.example

With no file at all the server starts on SQLite in its data folder, with a trust domain of its own.
The first API token is written to DIR/admin-token, the addresses really bound to DIR/addresses.json.
SIGTERM and Ctrl-C stop it gracefully; SIGHUP reloads certificates and trust anchors.
Flags go before the configuration file; docs/configuration.md lists every setting.")]
pub(crate) struct ServeArgs {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address for devices (mutual TLS); port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    devices: Option<SocketAddr>,
    /// Address for discovery, trust bundle and enrolment (HTTPS)
    #[arg(long, value_name = "ADDRESS")]
    trust: Option<SocketAddr>,
    /// Address for operators; plain HTTP on loopback, HTTPS elsewhere
    #[arg(long, value_name = "ADDRESS")]
    operators: Option<SocketAddr>,
    /// DNS name or IP address by which others reach this machine; may be given several times
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// SPIFFE trust domain; never change it on a running fleet
    #[arg(long, value_name = "DOMAIN")]
    trust_domain: Option<String>,
    /// Id of this server in the trust domain; never change it on a running fleet
    #[arg(long, value_name = "ID")]
    wfm_id: Option<String>,
    /// How log lines on stderr look; text at a terminal unless the file says otherwise
    #[arg(long, value_enum, value_name = "FORMAT")]
    log: Option<LogArg>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum LogArg {
    Json,
    Text,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read a configuration file and tell everything that is wrong with it
    Check {
        /// Configuration file (TOML)
        file: PathBuf,
    },
    /// Print every setting with its default and meaning
    Reference,
}

pub(crate) async fn serve(args: ServeArgs, connection: &ConnectionArgs, out: Output) -> Outcome {
    let config = settings(args, connection, out)?;
    margrave_server::telemetry::init(&config.log)
        .map_err(|error| Failure::usage("set up logging").caused_by(&error))?;
    let data = config.data_dir.clone();
    let running = run::start(config, Arc::new(SystemClock)).await.map_err(not_started)?;
    greet(out, &running, &data);
    let outcome = until_told(&running).await;
    out.say("Stopping; requests under way are finished first.");
    running.shutdown().await;
    outcome
}

fn settings(args: ServeArgs, connection: &ConnectionArgs, out: Output) -> Outcome<Config> {
    let ServeArgs { config: file, devices, trust, operators, names, trust_domain, wfm_id, log } = args;
    let mut config = match &file {
        Some(path) => read(path)?,
        None => {
            let mut config = Config::default();
            if out.talk_terminal {
                config.log.format = LogFormat::Text;
            }
            config
        }
    };
    if let Some(data) = &connection.data {
        config.data_dir.clone_from(data);
    }
    let listeners = &mut config.listeners;
    for (address, given) in [
        (&mut listeners.devices.address, devices),
        (&mut listeners.trust.address, trust),
        (&mut listeners.operators.address, operators),
    ] {
        *address = given.unwrap_or(*address);
    }
    if !names.is_empty() {
        config.https.names = names;
    }
    config.identity.trust_domain = trust_domain.unwrap_or(config.identity.trust_domain);
    config.identity.wfm_id = wfm_id.unwrap_or(config.identity.wfm_id);
    match log {
        Some(LogArg::Json) => config.log.format = LogFormat::Json,
        Some(LogArg::Text) => config.log.format = LogFormat::Text,
        None => {}
    }
    Ok(config)
}

fn read(path: &Path) -> Outcome<Config> {
    Config::read(path).map_err(|error| {
        Failure::usage(format!("use the configuration file `{}`", path.display()))
            .caused_by(&error)
            .next("`margrave config reference` lists every setting")
    })
}

/// Why the server did not start, with the cause behind it.
pub(crate) fn not_started(error: StartError) -> Failure {
    let exit = match error {
        StartError::Config(_) => Exit::Usage,
        _ => Exit::Failed,
    };
    Failure::new(exit, "the server did not start").caused_by(&error)
}

/// Where it listens, where the token is, what to do next.
fn greet(out: Output, running: &Running, data: &Path) {
    let urls = &running.state.urls;
    let shown = data.display();
    let on = |address: Option<SocketAddr>, url: &str| match address {
        Some(address) => format!("{url} ({address})"),
        None => "off".to_owned(),
    };
    let addresses = &running.addresses;
    out.say(format!("devices    {}", on(addresses.devices, &urls.devices)));
    out.say(format!("trust      {}", on(addresses.trust, &urls.trust)));
    out.say(format!("operators  {}", on(addresses.operators, &urls.operators)));
    out.say(format!("token      {}", data.join(run::ADMIN_TOKEN_FILE).display()));
    out.say("Next, in another terminal:");
    out.say(format!("  margrave --data {shown} app import FOLDER        # fill the catalog"));
    out.say(format!("  margrave --data {shown} client enrol-token NAME  # bring a device in"));
    out.say(format!("  margrave --data {shown} doctor                   # check everything"));
}

/// Until SIGTERM or SIGINT; SIGHUP reloads.
async fn until_told(running: &Running) -> Outcome {
    let listen = |kind| signal(kind).map_err(|error| Failure::failed("listen for signals").caused_by(&error));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut hangup = listen(SignalKind::hangup())?;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            () = running.wait() => return Ok(()),
            _ = hangup.recv() => match running.state.identity.refresh() {
                Ok(true) => tracing::info!("reloaded certificates and trust anchors"),
                Ok(false) => tracing::info!("certificates and trust anchors have not changed"),
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(error, "kept the certificates in use: the new ones cannot be read");
                }
            },
        }
    }
}

/// A setting for `-o json`.
#[derive(serde::Serialize)]
struct Described {
    setting: String,
    /// As it would stand in the file; empty when there is none.
    default: String,
    meaning: String,
}

pub(crate) fn config(command: ConfigCommand, out: Output) -> Outcome {
    match command {
        ConfigCommand::Check { file } => {
            read(&file)?;
            out.say(format!("`{}` can be used.", file.display()));
            Ok(())
        }
        ConfigCommand::Reference => {
            let settings: Vec<_> = Config::reference()
                .into_iter()
                .map(|setting| Described { setting: setting.key, default: setting.default, meaning: setting.text })
                .collect();
            out.show(&settings, |out| {
                let rows = settings.iter().map(|Described { setting, default, meaning }| {
                    [setting, default, meaning].into_iter().cloned().collect()
                });
                out.table(&["setting", "default", "meaning"], rows)
            })
        }
    }
}
