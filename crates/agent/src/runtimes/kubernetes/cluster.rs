//! Shared by both engines: cluster access, settings, and the place of a component.

use super::client::{ApiError, Client};
use super::names;
use super::object::ObjectRef;
use crate::artifacts::Artifacts;
use crate::config::{AgentConfig, KubernetesConfig, TelemetryConfig};
use crate::machine::io::{ApplyWork, WorkFailure};
use crate::runtimes::engine::{component, failed, unavailable};
use crate::runtimes::ledger::Entry;
use margo::DeploymentId;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Ends a little before the caller's deadline, so that the reason can be reported.
const TIME_MARGIN: Duration = Duration::from_millis(1500);

pub struct Cluster {
    pub(super) client: Client,
    /// `state_dir/kubernetes`.
    pub(super) folder: PathBuf,
    pub(super) settings: KubernetesConfig,
    pub(super) telemetry: TelemetryConfig,
    pub(super) artifacts: Arc<Artifacts>,
    component_timeout: Duration,
    /// When the work on a component started, for its deadline.
    started: Mutex<HashMap<(DeploymentId, String), Instant>>,
    /// Whether there is a maintenance hold.
    held: AtomicBool,
    pub(super) listening: tokio::sync::Mutex<Option<super::listen::Listening>>,
}

/// One component in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) deployment: DeploymentId,
    pub(super) component: String,
    /// The name of its release, and the value of its label.
    pub(super) name: String,
    pub(super) namespace: String,
}

impl Cluster {
    pub fn new(config: &AgentConfig, settings: &KubernetesConfig, artifacts: Arc<Artifacts>) -> Self {
        Self {
            client: Client::new(super::source(settings)),
            folder: config.state_dir.join("kubernetes"),
            settings: settings.clone(),
            telemetry: config.telemetry.clone(),
            artifacts,
            component_timeout: config.component_timeout,
            started: Mutex::new(HashMap::new()),
            held: AtomicBool::new(false),
            listening: tokio::sync::Mutex::new(None),
        }
    }

    pub(super) fn hold(&self, held: bool) {
        self.held.store(held, Ordering::Relaxed);
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// The place of a component. An existing component stays where it is.
    pub(super) fn instance(&self, work: &ApplyWork, before: Option<&Entry>) -> Result<Instance, WorkFailure> {
        if let Some(before) = before.filter(|before| before.data["namespace"].is_string()) {
            return Ok(Instance::of(before));
        }
        let component = &component(work).name;
        let desired = &work.document.metadata.namespace;
        let namespace = self.settings.namespace.as_ref().unwrap_or(desired);
        names::check_namespace(namespace).map_err(|reason| failed(format!("metadata.namespace: {reason}")))?;
        Ok(Instance {
            deployment: work.deployment,
            component: component.clone(),
            name: names::instance(work.deployment, component),
            namespace: namespace.clone(),
        })
    }

    /// `state_dir/kubernetes/<instance>`.
    pub(super) fn instance_folder(&self, instance: &Instance) -> PathBuf {
        self.folder.join(&instance.name)
    }

    pub(super) fn begin(&self, work: &ApplyWork) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.insert((work.deployment, component(work).name.clone()), Instant::now());
    }

    /// The deadline of the component, and its timeout (AD-03).
    pub(super) fn deadline(&self, work: &ApplyWork) -> (Instant, Duration) {
        let component = component(work);
        let given = component.properties.timeout.map_or(self.component_timeout, |it| Duration::from_secs(it.seconds));
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let started = started.remove(&(work.deployment, component.name.clone())).unwrap_or_else(Instant::now);
        (started + given.saturating_sub(TIME_MARGIN), given)
    }

    pub(super) async fn find(&self, reference: &ObjectRef) -> Result<Option<Value>, ApiError> {
        let resource = self.client.resource(&reference.api_version, &reference.kind).await?;
        self.client.find(&resource.path(reference.namespace.as_deref(), Some(&reference.name))).await
    }
}

impl Instance {
    /// From a ledger entry.
    pub(super) fn of(entry: &Entry) -> Self {
        let text = |key: &str| entry.data[key].as_str().map(str::to_owned);
        Self {
            deployment: entry.deployment,
            component: entry.component.clone(),
            name: text("instance").unwrap_or_else(|| names::instance(entry.deployment, &entry.component)),
            namespace: text("namespace").unwrap_or_default(),
        }
    }

    /// The data for the ledger, with all objects that may need removal.
    pub(super) fn record(&self, objects: &[ObjectRef]) -> Value {
        json!({ "instance": self.name, "namespace": self.namespace, "objects": objects })
    }
}

pub(super) fn from_api(error: ApiError) -> WorkFailure {
    match error {
        ApiError::Unreachable(_) => unavailable(error.to_string()),
        ApiError::Refused { .. } | ApiError::Failed(_) => failed(error.to_string()),
    }
}
