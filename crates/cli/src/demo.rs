//! `margrave demo`: server and simulated devices in one process.

use crate::connection::ConnectionArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, paint};
use crate::shutdown::ShutdownSignal;
use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use margrave_api::client::{ApiClient, ClientOptions};
use margrave_server::clock::SystemClock;
use margrave_server::config::{Config, LogFormat, Span};
use margrave_server::run::{self, Running, StartError};
use margrave_sim::demo::real::{DEVICE, Engine};
use margrave_sim::demo::{Demo, Size};
use owo_colors::Style;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

const OPERATORS_PORT: u16 = 8080;
const TRUST_PORT: u16 = 8443;
/// Not 443, which is a privileged port.
const DEVICES_PORT: u16 = 8444;
/// Demo devices poll every two seconds; after this time without a poll a device counts as offline.
const OFFLINE_AFTER_SECONDS: u64 = 15;
/// The demo does not need a long shutdown.
const DRAIN: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Everything runs in this process and listens only on loopback addresses. State is stored in the data folder
(./demo-data unless --data is given) and survives restarts. Ctrl-C stops everything.
Ports in use are replaced by free ones."
)]
pub(crate) struct DemoArgs {
    /// Number of simulated devices (8 to 500), without the children of the gateway
    #[arg(long, value_name = "N", default_value_t = 36)]
    devices: usize,
    /// Port for operators: web UI and API
    #[arg(long, default_value_t = OPERATORS_PORT)]
    port: u16,
    /// Start, wait until the fleet has settled, print a summary, stop
    #[arg(long)]
    check: bool,
    /// Folder with built sample applications (`scripts/samples.sh build`); if Docker runs on this machine, it becomes a
    /// real device that runs them
    #[arg(long, value_name = "FOLDER")]
    samples: Option<PathBuf>,
    /// Timeout of --check
    #[arg(long, value_name = "TIME", default_value = "3m", value_parser = crate::clock::parse_span)]
    timeout: Duration,
}

pub(crate) async fn run(args: DemoArgs, connection: &ConnectionArgs, out: Output) -> Outcome {
    let data = connection.data.clone().unwrap_or_else(|| PathBuf::from("demo-data"));
    let mut config = settings(&data, args.port);
    // Simulated devices pull nothing, and the registry named by the samples does not exist.
    config.catalog.check_registries = args.samples.is_some();
    margrave_server::telemetry::init(&config.log)
        .map_err(|error| Failure::failed("set up logging").caused_by(&error))?;
    let mut shutdown = ShutdownSignal::new()?;
    let progress = Progress::new(out);
    progress.show("starting the server");
    let started = match run::start(config.clone(), Arc::new(SystemClock)).await {
        // Another program took the free port in the meantime.
        Err(StartError::Listen { .. }) => run::start(anywhere(config), Arc::new(SystemClock)).await,
        started => started,
    };
    let running = started.map_err(|error| not_started(error, &data))?;
    let outcome = tokio::select! {
        outcome = fleet(&running, &data, &args, progress, out, &mut shutdown) => outcome,
        // The log says why the server stopped.
        () = running.wait() => Err(Failure::failed("the server has stopped")),
    };
    running.shutdown().await;
    outcome
}

fn settings(data: &Path, port: u16) -> Config {
    let mut config = Config { data_dir: data.to_owned(), ..Config::default() };
    config.offline_after = Span(Duration::from_secs(OFFLINE_AFTER_SECONDS));
    config.listeners.operators.address = free(port);
    config.listeners.trust.address = free(TRUST_PORT);
    config.listeners.devices.address = free(DEVICES_PORT);
    config.limits.drain_timeout = Span(DRAIN);
    config.log.format = LogFormat::Text;
    // Failing and offline devices are part of the demo; log only unexpected problems.
    "error".clone_into(&mut config.log.filter);
    config
}

