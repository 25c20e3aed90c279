//! Compose deployments on Docker, or on Podman through its socket: one project per component.
//!
//! `state_dir/compose/<project>/files` holds the archive of the component as received, next to data of services with
//! relative mounts. The compose file is never changed: the agent adds a second file. The engine pulls images before
//! anything stops; `compose up` then recreates only what differs, and never pulls.

mod image_gc;
mod containers;
mod fetched;
mod files;
mod images;
pub mod names;
mod preflight;
mod preloaded;
mod project;
pub mod socket;
mod start;

use super::Future;
use super::engine::{Engine, component, failed, from_program, holder, unavailable};
use super::ledger::Entry;
use super::program::Program;
use crate::artifacts::{Artifacts, COMPOSE, unpack_component};
use crate::config::{ComposeConfig, TelemetryConfig};
use crate::machine::io::{ApplyWork, FailureKind, ObservedComponent, WorkFailure};
use crate::preload::Preload;
use containers::Applied;
use futures_util::FutureExt as _;
use image_gc::PulledImages;
use preloaded::PreloadedImages;
use project::Project;
use serde_json::{Value, json};
use socket::{Lines, Socket, SocketError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;

/// A hung program must not block a component forever; usually the timeout of the component comes first.
const PROGRAM_MAX: Duration = Duration::from_hours(1);
/// Containers are asked to stop before they are killed; compose gives each ten seconds.
const DOWN_MAX: Duration = Duration::from_mins(10);
/// Delay between two attempts to subscribe to engine events.
const SUBSCRIBE_RETRY: Duration = Duration::from_secs(2);
/// How long after a failure the stop of the engine may be detected.
const ENGINE_STOP_GRACE: Duration = Duration::from_millis(250);
/// A label that no container has: the event stream only ends when the engine stops.
const LINE: &str = "org.margrave.line";

pub struct Compose {
    socket: Socket,
    command: Vec<String>,
    certificates: Option<PathBuf>,
    folder: PathBuf,
    telemetry: TelemetryConfig,
    artifacts: Arc<Artifacts>,
    collection: PulledImages,
    preloaded: PreloadedImages,
    /// Kept between two calls of `changed`, so that no event is lost.
    events: Mutex<Option<Lines>>,
    /// The engine restarted since the last query.
    ended: AtomicBool,
}

impl Compose {
    pub fn new(
        state_dir: &Path,
        config: &ComposeConfig,
        telemetry: &TelemetryConfig,
        artifacts: Arc<Artifacts>,
    ) -> Self {
        let ComposeConfig { socket, command, certificates } = config.clone();
        let folder = state_dir.join("compose");
        Self {
            socket: Socket::new(&socket),
            command,
            certificates,
            collection: PulledImages::open(&folder),
            preloaded: PreloadedImages::new(&folder),
            folder,
            telemetry: telemetry.clone(),
            artifacts,
            events: Mutex::new(None),
            ended: AtomicBool::new(false),
        }
    }

    fn project_folder(&self, project: &str) -> PathBuf {
        self.folder.join(project)
    }

    /// `docker compose`, with a minimal environment.
    fn program(&self, deadline: Duration) -> Program {
        let (program, arguments) =
            self.command.split_first().map_or(("docker", &[][..]), |(first, rest)| (first, rest));
        let mut program = Program::new(program, deadline)
            .arguments(arguments)
            .variable("DOCKER_HOST", self.socket.address())
            // No logins or contexts of users.
            .variable("DOCKER_CONFIG", self.folder.join("docker-config"));
        if let Some(home) = std::env::var_os("HOME") {
            program = program.variable("HOME", home);
        }
        program
    }

    async fn is_there(&self) -> Result<(), WorkFailure> {
        self.socket.bytes("/_ping").await.map(|_| ()).map_err(from_socket)
    }

    /// Runs a step while watching the engine. If the engine stopped meanwhile, even if it runs again, the error of the
    /// step is not a fault of the deployment.
    async fn run_watched<T>(
        &self,
        step: impl std::future::Future<Output = Result<T, WorkFailure>>,
    ) -> Result<T, WorkFailure> {
        let mut line = self.socket.events(LINE).await.map_err(from_socket)?;
        let failure = match step.await {
            Err(failure) if failure.kind != FailureKind::Unavailable => failure,
            other => return other,
        };
        let end = async { while let Ok(Some(_)) = line.next().await {} };
        let ended = tokio::time::timeout(ENGINE_STOP_GRACE, end).await.is_ok();
        if ended || self.is_there().await.is_err() {
            return Err(unavailable(format!("the container engine stopped meanwhile: {}", failure.message)));
        }
        Err(failure)
    }

    /// Fetches and unpacks the component of the document.
    async fn load(&self, work: &ApplyWork) -> Result<Project, WorkFailure> {
        let component = component(work);
        let holder = holder(work);
        let held = self
            .artifacts
            .fetch(&holder, &component.properties.source, COMPOSE)
            .await
            .map_err(|error| failed(error.to_string()))?;
        let layer =
            tokio::fs::read(&held.path).await.map_err(|error| failed(format!("read the component: {error}")))?;
        let unpacked =
            unpack_component(&layer).map_err(|reason| failed(format!("the component's archive: {reason}")))?;
        project::check(&unpacked).map_err(failed)?;
        let environment = project::environment(&work.document, &component.name).map_err(failed)?;
        let name = names::project(work.deployment, &component.name);
        Ok(Project { folder: self.project_folder(&name), name, unpacked, environment })
    }

    async fn prepare_one(&self, work: &ApplyWork) -> Result<Value, WorkFailure> {
        let project = self.load(work).await?;
        let staged = project.stage().map_err(|error| failed(error.chain()))?;
        let model = project.model(self.program(PROGRAM_MAX), &staged).await;
        let _ = std::fs::remove_dir_all(&staged);
        let model = model?;
        let images = model.images().map_err(failed)?;
        self.preflight(work, &project, &model, &images).await?;
        let names = images.iter().map(project::Image::local).collect();
        self.collection.note(&project.name, &work.digest, names).map_err(|error| failed(error.chain()))?;
        self.pull(&images).await?;
        Ok(json!({ "project": project.name }))
    }

    async fn apply_one(&self, work: &ApplyWork) -> Result<(), WorkFailure> {
        let project = self.load(work).await?;
        project.write().map_err(|error| failed(error.chain()))?;
        let model = project.model(self.program(PROGRAM_MAX), &project.files_folder()).await?;
        let component = component(work);
        let certificate = self.telemetry_certificate(&project)?;
        let ours = project.ours(&model, work.deployment, &component.name, &self.telemetry, certificate.as_deref());
        files::write_changed(&project.ours_path(), ours.to_string().as_bytes())
            .map_err(|error| failed(error.chain()))?;
        self.start(&project, component.properties.waits()).await?;
        let seen = self.containers(&project.name).await.map_err(from_socket)?;
        Applied::of(&seen).write(&project.folder).map_err(|error| failed(error.chain()))?;
        self.artifacts.settle(&holder(work)).map_err(|error| failed(error.chain()))?;
        self.collection.settle(&project.name, &work.digest).map_err(|error| failed(error.chain()))?;
        self.collect_images().await;
        Ok(())
    }

    /// A copy for containers, readable by every user.
    fn telemetry_certificate(&self, project: &Project) -> Result<Option<PathBuf>, WorkFailure> {
        let Some(source) = &self.telemetry.certificate else { return Ok(None) };
        let target = project.folder.join("collector-ca.pem");
        let bytes = std::fs::read(source)
            .map_err(|error| failed(format!("`telemetry.certificate` `{}`: {error}", source.display())))?;
        files::write_shared(&target, &bytes).map_err(|error| failed(error.chain()))?;
        Ok(Some(target))
    }

    async fn remove_one(&self, entry: &Entry) -> Result<(), WorkFailure> {
        let name = project_of(entry);
        let down = self
            .program(DOWN_MAX)
            .arguments(["--project-name", &name, "down", "--remove-orphans"])
            .folder("/")
            .run()
            .await
            .map_err(from_program)?;
        if !down.status.success() {
            return Err(failed(format!("compose could not stop `{name}`: {}", down.complaint())));
        }
        if entry.purge {
            self.purge_volumes(&name).await.map_err(from_socket)?;
        }
        files::remove_project(&self.project_folder(&name), entry.purge).map_err(|error| failed(error.chain()))?;
        self.artifacts.forget(entry.deployment, &entry.component).map_err(|error| failed(error.chain()))?;
        self.collection.forget(&name).map_err(|error| failed(error.chain()))?;
        self.collect_images().await;
        Ok(())
    }

    async fn purge_volumes(&self, project: &str) -> Result<(), SocketError> {
        let label = format!("{}={project}", names::PROJECT);
        let found = self.socket.get(&format!("/volumes?filters={}", socket::labeled(&label))).await?;
        for volume in found["Volumes"].as_array().into_iter().flatten() {
            let Some(name) = volume["Name"].as_str() else { continue };
            match self.socket.delete(&format!("/volumes/{}", socket::query(name))).await {
                Err(error) if !error.is_missing() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Detects the stop of the engine while no call of `changed` waits for events.
    fn detect_engine_stop(&self) {
        let Ok(mut events) = self.events.try_lock() else { return };
        while let Some(pending_event) = events.as_mut().and_then(|stream| stream.next().now_or_never()) {
            // Pending events only request an observation, which follows anyway.
            if !matches!(pending_event, Ok(Some(_))) {
                self.ended.store(true, Ordering::Relaxed);
                *events = None;
            }
        }
    }

    /// Waits for an event of our containers.
    async fn listen(&self) {
        let mut events = self.events.lock().await;
        loop {
            let (stream, fresh) = match events.take() {
                Some(stream) => (stream, false),
                None => match self.socket.events(names::DEPLOYMENT).await {
                    Ok(stream) => (stream, true),
                    Err(_) => {
                        self.ended.store(true, Ordering::Relaxed);
                        tokio::time::sleep(SUBSCRIBE_RETRY).await;
                        continue;
                    }
                },
            };
            let stream = events.insert(stream);
            if fresh {
                // Covers events before the subscription.
                return;
            }
            match stream.next().await {
                Ok(Some(event)) if containers::is_relevant(&event) => return,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => {
                    self.ended.store(true, Ordering::Relaxed);
                    *events = None;
                }
            }
        }
    }
}

fn project_of(entry: &Entry) -> String {
    let known = entry.data["project"].as_str().map(str::to_owned);
    known.unwrap_or_else(|| names::project(entry.deployment, &entry.component))
}

fn from_socket(error: SocketError) -> WorkFailure {
    match error {
        SocketError::Unreachable { .. } => unavailable(error.to_string()),
        SocketError::Refused { .. } | SocketError::Failed(_) => failed(error.to_string()),
    }
}

impl Engine for Compose {
    fn deployment_type(&self) -> &'static str {
        "compose"
    }

    fn prepare<'a>(&'a self, work: &'a ApplyWork, _: Option<&'a Entry>) -> Future<'a, Result<Value, WorkFailure>> {
        Box::pin(self.run_watched(self.prepare_one(work)))
    }

    fn apply<'a>(&'a self, work: &'a ApplyWork, _: &'a Entry) -> Future<'a, Result<(), WorkFailure>> {
        Box::pin(self.run_watched(self.apply_one(work)))
    }

    fn remove<'a>(&'a self, entry: &'a Entry) -> Future<'a, Result<(), WorkFailure>> {
        Box::pin(self.run_watched(self.remove_one(entry)))
    }

    fn observe<'a>(&'a self, entries: &'a [Entry]) -> Future<'a, Result<Vec<ObservedComponent>, String>> {
        Box::pin(async move {
            self.detect_engine_stop();
            let mut seen = Vec::new();
            for entry in entries {
                let name = project_of(entry);
                let found = self.containers(&name).await.map_err(|error| {
                    if matches!(error, SocketError::Unreachable { .. }) {
                        self.ended.store(true, Ordering::Relaxed);
                    }
                    error.to_string()
                })?;
                let applied = Applied::read(&self.project_folder(&name));
                let (run, differs) = containers::compare_containers(&found, applied.as_ref());
                seen.push(ObservedComponent { digest: entry.digest.clone(), run, differs });
            }
            Ok(seen)
        })
    }

    fn has_restarted(&self) -> bool {
        self.ended.swap(false, Ordering::Relaxed)
    }

    fn preload(&self, preload: &Preload) -> Result<(), String> {
        self.artifacts.preload(preload).map_err(|error| error.chain())?;
        self.preloaded.keep(preload).map_err(|error| error.chain())
    }

    fn changed(&self) -> Future<'_, ()> {
        Box::pin(self.listen())
    }

    fn logs<'a>(&'a self, entry: &'a Entry, lines: usize) -> Future<'a, Result<String, String>> {
        Box::pin(async move {
            let found = self.containers(&project_of(entry)).await.map_err(|error| error.to_string())?;
            let mut text = String::new();
            for container in &found {
                text.push_str(&self.last_log_lines(container, lines).await.map_err(|error| error.to_string())?);
            }
            Ok(text)
        })
    }
}
