//! The thin shell around the machine: feeds inputs and executes effects.
//!
//! There is no global state: many agents can run in one process, each with its own state folder.

mod connection;
mod preload;
mod tasks;
mod writer;

use crate::codes::Code;
use crate::config::{AgentConfig, ConfigError};
use crate::disk::{DiskError, StateDir};
use crate::facts::{FactsError, Host};
use crate::machine::io::{Effect, Event, Input, Level, Preloaded, WorkId};
use crate::machine::report::{Report, Trouble};
use crate::machine::{Machine, Settled};
use crate::preload::Preload;
use crate::runtimes::{Future, Runtime, absent};
use connection::ConnectionManager;
use margrave_core::time::{Clock, Timestamp};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use writer::Writer;

/// Each running effect gives at most one input, so this many never block for long.
const INPUTS_MAX: usize = 64;

/// How often identity and capability files are checked.
const HOUSEKEEPING: Duration = Duration::from_secs(2);

/// Longest sleep, so that a clock change does not leave the agent asleep.
const SLEEP_MAX: Duration = Duration::from_secs(30);

/// Delay between two observations because of events: one start causes many events.
const CHANGES_PAUSE: Duration = Duration::from_secs(1);

/// The file `status` and `explain` read.
pub const REPORT_FILE: &str = "report.json";

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Facts(#[from] FactsError),
    #[error("draw random numbers: {0}")]
    Random(String),
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place where the agent's time comes from")]
    fn now(&self) -> Timestamp {
        Timestamp(jiff::Timestamp::now().as_microsecond())
    }
}

/// Runs until cancelled. Workloads keep running afterwards.
pub async fn run(
    config: AgentConfig,
    runtime: Arc<dyn Runtime>,
    clock: Arc<dyn Clock>,
    cancel: CancellationToken,
) -> Result<(), AgentError> {
    let mut agent = Box::new(Agent::open(config, runtime, clock)?);
    // On the heap: one process may run many agents.
    Box::pin(agent.advise_on_runtime()).await;
    Box::pin(agent.drive(&cancel, |_| false)).await;
    Box::pin(agent.close()).await;
    Ok(())
}

/// Runs until everything possible is done and reported, or until cancelled.
pub async fn once(
    mut config: AgentConfig,
    runtime: Arc<dyn Runtime>,
    clock: Arc<dyn Clock>,
    cancel: CancellationToken,
) -> Result<(Settled, Report), AgentError> {
    config.poll.start_spread = Duration::ZERO;
    // Ends when there is no work left for now.
    config.poll.long_poll = Duration::ZERO;
    let mut agent = Box::new(Agent::open(config, runtime, clock)?);
    Box::pin(agent.advise_on_runtime()).await;
    Box::pin(agent.drive(&cancel, |machine| machine.settled() != Settled::Working)).await;
    let now = agent.clock.now();
    let mut report = agent.machine.report(now);
    report.troubles.extend(agent.nothing_runs.clone());
    let outcome = (agent.machine.settled(), report);
    Box::pin(agent.close()).await;
    Ok(outcome)
}

struct Agent {
    clock: Arc<dyn Clock>,
    rng: StdRng,
    machine: Machine,
    keeper: ConnectionManager,
    runtime: Arc<dyn Runtime>,
    writer: Writer,
    state: Arc<StateDir>,
    inputs: mpsc::Sender<Input>,
    arriving: mpsc::Receiver<Input>,
    works: HashMap<WorkId, CancellationToken>,
    wake: Timestamp,
    reported: Option<Report>,
    /// Why this device has no runtime.
    nothing_runs: Option<Trouble>,
}

