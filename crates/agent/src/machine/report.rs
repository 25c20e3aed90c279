//! Reports for `status` and `explain` (invariant 9).

use super::io::{self, ObservedDeployment};
use super::records::stamp;
use super::work::drift;
use super::{Document, Machine, Settled};
use crate::codes::Code;
use margo::status::State;
use margo::{DeploymentId, DeviceId, Digest};
use margrave_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The topic of a problem; each topic keeps its newest problem.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    Server,
    Desired,
    Disk,
    Runtime,
    Preload,
    Capabilities(DeviceId),
}

/// A problem, with its start and the time of the next retry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    /// `server`, `desired state`, `disk`, `runtime`, `preload`, or a device.
    pub about: String,
    pub code: Code,
    pub title: String,
    pub message: String,
    #[serde(with = "stamp")]
    pub since: Timestamp,
    #[serde(with = "optional_stamp")]
    pub retry_at: Option<Timestamp>,
    pub security: bool,
}

/// A snapshot of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    #[serde(with = "stamp")]
    pub at: Timestamp,
    pub state: Overall,
    pub accepted_version: Option<u64>,
    pub reconciled_version: Option<u64>,
    #[serde(with = "optional_stamp")]
    pub polled_at: Option<Timestamp>,
    #[serde(with = "optional_stamp")]
    pub next_poll_at: Option<Timestamp>,
    pub undelivered_reports: usize,
    /// The maintenance hold of a technician.
    #[serde(default)]
    pub hold: Option<HoldReport>,
    pub deployments: Vec<DeploymentReport>,
    pub troubles: Vec<Trouble>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HoldReport {
    pub reason: String,
    #[serde(with = "stamp")]
    pub until: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overall {
    /// No manifest was ever accepted, or the accepted one cannot be read.
    WaitingForDesiredState,
    Updating,
    UpToDate,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentReport {
    pub id: DeploymentId,
    pub name: Option<String>,
    pub device: Option<DeviceId>,
    /// `present` or `absent`.
    pub desired: String,
    pub wanted_digest: Option<Digest>,
    /// An earlier revision that runs in place of the desired one, which failed.
    #[serde(default)]
    pub instead_digest: Option<Digest>,
    /// The operator's policies for drift, failure and removal, as text.
    #[serde(default)]
    pub policy: Option<String>,
    /// The last drift that was found.
    #[serde(default)]
    pub drift: Option<DriftReport>,
    /// The last reported state, if there is one.
    pub state: Option<String>,
    #[serde(with = "optional_stamp")]
    pub since: Option<Timestamp>,
    pub reported: bool,
    /// The state in the runtime: `running`, `incomplete`, `unknown`, `missing`, `not checked yet`.
    pub observed: String,
    pub error: Option<ErrorReport>,
    pub components: Vec<ComponentReport>,
    pub waiting_for: Option<String>,
    pub next_step: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriftReport {
    #[serde(with = "stamp")]
    pub at: Timestamp,
    pub differs: String,
    pub done: String,
    pub over: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorReport {
    pub code: String,
    pub title: Option<String>,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentReport {
    pub name: String,
    pub state: String,
    pub message: Option<String>,
}

impl Machine {
    pub(super) fn note_trouble(
        &mut self,
        topic: Topic,
        code: Code,
        message: String,
        retry_at: Option<Timestamp>,
        now: Timestamp,
    ) {
        let since = self.trouble.get(&topic).filter(|old| old.code == code).map_or(now, |old| old.since);
        let about = match &topic {
            Topic::Server => "server".to_owned(),
            Topic::Desired => "desired state".to_owned(),
            Topic::Disk => "disk".to_owned(),
            Topic::Runtime => "runtime".to_owned(),
            Topic::Preload => "preload".to_owned(),
            Topic::Capabilities(device) => format!("device {device}"),
        };
        let trouble = Trouble {
            about,
            code,
            title: code.title().to_owned(),
            message,
            since,
            retry_at,
            security: code.is_security(),
        };
        self.trouble.insert(topic, trouble);
    }

    pub(super) fn clear_trouble(&mut self, topic: Topic) {
        self.trouble.shift_remove(&topic);
    }

    /// Desired and observed state, since when, what the agent waits for, and the next steps.
    pub fn report(&self, now: Timestamp) -> Report {
        let state = match self.settled() {
            _ if self.accepted.is_none() => Overall::WaitingForDesiredState,
            Settled::Working => Overall::Updating,
            Settled::UpToDate => Overall::UpToDate,
            Settled::Failed => Overall::Failed,
        };
        let mut ids: Vec<DeploymentId> = self.accepted.iter().flat_map(|goal| goal.documents.keys().copied()).collect();
        ids.extend(self.statuses.entries().map(|(id, _)| *id).filter(|id| !ids.contains(id)).collect::<Vec<_>>());
        Report {
            at: now,
            state,
            accepted_version: self.accepted_version(),
            reconciled_version: self.reconciled_version(),
            polled_at: self.polled_at,
            next_poll_at: Some(self.settings.poll.calendar.poll_from(self.poll_due().max(now))),
            undelivered_reports: self.statuses.entries().filter(|(_, entry)| !entry.delivered).count(),
            hold: self.technician.clone().map(|io::Hold { reason, until }| HoldReport { reason, until }),
            deployments: ids.into_iter().map(|id| self.deployment_report(id)).collect(),
            troubles: self.trouble.values().cloned().collect(),
        }
    }

    fn deployment_report(&self, id: DeploymentId) -> DeploymentReport {
        let goal = self.accepted.as_ref();
        let document = goal.and_then(|goal| goal.documents.get(&id));
        let desired =
            goal.and_then(|goal| goal.manifest.deployments.iter().find(|desired| desired.deployment_id == id));
        let entry = self.statuses.get(&id);
        let name = match document {
            Some(Document::Ready(document)) => Some(document.metadata.name.clone()),
            _ => None,
        };
        let error = entry.and_then(|entry| entry.status.error.as_ref()).map(|error| ErrorReport {
            code: error.code.clone(),
            title: Code::parse(&error.code).map(|code| code.title().to_owned()),
            message: error.message.clone(),
        });
        let component = |component: &margo::status::ComponentStatus| ComponentReport {
            name: component.name.clone(),
            state: component.state.as_str().to_owned(),
            message: component.error.as_ref().map(|error| error.message.clone()),
        };
        let (waiting_for, next_step) = self.outlook(id, document);
        DeploymentReport {
            id,
            name,
            device: entry.and_then(|entry| entry.status.device_id.clone()).or_else(|| self.devices.own().cloned()),
            desired: if desired.is_some() { "present" } else { "absent" }.to_owned(),
            wanted_digest: desired.map(|desired| desired.digest.clone()),
            instead_digest: goal.and_then(|goal| goal.instead.get(&id)).map(|(digest, _)| digest.clone()),
            policy: goal.filter(|_| desired.is_some()).map(|goal| drift::policy(goal, id).to_string()),
            drift: self.work.noticed.get(&id).map(|noticed| DriftReport {
                at: noticed.at,
                differs: drift::sentence(&noticed.differs),
                done: noticed.done.to_owned(),
                over: noticed.over,
            }),
            state: entry.map(|entry| entry.status.state.as_str().to_owned()),
            since: entry.map(|entry| entry.since),
            reported: entry.is_some_and(|entry| entry.delivered),
            observed: self.observed_text(id).to_owned(),
            error,
            components: entry.map(|entry| entry.status.components.iter().map(component).collect()).unwrap_or_default(),
            waiting_for,
            next_step,
        }
    }

    fn observed_text(&self, id: DeploymentId) -> &'static str {
        let Some(seen) = self.work.seen() else { return "not checked yet" };
        match seen.deployments.get(&id) {
            None => "missing",
            Some(ObservedDeployment::Unknown { .. }) => "unknown",
            Some(ObservedDeployment::Known { components, .. }) => {
                let runs = |seen: &super::io::ObservedComponent| seen.run == super::io::Run::Running;
                if components.values().all(runs) { "running" } else { "incomplete" }
            }
        }
    }

    /// What the agent waits for, and the next steps.
    fn outlook(&self, id: DeploymentId, document: Option<&Document>) -> (Option<String>, Option<String>) {
        let some = |text: &str| Some(text.to_owned());
        if let Some(doing) = self.work.doing(id) {
            return (Some(doing), some("nothing to do: the runtime finishes it, or it times out"));
        }
        if let Some(hold) = &self.technician {
            return (
                Some(format!("the end of the maintenance hold at {}: {}", hold.until, hold.reason)),
                some("wait for its end, or run `margrave-agent hold --end`"),
            );
        }
        if self.is_stopped(id) {
            return (
                some("a change by an operator (failure policy `stop`)"),
                some("publish another revision of the deployment"),
            );
        }
        if let Some((digest, _)) = self.accepted.as_ref().and_then(|goal| goal.instead.get(&id)) {
            let waiting = format!("a change by an operator, while revision {} runs", &digest.hex()[..12]);
            return (Some(waiting), some("publish another revision of the deployment"));
        }
        let entry = self.statuses.get(&id);
        if let Some(due) = self.work.retry_due(id)
            && entry.is_some_and(|entry| entry.status.state == State::Failed)
        {
            let waiting = Some(format!("the next retry at {due}"));
            return (waiting, some("fix the cause in the message, or publish a new manifest"));
        }
        if matches!(document, Some(Document::Missing)) {
            return (some("its document, fetched with the next poll"), some("check the connection to the server"));
        }
        match entry {
            Some(entry) if !entry.delivered => {
                (some("reporting its state"), some("check the connection to the server"))
            }
            Some(entry) if entry.status.state == State::Installed => (None, some("nothing to do")),
            Some(_) => (some("the deployments before it"), some("nothing to do: the agent starts it after them")),
            None => (some("the first check of the runtime"), some("check that the runtime is running")),
        }
    }
}

mod optional_stamp {
    use margrave_core::time::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
    pub(super) fn serialize<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => serializer.collect_str(at),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let parse = |text: String| text.parse::<jiff::Timestamp>().map(|at| Timestamp(at.as_microsecond()));
        text.map(parse).transpose().map_err(D::Error::custom)
    }
}
