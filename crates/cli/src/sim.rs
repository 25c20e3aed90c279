//! `margrave sim`: runs a fleet of virtual devices against a server, with a live summary and a machine-readable result.

use crate::connection::{self, ConnectionArgs, Environment, read_token, saved};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::shutdown::ShutdownSignal;
use indicatif::{ProgressBar, ProgressStyle};
use margrave_api::client::{ApiClient, ClientOptions};
use margrave_server::clock::SystemClock;
use margrave_server::config::{Config, LogFormat, Span};
use margrave_server::run::{self, Running};
use margrave_sim::fleet::profile::{BUILT_IN, Profile};
use margrave_sim::fleet::tally::{self, Snapshot};
use margrave_sim::fleet::{self, CONNECTIONS_MAX, Connections, OTHER_FILES, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Interval between lines in a pipe.
const LINE_EVERY_MS: u64 = 5_000;
/// The embedded server does not need a long shutdown.
const DRAIN: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct SimArgs {
    /// Number of virtual devices; 0 with --clean only cleans up
    #[arg(long, value_name = "N", default_value_t = 100)]
    devices: usize,
    /// Poll interval of each device
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::clock::parse_span)]
    poll: Duration,
    /// Long-poll duration, as agents use by default; 0s sends plain polls
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = crate::clock::parse_span)]
    hold: Duration,
    /// Device profile: steady, flaky, plant, or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "steady")]
    profile: String,
    /// Print the profile and exit
    #[arg(long)]
    show_profile: bool,
    /// Random seed; the same seed gives the same devices and failures
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Whether devices keep their connection between polls
    #[arg(long, value_enum, default_value = "keep-alive")]
    connections: ConnectionsArg,
    /// Maximum open connections; further devices wait
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS_MAX)]
    connections_max: usize,
    /// Duration of the run; until Ctrl-C if not given
    #[arg(long = "for", value_name = "TIME", value_parser = crate::clock::parse_span)]
    run_for: Option<Duration>,
    /// Prefix of client and device ids; devices have the label simulation=PREFIX
    #[arg(long, default_value = "sim")]
    prefix: String,
    /// Afterwards delete the devices and decommission their clients
    #[arg(long)]
    clean: bool,
    /// Start a server in a temporary folder and deploy a sample application to the fleet
    #[arg(long, conflicts_with_all = ["data", "url"])]
    embedded: bool,
    /// Share of requests that may fail before the run counts as failed
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    errors_max: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ConnectionsArg {
    KeepAlive,
    Reconnect,
}

pub(crate) async fn run(args: SimArgs, connection: &ConnectionArgs, environment: &Environment, out: Output) -> Outcome {
    let text = profile_text(&args.profile)?;
    if args.show_profile {
        return out.data(&text);
    }
    let options = options(&args, &text)?;
    if args.embedded {
        let folder = tempfile::tempdir().map_err(|error| Failure::failed("create a folder").caused_by(&error))?;
        files(&options, 2)?;
        let (server, api) = embedded(folder.path()).await?;
        let outcome = simulate(&api, &options, args.errors_max, out).await;
        server.shutdown().await;
        return outcome;
    }
    files(&options, 1)?;
    let saved = saved::path().map(|path| saved::load(&path)).transpose()?.flatten();
    let api = connection::resolve(connection, environment, saved)?.client(connection.idempotency_key.as_deref())?;
    if options.devices == 0 && options.clean {
        let count = fleet::clean(&api, &options.prefix).await.map_err(|error| broken(&error))?;
        out.say(format!("{count} clients named `{}-…` are decommissioned.", options.prefix));
        return Ok(());
    }
    simulate(&api, &options, args.errors_max, out).await
}

fn profile_text(name: &str) -> Outcome<String> {
    if let Some(text) = Profile::built_in(name) {
        return Ok(text.to_owned());
    }
    std::fs::read_to_string(name).map_err(|error| {
        let known: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        Failure::usage(format!("read the profile `{name}`")).caused_by(&error).next(format!(
            "built-in profiles are {}; `margrave sim --show-profile` prints a template",
            known.join(", ")
        ))
    })
}

