//! Starts a project and waits until it runs (COMP-07).

use super::containers::{Applied, Container};
use super::project::Project;
use super::socket::Lines;
use super::{Compose, PROGRAM_MAX, from_program, from_socket, names};
use crate::machine::io::{FailureKind, WorkFailure};
use crate::runtimes::engine::{failed, unavailable};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// Polling interval while containers start: events usually come earlier.
const POLL_PERIOD: Duration = Duration::from_millis(500);
/// A started container counts as running after this time: one that cannot start exits earlier.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// A container that the engine restarted counts as running after this time; engines also use ten seconds.
const STEADY_AFTER: Duration = Duration::from_secs(10);
/// Log lines of a failed container in its message.
const LAST_LINES: usize = 5;

impl Compose {
    /// Runs `up`, and waits until everything runs if `waits` is set.
    pub(super) async fn start(&self, project: &Project, waits: bool) -> Result<(), WorkFailure> {
        let mut watch = Watch::begin(self, &project.name).await?;
        let before = self.containers(&project.name).await.map_err(from_socket)?;
        watch.ignore_running(&before);
        for paused in before.iter().filter(|container| container.status == "paused") {
            self.socket.post(&format!("/containers/{}/unpause", paused.id)).await.map_err(from_socket)?;
        }
        let changed = Applied::read(&project.folder).map(|applied| applied.changed(&before)).unwrap_or_default();
        if !changed.is_empty() {
            // Manual changes that compose does not detect.
            let again = ["--no-deps", "--force-recreate"].into_iter().chain(changed.iter().map(String::as_str));
            self.up(project, again, &mut watch).await?;
        }
        self.up(project, ["--remove-orphans"], &mut watch).await?;
        if !waits {
            return Ok(());
        }
        let mut steady = StartupTracker::new(&before);
        loop {
            let containers = self.containers(&project.name).await.map_err(from_socket)?;
            if self.all_running(&containers, &mut steady).await? {
                return Ok(());
            }
            tokio::select! {
                exited = watch.exited() => return Err(self.exited(exited?).await),
                () = tokio::time::sleep(POLL_PERIOD) => {}
            }
        }
    }

    async fn up<'a>(
        &self,
        project: &Project,
        more: impl IntoIterator<Item = &'a str>,
        watch: &mut Watch,
    ) -> Result<(), WorkFailure> {
        let folder = project.files_folder();
        let program = project
            .compose(self.program(PROGRAM_MAX), &folder)
            .argument("--file")
            .argument(project.ours_path())
            .arguments(["up", "--detach", "--no-build", "--pull", "never"])
            .arguments(more);
        let output = tokio::select! {
            // Fails at once: compose would continue with the rest.
            exited = watch.exited() => return Err(self.exited(exited?).await),
            output = program.run() => output.map_err(from_program)?,
        };
        if output.status.success() {
            return Ok(());
        }
        // Compose exits when a dependency dies; the event that names it may come a moment later.
        let exited = tokio::time::timeout(POLL_PERIOD, watch.exited()).await;
        match exited {
            Ok(exited) => Err(self.exited(exited?).await),
            Err(_) => Err(failed(format!("compose could not start it: {}", output.complaint()))),
        }
    }

    /// Whether everything runs; an error if something cannot.
    async fn all_running(&self, containers: &[Container], steady: &mut StartupTracker) -> Result<bool, WorkFailure> {
        for container in containers {
            let gone = matches!(container.status.as_str(), "exited" | "dead") && container.exit_code != 0;
            if gone {
                return Err(self.exited(Exited::of(container)).await);
            }
            if container.health.as_deref() == Some("unhealthy") {
                let probe = container.probe.as_deref().filter(|text| !text.is_empty());
                let probe = probe.map(|text| format!(": {text}")).unwrap_or_default();
                return Err(failed(format!("container `{}` is unhealthy{probe}", container.name)));
            }
        }
        let mut up = |container: &Container| match container.health.as_deref() {
            None => container.is_done() || container.runs() && steady.is(container),
            Some("healthy") => container.runs() || container.is_done(),
            Some(_) => container.is_done(),
        };
        Ok(!containers.is_empty() && containers.iter().all(&mut up))
    }

    async fn exited(&self, exited: Exited) -> WorkFailure {
        let Exited { id, name, code } = exited;
        let mut message = format!("container `{name}` exited with code {code} during start");
        let inspected = self.socket.get(&format!("/containers/{id}/json")).await;
        if let Some(container) = inspected.ok().as_ref().and_then(Container::of)
            && let Ok(words) = self.last_log_lines(&container, LAST_LINES).await
            && !words.is_empty()
        {
            message = format!("{message}; its last lines: {}", words.trim_end().replace('\n', " / "));
        }
        WorkFailure { kind: FailureKind::Exited, message }
    }
}