/// The port on the loopback address, or any free port if it is in use.
fn free(port: u16) -> SocketAddr {
    let requested = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match TcpListener::bind(requested) {
        Ok(_) => requested,
        Err(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    }
}

/// Uses ports assigned by the system.
fn anywhere(mut config: Config) -> Config {
    config.listeners.operators.address = free(0);
    config.listeners.trust.address = free(0);
    config.listeners.devices.address = free(0);
    config
}

fn not_started(error: StartError, data: &Path) -> Failure {
    let in_use = matches!(error, StartError::InUse { .. });
    let failure = crate::serve::not_started(error);
    if in_use {
        return failure.next(format!(
            "a demo is already running; connect to it with `margrave --data {} status`",
            data.display()
        ));
    }
    failure
}

/// Starts the fleet and runs it until shutdown.
async fn fleet(
    running: &Running,
    data: &Path,
    args: &DemoArgs,
    progress: Progress,
    out: Output,
    shutdown: &mut ShutdownSignal,
) -> Outcome {
    let token = crate::connection::read_token(&data.join(run::ADMIN_TOKEN_FILE))?;
    let url = running.state.urls.operators.clone();
    let api = ApiClient::new(&ClientOptions::new(&url).with_token(&token))?;
    let say = |text: &str| progress.show(text);
    let demo = tokio::select! {
        demo = Demo::start(api, data, args.devices, &say) => demo.map_err(|error| broken(&error))?,
        () = shutdown.recv() => return Ok(()),
    };
    let real = tokio::select! {
        real = this_machine(&demo, data, args.samples.as_deref(), &progress, out) => real,
        () = shutdown.recv() => {
            demo.stop().await;
            return Ok(());
        }
    };
    let outcome = match args.check.then_some(args.timeout) {
        Some(timeout) => {
            progress.show("waiting until the fleet has settled");
            let outcome = tokio::time::timeout(timeout, demo.converged()).await;
            progress.end();
            match outcome {
                Ok(Ok(size)) => out.data(&summary(&url, size)),
                Ok(Err(error)) => Err(broken(&error)),
                Err(_) => Err(Failure::new(
                    Exit::TimedOut,
                    format!("the fleet has not settled after {} s", timeout.as_secs()),
                )
                .next(format!("`margrave --data {} deployment list` shows the current state", data.display()))),
            }
        }
        None => {
            progress.end();
            out.must_say(welcome(out, &url, &token, data, &demo, real));
            shutdown.recv().await;
            out.must_say("\nStopping. The data folder keeps the state.");
            Ok(())
        }
    };
    demo.stop().await;
    outcome
}

fn broken(error: &anyhow::Error) -> Failure {
    let mut failure = Failure::failed("the demo did not start");
    for cause in error.chain() {
        failure = failure.because(cause.to_string());
    }
    failure.next("start with a new data folder (--data DIR)")
}

fn summary(url: &str, size: Size) -> String {
    let Size { clients, devices, deployments } = size;
    format!("{url}: {clients} clients, {devices} devices, {deployments} deployments, all as expected\n")
}

/// The welcome text: URL, login, and commands to try.
fn welcome(out: Output, url: &str, token: &str, data: &Path, demo: &Demo, real: bool) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "margrave".to_owned());
    let command = format!("{program} --data {}", data.display());
    let bold = |text: &str| paint(text, Style::new().bold(), out.talk_color);
    let state = if demo.first_start { "new fleet" } else { "existing fleet" };
    format!(
        "\n{title} ({state})\n
  Open         {url}/sign-in#token={token}
{password}  Token        {token_file}
  Login        {program} login --data {data}   # then omit --data below
  Devices      simulated: they report like real devices, but install nothing{this_one}

{try_it}

  1. Check which devices can run an application, and why others cannot:
     {command} app compatibility vibration-analytics

  2. Deploy to all compatible devices in Graz and follow the rollout:
     {command} deploy line-monitor@1.0.0 --selector site=graz --set lineName=\"Press 7\" --skip-incompatible --yes --wait

  3. Preview an upgrade device by device, then run it:
     {command} deployment upgrade --app line-monitor --selector site=linz --to 1.1.0 --dry-run
     {command} deployment upgrade --app line-monitor --selector site=linz --to 1.1.0 --yes --wait

  4. Follow all events:
     {command} events --follow

  5. Explain a status (also for a device or a deployment):
     {command} app explain vibration-analytics
{on_this_machine}
Ctrl-C stops everything; the next start continues with the same state.",
        on_this_machine = if real { on_this_machine(&command, out) } else { String::new() },
        this_one = if real { format!("\n               (except {DEVICE})") } else { String::new() },
        title = bold("Margrave demo"),
        try_it = bold("Five things to try, in another terminal:"),
        password = sign_in(data, url),
        token_file = data.join(run::ADMIN_TOKEN_FILE).display(),
        data = data.display(),
    )
}

