//! Bringing a project up, and watching it come up (COMP-07).

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

/// Between two looks while containers start: events say most of it earlier.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// What was started counts as up when it has run for so long: what cannot start ends within a moment, and runs until then.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// What the engine had to start again by itself counts as up when it has run for so long; engines themselves take ten
/// seconds for a sign of success.
const STEADY_AFTER: Duration = Duration::from_secs(10);
/// Lines of its log that a failed container is quoted with.
const LAST_LINES: usize = 5;

impl Compose {
    /// `up`, and until everything runs where that is to be waited for.
    pub(super) async fn start(&self, project: &Project, waits: bool) -> Result<(), WorkFailure> {
        let mut watch = Watch::begin(self, &project.name).await?;
        let before = self.containers(&project.name).await.map_err(from_socket)?;
        watch.leave_alone(&before);
        for paused in before.iter().filter(|container| container.status == "paused") {
            self.socket.post(&format!("/containers/{}/unpause", paused.id)).await.map_err(from_socket)?;
        }
        let changed = Applied::read(&project.folder).map(|applied| applied.changed(&before)).unwrap_or_default();
        if !changed.is_empty() {
            // Changed by hand in a way compose does not look at.
            let again = ["--no-deps", "--force-recreate"].into_iter().chain(changed.iter().map(String::as_str));
            self.up(project, again, &mut watch).await?;
        }
        self.up(project, ["--remove-orphans"], &mut watch).await?;
        if !waits {
            return Ok(());
        }
        let mut steady = Steady::new(&before);
        loop {
            let containers = self.containers(&project.name).await.map_err(from_socket)?;
            if self.has_come_up(&containers, &mut steady).await? {
                return Ok(());
            }
            tokio::select! {
                exited = watch.exited() => return Err(self.exited(exited?).await),
                () = tokio::time::sleep(LOOK_PERIOD) => {}
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
            // Failed at once: compose itself would go on with the rest.
            exited = watch.exited() => return Err(self.exited(exited?).await),
            output = program.run() => output.map_err(from_program)?,
        };
        if output.status.success() {
            return Ok(());
        }
        // Compose ends when something it waits for dies; the event that says which may come a moment later.
        let told = tokio::time::timeout(LOOK_PERIOD, watch.exited()).await;
        match told {
            Ok(exited) => Err(self.exited(exited?).await),
            Err(_) => Err(failed(format!("compose could not start it: {}", output.complaint()))),
        }
    }

    /// Whether all runs; an error when something of it will not.
    async fn has_come_up(&self, containers: &[Container], steady: &mut Steady) -> Result<bool, WorkFailure> {
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
            && let Ok(words) = self.last_words(&container, LAST_LINES).await
            && !words.is_empty()
        {
            message = format!("{message}; its last lines: {}", words.trim_end().replace('\n', " / "));
        }
        WorkFailure { kind: FailureKind::Exited, message }
    }
}

/// Tells what runs from what falls over, and is perhaps started again, which looks the same at many instants.
#[derive(Debug)]
struct Steady {
    /// What ran before anything was done.
    ran: HashSet<(String, String)>,
    /// When a container was first seen since its last start.
    seen: HashMap<(String, String), Instant>,
}

impl Steady {
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

/// Hears of containers of a project that die by themselves, from before anything is started.
struct Watch {
    events: Lines,
    /// Those that were told to stop: compose replaces them.
    told: HashSet<String>,
}

impl Watch {
    async fn begin(compose: &Compose, project: &str) -> Result<Self, WorkFailure> {
        let events = compose.socket.events(&format!("{}={project}", names::PROJECT)).await.map_err(from_socket)?;
        Ok(Self { events, told: HashSet::new() })
    }

    /// What runs already may be replaced, and not every engine says so beforehand. One that ends by itself and stays so
    /// is found when everything is looked at.
    fn leave_alone(&mut self, before: &[Container]) {
        let running = before.iter().filter(|container| container.status != "exited");
        self.told.extend(running.map(|container| container.id.clone()));
    }

    /// The next container that ended with an error. May be dropped while waiting.
    async fn exited(&mut self) -> Result<Exited, WorkFailure> {
        loop {
            let Some(event) = self.events.next().await.map_err(from_socket)? else {
                return Err(unavailable("the container engine ended while something was started"));
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
                self.told.insert(id.to_owned());
                None
            }
            "start" => {
                self.told.remove(id);
                None
            }
            "die" => {
                // Podman has a word of its own for it.
                let code = attributes["exitCode"].as_str().or_else(|| attributes["containerExitCode"].as_str());
                let code = code.unwrap_or("0");
                let by_itself = code != "0" && !self.told.contains(id);
                let name = attributes["name"].as_str().unwrap_or(id);
                by_itself.then(|| Exited { id: id.to_owned(), name: name.to_owned(), code: code.to_owned() })
            }
            _ => None,
        }
    }
}
