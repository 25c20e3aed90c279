//! What the machine knows, for people: `status` and `explain` (invariant 9).

use super::io::{self, SeenDeployment};
use super::records::stamp;
use super::work::drift;
use super::{Document, Machine, Settled};
use crate::codes::Code;
use margo::status::State;
use margo::{DeploymentId, DeviceId, Digest};
use margrave_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// What a problem is about; one problem per topic, the newest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    Server,
    Desired,
    Disk,
    Runtime,
    Preload,
    Capabilities(DeviceId),
}

/// Something that is not as it should be, since when, and when it is tried again.
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

/// A picture of the machine at one instant.
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
    /// A technician has stopped changes.
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
#[serde(rename_all = "camelCase")]
pub enum Overall {
    /// No manifest was ever accepted, or what was accepted cannot be read.
    WaitingForDesiredState,
    Working,
    Converged,
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
    /// An earlier revision that runs in the place of the wanted one, which failed.
    #[serde(default)]
    pub instead_digest: Option<Digest>,
    /// What the operator chose for drift, failure and removal, in words.
    #[serde(default)]
    pub policy: Option<String>,
    /// What was last found to differ from what was applied.
    #[serde(default)]
    pub drift: Option<DriftReport>,
    /// The last word about it, if there is one.
    pub state: Option<String>,
    #[serde(with = "optional_stamp")]
    pub since: Option<Timestamp>,
    pub reported: bool,
    /// What the runtime shows: `running`, `incomplete`, `unknown`, `not there`, `not looked yet`.
    pub observed: String,
    pub error: Option<ErrorReport>,
    pub components: Vec<ComponentReport>,
    pub waiting_for: Option<String>,
    pub would_change: Option<String>,
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

    /// What is desired, what is known, since when, what is waited for, what would change it.
    pub fn report(&self, now: Timestamp) -> Report {
        let state = match self.settled() {
            _ if self.accepted.is_none() => Overall::WaitingForDesiredState,
            Settled::Working => Overall::Working,
            Settled::Converged => Overall::Converged,
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
        let wanted = goal.and_then(|goal| goal.manifest.deployments.iter().find(|wanted| wanted.deployment_id == id));
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
        let (waiting_for, would_change) = self.outlook(id, document);
        DeploymentReport {
            id,
            name,
            device: entry.and_then(|entry| entry.status.device_id.clone()).or_else(|| self.devices.own().cloned()),
            desired: if wanted.is_some() { "present" } else { "absent" }.to_owned(),
            wanted_digest: wanted.map(|wanted| wanted.digest.clone()),
            instead_digest: goal.and_then(|goal| goal.instead.get(&id)).map(|(digest, _)| digest.clone()),
            policy: goal.filter(|_| wanted.is_some()).map(|goal| drift::policy(goal, id).to_string()),
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
            would_change,
        }
    }

    fn observed_text(&self, id: DeploymentId) -> &'static str {
        let Some(seen) = self.work.seen() else { return "not looked yet" };
        match seen.deployments.get(&id) {
            None => "not there",
            Some(SeenDeployment::Unknown { .. }) => "unknown",
            Some(SeenDeployment::Known { components, .. }) => {
                let runs = |seen: &super::io::SeenComponent| seen.run == super::io::Run::Running;
                if components.values().all(runs) { "running" } else { "incomplete" }
            }
        }
    }

    /// What is waited for, and what would change it.
    fn outlook(&self, id: DeploymentId, document: Option<&Document>) -> (Option<String>, Option<String>) {
        let some = |text: &str| Some(text.to_owned());
        if let Some(doing) = self.work.doing(id) {
            return (Some(doing), some("the runtime finishing it, or its timeout"));
        }
        if let Some(hold) = &self.technician {
            return (
                Some(format!("the technician's hold, until {}: {}", hold.until, hold.reason)),
                some("its end, or `margrave-agent hold --end`"),
            );
        }
        if self.is_stopped(id) {
            return (
                some("a change by the manager (failure policy `hold`)"),
                some("another revision of the deployment"),
            );
        }
        if let Some((digest, _)) = self.accepted.as_ref().and_then(|goal| goal.instead.get(&id)) {
            let waiting = format!("a change by the manager, while revision {} runs", &digest.hex()[..12]);
            return (Some(waiting), some("another revision of the deployment"));
        }
        let entry = self.statuses.get(&id);
        if let Some(due) = self.work.retry_due(id)
            && entry.is_some_and(|entry| entry.status.state == State::Failed)
        {
            let waiting = Some(format!("the next try at {due}"));
            return (waiting, some("a new manifest, or the cause in the message being gone at the next try"));
        }
        if matches!(document, Some(Document::Missing)) {
            return (some("its document, which is fetched with the next poll"), some("reaching the server"));
        }
        match entry {
            Some(entry) if !entry.delivered => (some("telling the server its state"), some("reaching the server")),
            Some(entry) if entry.status.state == State::Installed => {
                (None, some("a new manifest, or drift on the device"))
            }
            Some(_) => (some("its turn"), some("the deployments before it finishing")),
            None => (some("the first look at the runtime"), some("the runtime answering")),
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
