//! `margrave serve`: runs the server.

use crate::connection::ConnectionArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::shutdown::{ShutdownSignal, listen};
use margrave_server::clock::SystemClock;
use margrave_server::config::{Config, LogFormat};
use margrave_server::run::{self, Running, StartError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind};

/// Arguments of `serve`, `config check` and `config show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address for devices (mutual TLS); port 0 selects a free port
    #[arg(long, value_name = "ADDRESS")]
    devices: Option<SocketAddr>,
    /// Address for discovery, trust bundle and enrollment (HTTPS)
    #[arg(long, value_name = "ADDRESS")]
    trust: Option<SocketAddr>,
    /// Address for operators; plain HTTP on loopback, HTTPS elsewhere
    #[arg(long, value_name = "ADDRESS")]
    operators: Option<SocketAddr>,
    /// DNS name or IP address of this machine for other hosts; repeatable
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// SPIFFE trust domain; never change it on a running fleet
    #[arg(long, value_name = "DOMAIN")]
    trust_domain: Option<String>,
    /// Id of this server in the trust domain; never change it on a running fleet
    #[arg(long, value_name = "ID")]
    wfm_id: Option<String>,
    /// Log format on stderr; text at a terminal unless configured otherwise
    #[arg(long, value_enum, value_name = "FORMAT")]
    log: Option<LogArg>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum LogArg {
    Json,
    Text,
}

pub(crate) async fn serve(args: ServeArgs, connection: &ConnectionArgs, out: Output) -> Outcome {
    let config = settings(args, connection, out)?;
    margrave_server::telemetry::init(&config.log)
        .map_err(|error| Failure::usage("set up logging").caused_by(&error))?;
    let data = config.data_dir.clone();
    // Install signal handlers before the server becomes visible, so that it can be stopped at once.
    let (mut shutdown, mut hangup) = (ShutdownSignal::new()?, listen(SignalKind::hangup())?);
    let running = tokio::select! {
        started = run::start(config, Arc::new(SystemClock)) => started.map_err(not_started)?,
        // Unfinished work resumes at the next start.
        () = shutdown.recv() => return Ok(()),
    };
    greet(out, &running, &data);
    until_shutdown(&running, &mut shutdown, &mut hangup).await;
    out.say("Stopping; finishing open requests first.");
    running.shutdown().await;
    Ok(())
}

fn settings(args: ServeArgs, connection: &ConnectionArgs, out: Output) -> Outcome<Config> {
    let mut config = match &args.config {
        Some(path) => Config::read(path).map_err(|error| {
            Failure::usage(format!("use the configuration file `{}`", path.display()))
                .caused_by(&error)
                .next("`margrave config example` prints every setting")
        })?,
        None => Config::default(),
    };
    apply(&mut config, args, connection, out);
    Ok(config)
}

/// Overrides the file with flags; records which settings they set.
pub(crate) fn apply(
    config: &mut Config,
    args: ServeArgs,
    connection: &ConnectionArgs,
    out: Output,
) -> Vec<(&'static str, &'static str)> {
    let ServeArgs { config: file, devices, trust, operators, names, trust_domain, wfm_id, log } = args;
    let mut decided = Vec::new();
    let mut decide = |key, by| decided.push((key, by));
    if file.is_none() && out.talk_terminal {
        config.log.format = LogFormat::Text;
        decide("log.format", "text at a terminal");
    }
    if let Some(data) = &connection.data {
        config.data_dir.clone_from(data);
        decide("data_dir", "--data");
    }
    let listeners = &mut config.listeners;
    for (address, given, key, flag) in [
        (&mut listeners.devices.address, devices, "listeners.devices.address", "--devices"),
        (&mut listeners.trust.address, trust, "listeners.trust.address", "--trust"),
        (&mut listeners.operators.address, operators, "listeners.operators.address", "--operators"),
    ] {
        if let Some(given) = given {
            *address = given;
            decide(key, flag);
        }
    }
    if !names.is_empty() {
        config.https.names = names;
        decide("https.names", "--name");
    }
    if let Some(trust_domain) = trust_domain {
        config.identity.trust_domain = trust_domain;
        decide("identity.trust_domain", "--trust-domain");
    }
    if let Some(wfm_id) = wfm_id {
        config.identity.wfm_id = wfm_id;
        decide("identity.wfm_id", "--wfm-id");
    }
    if let Some(log) = log {
        config.log.format = match log {
            LogArg::Json => LogFormat::Json,
            LogArg::Text => LogFormat::Text,
        };
        decide("log.format", "--log");
    }
    decided
}

/// Why the server did not start, with the cause.
pub(crate) fn not_started(error: StartError) -> Failure {
    let exit = match error {
        StartError::Config(_) => Exit::Usage,
        _ => Exit::Failed,
    };
    Failure::new(exit, "the server did not start").caused_by(&error)
}

/// Prints the addresses, the token file and next steps.
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
    let password = data.join(run::ADMIN_PASSWORD_FILE);
    if password.exists() {
        out.say(format!("password   {} (of `admin`, until it is changed)", password.display()));
    }
    out.say("Next, in another terminal:");
    out.say(format!("  margrave --data {shown} app import FOLDER        # add a package to the catalog"));
    out.say(format!("  margrave --data {shown} client enrollment-token NAME  # enroll a device"));
    out.say(format!("  margrave --data {shown} doctor                   # check the installation"));
}

/// SIGHUP reloads.
async fn until_shutdown(running: &Running, shutdown: &mut ShutdownSignal, hangup: &mut Signal) {
    loop {
        tokio::select! {
            () = shutdown.recv() => return,
            () = running.wait() => return,
            _ = hangup.recv() => match running.state.identity.refresh() {
                Ok(true) => tracing::info!("reloaded certificates and trust anchors"),
                Ok(false) => tracing::info!("certificates and trust anchors are unchanged"),
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(error, "cannot read the new certificates; keeping the current ones");
                }
            },
        }
    }
}