/// How to sign in without the link.
fn sign_in(data: &Path, url: &str) -> String {
    match std::fs::read_to_string(data.join(run::ADMIN_PASSWORD_FILE)) {
        Ok(password) => format!("  or           {url}/sign-in, name admin, password {}\n", password.trim()),
        Err(_) => format!("  or           {url}/sign-in, name admin, with the password you set\n"),
    }
}

/// Additional commands for a machine with Docker.
fn on_this_machine(command: &str, out: Output) -> String {
    let title = paint("Docker runs here, so this machine is a device too:", Style::new().bold(), out.talk_color);
    format!(
        "
{title}

     {command} deploy line-monitor@1.0.0 --device {DEVICE} --set lineName=\"Press 7\" --yes --wait
     then open http://127.0.0.1:8088 (docs/guides/tutorial.md continues from here)

  Real workloads keep running after the demo ends. To remove them:
     {command} deployment remove --app line-monitor --device {DEVICE} --yes --wait
"
    )
}

/// If Docker runs here, pushes the samples to the registry and adds this machine to the fleet. A failure does not stop
/// the demo.
async fn this_machine(demo: &Demo, data: &Path, samples: Option<&Path>, progress: &Progress, out: Output) -> bool {
    let Some(samples) = samples.filter(|samples| samples.join("images").is_dir()) else { return false };
    let engine = match Engine::find().await {
        Ok(engine) => engine,
        Err(reason) => {
            progress.end();
            out.say(format!("note: this machine is not a device of the fleet: {reason}"));
            return false;
        }
    };
    progress.show("pushing the samples to the registry");
    let added = async {
        for artifact in built(samples)? {
            push(data, &artifact).await?;
        }
        progress.show("waiting for this machine");
        demo.add_this_machine(data, &engine).await
    };
    match added.await {
        Ok(()) => true,
        Err(error) => {
            progress.end();
            out.say(format!("warning: Docker runs here, but this machine is not a device: {error:#}"));
            false
        }
    }
}

/// Images first, then the packages that use them.
fn built(samples: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let list = |folder: &Path| -> anyhow::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
        let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        paths.sort();
        Ok(paths)
    };
    let mut artifacts = list(&samples.join("images"))?;
    for application in list(&samples.join("packages"))?.iter().filter(|path| path.is_dir()) {
        artifacts.extend(list(application)?);
    }
    Ok(artifacts)
}

/// Runs `margrave app push`.
async fn push(data: &Path, artifact: &Path) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("find this program")?;
    let output = tokio::process::Command::new(program)
        .arg("--data")
        .arg(data)
        .args(["app", "push", "--no-import", "--force"])
        .arg(artifact)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("run `margrave app push`")?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    anyhow::bail!("push {}: {message}", artifact.display())
}

/// Start-up progress: one line at a terminal, nothing in a pipe.
struct Progress(Option<ProgressBar>);

impl Progress {
    fn new(out: Output) -> Self {
        Self((out.talk_terminal && !out.quiet).then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("the template is a valid constant"));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        }))
    }

    fn show(&self, text: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(text.to_owned());
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
