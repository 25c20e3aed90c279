//! Inputs and effects of the machine.

use super::records::{Accepted, DevicesReported, Reconciled, Revisions, StatusEntries};
use crate::codes::Code;
use indexmap::IndexMap;
use margo::capabilities::DeviceCapabilities;
use margo::deployment::ApplicationDeployment;
use margo::{DeploymentId, DeviceId, Digest};
use margrave_core::time::Timestamp;
use std::sync::Arc;

/// Identifies one request to the server; an answer to a request that is not in flight is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Identifies one write; writes are executed in the order of their effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriteId(pub u64);

/// Identifies one piece of work of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkId(pub u64);

/// Identifies one observation of the runtime; later ones have larger numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObservationId(pub u64);

/// All inputs of the machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Time has passed. Also the first input after a start.
    Tick,
    /// A request was answered, or failed.
    Answered { request: RequestId, answer: Answer },
    /// A write is durable, or failed and left the earlier state.
    Persisted { write: WriteId, result: Result<(), PersistFailure> },
    /// The runtime has finished, failed or cancelled a piece of work.
    WorkFinished { work: WorkId, outcome: WorkOutcome },
    /// The state of the runtime, or why it is unknown.
    Observed { observation: ObservationId, result: Result<Observation, String> },
    /// The devices of this client: its own first, then the children of a gateway (GW-02).
    Devices(Vec<DeviceReport>),
    /// The runtime signals a possible change: observe soon.
    RuntimeChanged,
    /// A maintenance hold started or ended.
    Hold(Option<Hold>),
    /// A preloaded desired state, signed by the manager and verified; or why it is not used.
    Preload(Result<Preloaded, String>),
    /// Polls now, but never earlier than the server allows.
    Poke,
}

/// The manifest and its documents, as the server would have sent them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preloaded {
    /// The exact text of the manifest.
    pub body: String,
    pub etag: String,
    pub documents: Vec<(Digest, Arc<[u8]>)>,
}

/// A maintenance hold: no changes start on this device. The driver ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub reason: String,
    /// Correct only if the clock is.
    pub until: Timestamp,
}

/// One device with its capability report.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceReport {
    pub id: DeviceId,
    /// The exact body to send.
    pub json: Vec<u8>,
    pub capabilities: DeviceCapabilities,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Response(Response),
    /// No readable response.
    Failed {
        code: Code,
        message: String,
    },
}

/// The parts of an HTTP response that the protocol uses.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Response {
    pub status: u16,
    /// Byte for byte as sent (W-07).
    pub etag: Option<String>,
    pub retry_after: Option<String>,
    /// `Preference-Applied: wait=N` (RFC 7240): the seconds the server was willing to wait.
    pub waited: Option<u64>,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistFailure {
    pub disk_full: bool,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkOutcome {
    Done,
    Failed(WorkFailure),
    /// Stopped by request of the machine; completed steps stay.
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WorkFailure {
    pub kind: FailureKind,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Could not be applied or removed.
    Failed,
    /// Started and stopped with an error (COMP-07).
    Exited,
    /// Was not ready within its timeout (AD-03), with the reason of the runtime.
    Late,
    /// The child device does not answer (102).
    Unreachable,
    /// The runtime itself does not answer.
    Unavailable,
    /// Another part of the same deployment uses what it needs: a port, a name.
    InTheWay,
}

/// The workloads of this agent in the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observation {
    pub deployments: IndexMap<DeploymentId, ObservedDeployment>,
    /// Their engine restarted since the last observation: stopped workloads are not drift.
    pub restarted: Vec<DeploymentId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObservedDeployment {
    /// The deployment may exist; its state is unknown now.
    Unknown {
        device: DeviceId,
    },
    Known {
        device: DeviceId,
        components: IndexMap<String, ObservedComponent>,
    },
}

impl ObservedDeployment {
    pub fn device(&self) -> &DeviceId {
        match self {
            Self::Unknown { device } | Self::Known { device, .. } => device,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedComponent {
    /// The deployment YAML it was applied from.
    pub digest: Digest,
    pub run: Run,
    /// Differences from the applied state as text, such as `replicas 1 instead of 3`; empty without drift.
    pub differs: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    Running,
    /// Applied and starting.
    Starting,
    /// Was applied and is no longer running.
    Stopped {
        message: String,
    },
}

/// Actions for the driver. The module documentation says which may be lost and which inputs must follow.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// At most one is in flight at any time, besides a long poll.
    Request {
        id: RequestId,
        request: Request,
    },
    /// All records, in this order, each durable before the next write.
    Persist {
        write: WriteId,
        records: Vec<Record>,
    },
    /// Contents no longer needed to run or to roll back.
    Forget(Vec<Digest>),
    Apply(ApplyWork),
    Remove(RemoveWork),
    /// Stop a piece of work; `WorkFinished` must still follow.
    Cancel(WorkId),
    Observe(ObservationId),
    /// Feed a tick at this time at the latest; replaces an earlier request.
    WakeAt(Timestamp),
    Log(Event),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    PutCapabilities {
        device: DeviceId,
        json: Vec<u8>,
    },
    DeleteDevice {
        device: DeviceId,
    },
    Poll {
        if_none_match: Option<String>,
        /// Long poll: the server may delay its response by up to this many seconds (RFC 7240).
        wait: Option<u64>,
    },
    /// `path` starts at `/api/v1/` and goes behind the configured base URL (W-03).
    FetchBundle {
        path: String,
    },
    FetchYaml {
        path: String,
    },
    PostStatus {
        deployment: DeploymentId,
        json: Vec<u8>,
    },
}

/// One durable record.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A verified deployment YAML, by its digest.
    Content {
        digest: Digest,
        bytes: Arc<[u8]>,
    },
    Accepted(Accepted),
    Reconciled(Reconciled),
    Statuses(StatusEntries),
    Devices(DevicesReported),
    Revisions(Revisions),
}

/// Apply one component of a deployment. May run twice, may be interrupted at any point.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplyWork {
    pub work: WorkId,
    pub deployment: DeploymentId,
    pub device: DeviceId,
    pub digest: Digest,
    pub document: Arc<ApplicationDeployment>,
    /// Index into the components of the document.
    pub component: usize,
}

/// Remove one component, or all of a deployment. Removing a missing one succeeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoveWork {
    pub work: WorkId,
    pub deployment: DeploymentId,
    pub device: DeviceId,
    pub component: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// A log event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub level: Level,
    pub code: Option<Code>,
    pub deployment: Option<DeploymentId>,
    pub message: String,
}

impl Event {
    pub fn is_security(&self) -> bool {
        self.code.is_some_and(Code::is_security)
    }
}
