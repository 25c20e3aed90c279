//! What goes into the machine and what comes out of it.

use super::records::{Accepted, DevicesReported, Reconciled, Revisions, StatusBook};
use crate::codes::Code;
use indexmap::IndexMap;
use margo::capabilities::DeviceCapabilities;
use margo::deployment::ApplicationDeployment;
use margo::{DeploymentId, DeviceId, Digest};
use margrave_core::time::Timestamp;
use std::sync::Arc;

/// Names one request to the server; an answer to one that is not under way is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Names one write; writes are carried out in the order they were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriteId(pub u64);

/// Names one piece of work given to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkId(pub u64);

/// Names one look at the runtime; later looks have larger numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObservationId(pub u64);

/// Everything that can happen to the machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Time has passed. Also the first input after a start.
    Tick,
    /// A request was answered, or could not be.
    Answered { request: RequestId, answer: Answer },
    /// A write is durable, or failed and left the earlier state in place.
    Persisted { write: WriteId, result: Result<(), PersistFailure> },
    /// The runtime has finished, failed or dropped a piece of work.
    WorkFinished { work: WorkId, outcome: WorkOutcome },
    /// What the runtime sees, or why it cannot tell.
    Observed { observation: ObservationId, result: Result<Observation, String> },
    /// The devices this client speaks for: its own first, then the children of a gateway (GW-02).
    Devices(Vec<DeviceReport>),
    /// The runtime says that something of ours may have changed: look soon.
    RuntimeChanged,
    /// A technician at the device stops changes, or lets them go on.
    Hold(Option<Hold>),
    /// A desired state the device was given beforehand, signed by its manager and verified; or why it is not used.
    Preload(Result<Preloaded, String>),
    /// Somebody wants the next poll now. Never earlier than the server allows.
    Poke,
}

/// What a manifest and its documents would have been, had the server been there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preloaded {
    /// The exact text of the manifest.
    pub body: String,
    pub etag: String,
    pub documents: Vec<(Digest, Arc<[u8]>)>,
}

/// No change is begun on this device for a while. Whoever drives the machine ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub reason: String,
    /// As far as the clock can be believed.
    pub until: Timestamp,
}

/// One device with what it reports about itself.
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
    /// No answer that could be read.
    Failed {
        code: Code,
        message: String,
    },
}

/// The parts of an HTTP answer the protocol looks at.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Response {
    pub status: u16,
    /// Byte for byte as sent (W-07).
    pub etag: Option<String>,
    pub retry_after: Option<String>,
    /// `Preference-Applied: wait=N` (RFC 7240): the seconds the server says it was willing to hold the request.
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
    /// Stopped because the machine asked for it; what was done so far stays.
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
    /// Was not up within its time (AD-03), and the runtime can say why.
    Late,
    /// The child device does not answer (102).
    Unreachable,
    /// The runtime itself does not answer.
    Unavailable,
    /// Something else of the same deployment has what it needs: a port, a name.
    InTheWay,
}

/// What the runtime holds on behalf of this agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observation {
    pub deployments: IndexMap<DeploymentId, SeenDeployment>,
    /// Their engine was away since the last look: that they are down is no hand's work.
    pub restarted: Vec<DeploymentId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeenDeployment {
    /// Something is or may be there; what it is cannot be told now.
    Unknown {
        device: DeviceId,
    },
    Known {
        device: DeviceId,
        components: IndexMap<String, SeenComponent>,
    },
}

impl SeenDeployment {
    pub fn device(&self) -> &DeviceId {
        match self {
            Self::Unknown { device } | Self::Known { device, .. } => device,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenComponent {
    /// The deployment YAML it was applied from.
    pub digest: Digest,
    pub run: Run,
    /// What differs from what was applied, in words, such as `replicas 1 instead of 3`; empty when nothing does.
    pub differs: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    Running,
    /// Applied and on its way.
    Starting,
    /// Was applied and does not run any more.
    Stopped {
        message: String,
    },
}

/// What the machine wants done. See the module documentation for what may be lost and what must be awaited.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// At most one is under way at any time, besides a poll that asks to be held.
    Request {
        id: RequestId,
        request: Request,
    },
    /// All records, in this order, each durable before the next is begun.
    Persist {
        write: WriteId,
        records: Vec<Record>,
    },
    /// Contents no longer needed to run or to go back one revision.
    Forget(Vec<Digest>),
    Apply(ApplyWork),
    Remove(RemoveWork),
    /// Stop a piece of work; its end must still be told.
    Cancel(WorkId),
    Observe(ObservationId),
    /// Feed a tick at this time at the latest; replaces the earlier wish.
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
        /// Ask the server to hold the answer for up to this many seconds (RFC 7240). The answer may take that much longer.
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
    Statuses(StatusBook),
    Devices(DevicesReported),
    Revisions(Revisions),
}

/// Apply one component of a deployment. May run twice, may be cut off at any point.
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

/// Remove one component, or all of a deployment. Removing what is not there succeeds.
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

/// Something worth telling. Logged once, where it ends.
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