fn options(args: &SimArgs, profile: &str) -> Outcome<Options> {
    let profile = Profile::parse(profile).map_err(|problems| {
        let mut failure = Failure::usage(format!("the profile `{}` is not valid", args.profile));
        for problem in problems {
            let place = problem.place.map(|place| format!("{}, {place}: ", args.profile)).unwrap_or_default();
            failure = failure.because(format!("{place}`{}` {}", problem.key, problem.text));
        }
        failure.next("`margrave sim --show-profile` prints one with every setting")
    })?;
    let options = Options {
        devices: args.devices,
        prefix: args.prefix.clone(),
        poll: args.poll,
        hold: args.hold,
        profile,
        seed: args.seed,
        connections: match args.connections {
            ConnectionsArg::KeepAlive => Connections::KeepAlive,
            ConnectionsArg::Reconnect => Connections::Reconnect,
        },
        connections_max: args.connections_max,
        run_for: args.run_for,
        deploy_sample: args.embedded,
        clean: args.clean && !args.embedded,
    };
    let mut problems = options.problems();
    if options.devices == 0 && !options.clean {
        problems.push("--devices: must be at least 1".to_owned());
    }
    if !(0.0..=1.0).contains(&args.errors_max) {
        problems.push("--errors-max: must be a share between 0.0 and 1.0".to_owned());
    }
    if problems.is_empty() {
        return Ok(options);
    }
    Err(problems.into_iter().fold(Failure::usage("invalid simulation options"), Failure::because))
}

/// Every connection needs an open file, and two if the server runs in this process.
fn files(options: &Options, sides: u64) -> Outcome {
    let connections = options.devices.min(options.connections_max) as u64;
    let needed = connections * sides + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit { current: limit.maximum.map(|maximum| maximum.min(needed.max(maximum))), ..limit };
    if limit.maximum.is_none_or(|maximum| maximum >= needed) && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    let now = limit.current.unwrap_or(u64::MAX);
    Err(Failure::usage(format!("{needed} open files needed, the limit of this process is {now}"))
        .because(format!("{connections} connections and {OTHER_FILES} other files"))
        .next(format!(
            "`ulimit -n {needed}` in this shell (or LimitNOFILE= of its unit), or a lower --connections-max"
        )))
}

async fn embedded(folder: &Path) -> Outcome<(Running, ApiClient)> {
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let data: PathBuf = folder.join("data");
    let mut config = Config { data_dir: data.clone(), ..Config::default() };
    config.listeners.devices.address = loopback;
    config.listeners.trust.address = loopback;
    config.listeners.operators.address = loopback;
    config.limits.drain_timeout = Span(DRAIN);
    config.log.format = LogFormat::Text;
    "error".clone_into(&mut config.log.filter);
    margrave_server::telemetry::init(&config.log)
        .map_err(|error| Failure::failed("set up logging").caused_by(&error))?;
    let running = run::start(config, Arc::new(SystemClock)).await.map_err(crate::serve::not_started)?;
    let token = read_token(&data.join(run::ADMIN_TOKEN_FILE))?;
    let api = ApiClient::new(&ClientOptions::new(&running.state.urls.operators).with_token(&token))?;
    Ok((running, api))
}

fn broken(error: &anyhow::Error) -> Failure {
    error.chain().fold(Failure::failed("the simulation failed"), |failure, cause| failure.because(cause.to_string()))
}

async fn simulate(api: &ApiClient, options: &Options, errors_max: f64, out: Output) -> Outcome {
    // Check the connection first, so that a wrong token or address is reported clearly.
    api.whoami().await?;
    let stop = CancellationToken::new();
    let stopper = tokio::spawn(stop_on_signal(stop.clone())?);
    let live = Live::new(options, out);
    let result = fleet::run(api, options, stop, &|snapshot| live.show(snapshot)).await;
    live.end();
    stopper.abort();
    let result = result.map_err(|error| broken(&error))?;
    let problems = result.problems(errors_max);
    out.show(&Shown { result: &result, problems: &problems }, |out| table(out, &result))?;
    if problems.is_empty() {
        return Ok(());
    }
    Err(problems
        .into_iter()
        .fold(Failure::new(Exit::Failed, "some devices did not reach the expected state"), Failure::because))
}

/// For `-o json`.
#[derive(serde::Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    result: &'a tally::Outcome,
    /// Empty if the run succeeded.
    problems: &'a [String],
}

fn stop_on_signal(stop: CancellationToken) -> Outcome<impl Future<Output = ()>> {
    let mut shutdown = ShutdownSignal::new()?;
    Ok(async move {
        shutdown.recv().await;
        stop.cancel();
    })
}