impl Agent {
    fn open(config: AgentConfig, runtime: Arc<dyn Runtime>, clock: Arc<dyn Clock>) -> Result<Self, AgentError> {
        let settings = config.settings()?;
        let state = Arc::new(StateDir::open(&config.state_dir)?);
        if let Some(changed_file) = crate::identity::machine::set_aside(&config)? {
            let message = format!(
                "`{}` has changed since enrollment: this disk was copied from another machine. The agent has set the \
                 identity and the records aside; enroll this device with its own token",
                changed_file.display()
            );
            log(&Event { level: Level::Error, code: Some(Code::IdentityUnusable), deployment: None, message });
        }
        let mut found = state.load();
        found.loaded.boot = crate::hold::boot();
        for error in &found.unreadable {
            let event = Event {
                level: Level::Error,
                code: Some(Code::RecordUnreadable),
                deployment: None,
                message: format!("{}: treated as unknown, workloads are not changed", error.chain()),
            };
            log(&event);
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| AgentError::Random(error.to_string()))?;
        let mut rng = StdRng::from_seed(seed);
        let now = clock.now();
        let machine = Machine::new(settings, found.loaded, now, &mut rng);
        let (inputs, arriving) = mpsc::channel(INPUTS_MAX);
        let writer = Writer::start(Arc::clone(&state), inputs.clone());
        let keeper = ConnectionManager::new(config, Arc::clone(&clock), Host::of(&*runtime))?;
        Ok(Self {
            clock,
            rng,
            machine,
            keeper,
            runtime,
            writer,
            state,
            inputs,
            arriving,
            works: HashMap::new(),
            wake: now,
            reported: None,
            nothing_runs: None,
        })
    }

    /// A device without a runtime reports this in its log and in `status`, with the next steps.
    async fn advise_on_runtime(&mut self) {
        let places = absent::Places::of_this_machine();
        let Some(advice) = absent::advice(&self.keeper.config, &places).await else { return };
        if !self.runtime.deployment_types().is_empty() {
            return;
        }
        let (code, message) = (Code::NoRuntime, advice.to_string());
        log(&Event { level: Level::Warn, code: Some(code), deployment: None, message: message.clone() });
        self.nothing_runs = Some(no_runtime(message, self.clock.now()));
    }

    async fn drive(&mut self, cancel: &CancellationToken, done: impl Fn(&Machine) -> bool) {
        let mut housekeeping = tokio::time::interval(HOUSEKEEPING);
        housekeeping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Before any work can start.
        self.do_housekeeping().await;
        let changes = watch(Arc::clone(&self.runtime), self.inputs.clone());
        while !cancel.is_cancelled() && !done(&self.machine) {
            let sleep = self.wake.since(self.clock.now()).min(SLEEP_MAX);
            tokio::select! {
                () = cancel.cancelled() => break,
                Some(input) = self.arriving.recv() => self.feed(input),
                () = tokio::time::sleep(sleep) => self.feed(Input::Tick),
                _ = housekeeping.tick() => self.do_housekeeping().await,
            }
        }
        changes.abort();
        self.publish_report();
        for work in self.works.values() {
            work.cancel();
        }
    }

    /// Releases the state folder for another agent.
    async fn close(self) {
        let Self { arriving, writer, state, .. } = self;
        drop(arriving);
        writer.finish().await;
        drop(state);
    }

    /// Checks for changed files, old connections, and a due refresh of the trust bundle.
    async fn do_housekeeping(&mut self) {
        self.check_hold();
        for event in self.keeper.check().await {
            log(&event);
        }
        // Before the first request: there may be a preloaded desired state.
        self.check_preload();
        if let Some(devices) = self.keeper.take_devices() {
            self.feed(Input::Devices(devices));
        }
        self.publish_report();
    }

    fn check_preload(&mut self) {
        if !self.machine.is_blank() {
            return self.keeper.forget_preload();
        }
        let Some(found) = self.keeper.preload() else { return };
        let taken = found.and_then(|preload| {
            self.runtime.preload(&preload)?;
            let Preload { body, etag, documents, .. } = preload.as_ref().clone();
            Ok(Preloaded { body, etag, documents })
        });
        self.feed(Input::Preload(taken));
    }

    fn check_hold(&mut self) {
        if let Some(changed) = self.keeper.check_hold() {
            self.runtime.hold(matches!(changed, Input::Hold(Some(_))));
            self.feed(changed);
        }
    }

    fn feed(&mut self, input: Input) {
        let now = self.clock.now();
        for effect in self.machine.step(input, now, &mut self.rng) {
            self.execute(effect);
        }
    }

    fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Request { id, request } => {
                let link = self.keeper.link();
                let inputs = self.inputs.clone();
                tokio::spawn(async move {
                    let answer = match link {
                        Ok(wfm) => wfm.send(request).await,
                        Err(failed) => failed,
                    };
                    let _ = inputs.send(Input::Answered { request: id, answer }).await;
                });
            }
            Effect::Persist { write, records } => self.writer.persist(write, records),
            Effect::Forget(digests) => self.writer.forget(digests),
            Effect::Apply(work) => {
                let runtime = Arc::clone(&self.runtime);
                let id = work.work;
                self.work(id, Box::pin(async move { runtime.apply(work).await }));
            }
            Effect::Remove(work) => {
                let runtime = Arc::clone(&self.runtime);
                let id = work.work;
                self.work(id, Box::pin(async move { runtime.remove(work).await }));
            }
            Effect::Cancel(work) => {
                if let Some(token) = self.works.get(&work) {
                    token.cancel();
                }
            }
            Effect::Observe(observation) => {
                let (runtime, inputs) = (Arc::clone(&self.runtime), self.inputs.clone());
                tokio::spawn(async move {
                    let result = tasks::look(Box::pin(async move { runtime.observe().await })).await;
                    let _ = inputs.send(Input::Observed { observation, result }).await;
                });
            }
            Effect::WakeAt(at) => self.wake = at,
            Effect::Log(event) => log(&event),
        }
    }

    fn work(&mut self, id: WorkId, work: Future<'static, Result<(), crate::machine::io::WorkFailure>>) {
        self.works.retain(|_, token| !token.is_cancelled());
        let token = CancellationToken::new();
        self.works.insert(id, token.clone());
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let outcome = tasks::finish(work, &token).await;
            // Marks the work as finished, so that its entry is dropped with the next one.
            token.cancel();
            let _ = inputs.send(Input::WorkFinished { work: id, outcome }).await;
        });
    }

    /// Writes the report for `status` and `explain`. Losing it is harmless.
    fn publish_report(&mut self) {
        let now = self.clock.now();
        let mut report = self.machine.report(now);
        if let Some(trouble) = self.keeper.trouble(now) {
            // Reported once: a request that failed without an identity adds nothing.
            report.troubles.retain(|known| known.code != Code::IdentityUnusable);
            report.troubles.push(trouble);
        }
        report.troubles.extend(self.nothing_runs.clone());
        let news = self.reported.as_ref().is_none_or(|old| {
            let old =
                Report { at: report.at, next_poll_at: report.next_poll_at, polled_at: report.polled_at, ..old.clone() };
            old != report
        });
        let stale = self.reported.as_ref().is_none_or(|old| report.at.since(old.at) > SLEEP_MAX);
        if news || stale {
            write_report(self.state.path(), &report);
            self.reported = Some(report);
        }
    }
}

/// No runtime is enabled.
pub fn no_runtime(message: String, since: Timestamp) -> Trouble {
    let (about, title) = ("runtime".to_owned(), Code::NoRuntime.title().to_owned());
    Trouble { about, code: Code::NoRuntime, title, message, since, retry_at: None, security: false }
}

/// Forwards events of the runtime. A burst of events leads to one observation.
fn watch(runtime: Arc<dyn Runtime>, inputs: mpsc::Sender<Input>) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            runtime.changed().await;
            if inputs.send(Input::RuntimeChanged).await.is_err() {
                return;
            }
            tokio::time::sleep(CHANGES_PAUSE).await;
        }
    })
}

fn write_report(folder: &Path, report: &Report) {
    let Ok(json) = serde_json::to_vec_pretty(report) else { return };
    let temporary = folder.join("report.new");
    if std::fs::write(&temporary, json).is_err() || std::fs::rename(&temporary, folder.join(REPORT_FILE)).is_err() {
        // A full disk: the remaining space is for the records.
        let _ = std::fs::remove_file(&temporary);
    }
}

/// One line per event; security events can be filtered by their field.
fn log(event: &Event) {
    let Event { level, code, deployment, message } = event;
    let code = code.map(Code::number).unwrap_or_default();
    // Absent from the line for an event that concerns no deployment.
    let deployment = deployment.map(tracing::field::display);
    let security = event.is_security();
    match level {
        Level::Debug => tracing::debug!(code, deployment.id = deployment, "{message}"),
        Level::Info => tracing::info!(deployment.id = deployment, "{message}"),
        Level::Warn => tracing::warn!(code, deployment.id = deployment, security, "{message}"),
        Level::Error => tracing::error!(code, deployment.id = deployment, security, "{message}"),
    }
}