/// Distinguishes running containers from crash loops, which look the same most of the time.
#[derive(Debug)]
struct StartupTracker {
    /// The containers that ran before.
    ran: HashSet<(String, String)>,
    /// When a container was first observed since its last start.
    seen: HashMap<(String, String), Instant>,
}

impl StartupTracker {
    fn new(before: &[Container]) -> Self {
        let ran = before.iter().filter(|container| container.runs() && container.restarts == 0);
        Self { ran: ran.map(Self::key).collect(), seen: HashMap::new() }
    }

    fn key(container: &Container) -> (String, String) {
        (container.id.clone(), container.started_at.clone())
    }

    fn is(&mut self, container: &Container) -> bool {
        let key = Self::key(container);
        if self.ran.contains(&key) {
            return true;
        }
        let enough = if container.restarts == 0 { SETTLED_AFTER } else { STEADY_AFTER };
        self.seen.entry(key).or_insert_with(Instant::now).elapsed() >= enough
    }
}

struct Exited {
    id: String,
    name: String,
    code: String,
}

impl Exited {
    fn of(container: &Container) -> Self {
        Self { id: container.id.clone(), name: container.name.clone(), code: container.exit_code.to_string() }
    }
}

/// Watches for containers of a project that exit on their own, from before the start.
struct Watch {
    events: Lines,
    /// Containers that compose stops to replace them.
    stopping: HashSet<String>,
}

impl Watch {
    async fn begin(compose: &Compose, project: &str) -> Result<Self, WorkFailure> {
        let events = compose.socket.events(&format!("{}={project}", names::PROJECT)).await.map_err(from_socket)?;
        Ok(Self { events, stopping: HashSet::new() })
    }

    /// Running containers may be replaced, and not every engine announces it. One that exits on its own is found by the
    /// final check.
    fn ignore_running(&mut self, before: &[Container]) {
        let running = before.iter().filter(|container| container.status != "exited");
        self.stopping.extend(running.map(|container| container.id.clone()));
    }

    /// The next container that exited with an error. May be dropped while waiting.
    async fn exited(&mut self) -> Result<Exited, WorkFailure> {
        loop {
            let Some(event) = self.events.next().await.map_err(from_socket)? else {
                return Err(unavailable("the container engine stopped during the start"));
            };
            if let Some(exited) = self.take(&event) {
                return Ok(exited);
            }
        }
    }

    fn take(&mut self, event: &Value) -> Option<Exited> {
        let id = event["Actor"]["ID"].as_str()?;
        let attributes = &event["Actor"]["Attributes"];
        match event["Action"].as_str()? {
            "kill" => {
                self.stopping.insert(id.to_owned());
                None
            }
            "start" => {
                self.stopping.remove(id);
                None
            }
            "die" => {
                // The name of this event in Podman.
                let code = attributes["exitCode"].as_str().or_else(|| attributes["containerExitCode"].as_str());
                let code = code.unwrap_or("0");
                let on_its_own = code != "0" && !self.stopping.contains(id);
                let name = attributes["name"].as_str().unwrap_or(id);
                on_its_own.then(|| Exited { id: id.to_owned(), name: name.to_owned(), code: code.to_owned() })
            }
            _ => None,
        }
    }
}