fn table(out: Output, result: &tally::Outcome) -> String {
    let state = &result.state;
    let errors: Vec<_> = state.errors.iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
    let latency = |quantiles: tally::Quantiles| {
        format!(
            "p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
            quantiles.p50, quantiles.p90, quantiles.p99, quantiles.max
        )
    };
    let polls = state.polls;
    out.fields(&[
        ("devices", format!("{} of {} enrolled, {} reporting", state.enrolled, result.devices, state.reporting)),
        (
            "state",
            format!(
                "{} up to date, {} failed ({} as configured), {} updating, {} offline",
                state.up_to_date, state.failed, result.failed_as_configured, state.working, state.offline
            ),
        ),
        ("deployments", deployments(state)),
        (
            "polls",
            format!(
                "{} ({} unchanged, {} changed, {} failed), {:.1} per second",
                polls.all(),
                polls.unchanged,
                polls.changed,
                polls.failed,
                result.polls_per_second
            ),
        ),
        ("poll latency", latency(state.poll_latency_ms)),
        ("connecting", latency(state.connect_latency_ms)),
        (
            "connections",
            format!(
                "{} opened, peak {}, limit {}",
                state.connections.opened, state.connections.peak, result.connections_max
            ),
        ),
        ("requests", state.requests.to_string()),
        ("errors", if errors.is_empty() { "none".to_owned() } else { errors.join("\n") }),
        ("duration", format!("{:.1} s", state.seconds)),
    ])
}

fn deployments(state: &Snapshot) -> String {
    let counts: Vec<_> = state.deployments.iter().map(|(state, count)| format!("{count} {state}")).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

/// The live summary: a few lines at a terminal, a line at intervals in a pipe.
struct Live {
    bar: Option<ProgressBar>,
    out: Output,
    devices: usize,
    next_line_ms: AtomicU64,
    /// Number of polls and time of the previous update, to compute the rate.
    before: std::sync::Mutex<(f64, u64)>,
}

impl Live {
    fn new(options: &Options, out: Output) -> Self {
        let bar = (out.talk_terminal && !out.quiet).then(|| {
            let bar = ProgressBar::new(options.devices as u64);
            bar.set_style(
                ProgressStyle::with_template("{spinner} [{bar:30}] {pos}/{len} up to date\n{msg}")
                    .expect("the template is a valid constant"),
            );
            bar
        });
        Self {
            bar,
            out,
            devices: options.devices,
            next_line_ms: AtomicU64::new(0),
            before: std::sync::Mutex::new((0.0, 0)),
        }
    }

    fn show(&self, snapshot: &Snapshot) {
        let now_ms = (snapshot.seconds * 1000.0) as u64;
        let due = now_ms >= self.next_line_ms.load(Ordering::Relaxed);
        match &self.bar {
            Some(bar) => {
                bar.set_position(snapshot.up_to_date as u64);
                if due {
                    self.next_line_ms.store(now_ms + 1_000, Ordering::Relaxed);
                    bar.set_message(self.text(snapshot, "\n"));
                }
                bar.tick();
            }
            None if due => {
                self.next_line_ms.store(now_ms + LINE_EVERY_MS, Ordering::Relaxed);
                self.out.say(self.text(snapshot, "; "));
            }
            None => {}
        }
    }

    fn text(&self, snapshot: &Snapshot, between: &str) -> String {
        let polls = snapshot.polls;
        let rate = {
            let mut before = self.before.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (seconds, count) = *before;
            *before = (snapshot.seconds, polls.all());
            (polls.all() - count) as f64 / (snapshot.seconds - seconds).max(0.001)
        };
        let errors: u64 = snapshot.errors.values().sum();
        let mut text = String::new();
        let _ = write!(
            text,
            "{:.0} s: {}/{} enrolled, {} reporting, {} up to date, {} failed, {} offline{between}",
            snapshot.seconds,
            snapshot.enrolled,
            self.devices,
            snapshot.reporting,
            snapshot.up_to_date,
            snapshot.failed,
            snapshot.offline
        );
        let _ = write!(
            text,
            "{rate:.0} polls/s (304: {}, 200: {}, failed: {}), p50 {:.1} ms, p99 {:.1} ms, {errors} errors, {} connections{between}",
            polls.unchanged,
            polls.changed,
            polls.failed,
            snapshot.poll_latency_ms.p50,
            snapshot.poll_latency_ms.p99,
            snapshot.connections.open
        );
        let _ = write!(text, "deployments: {}", deployments(snapshot));
        text
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
