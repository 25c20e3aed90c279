//! The status queue: one entry per deployment, newer replaces older, kept until delivered (DS-25, ST-02 to ST-12).

use super::io::{Answer, Level, Record, Request, WriteId};
use super::network::{LaneName, Sent, explain_answer, is_final};
use super::records::{StatusEntries, StatusEntry};
use super::{Document, Goal, Machine};
use crate::codes::Code;
use margo::deployment::ApplicationDeployment;
use margo::status::{ComponentStatus, DeploymentStatus, State, StatusError};
use margo::{DeploymentId, DeviceId, Digest};
use margrave_core::time::Timestamp;
use rand::RngCore;
use std::time::Duration;

/// The longest message in a report: enough for a reason, not for a log file.
const MESSAGE_CHARS_MAX: usize = 1000;

#[derive(Debug)]
pub(super) struct Statuses {
    book: StatusEntries,
    dirty: bool,
    writing: Option<WriteId>,
    write_due: Timestamp,
}

impl Statuses {
    pub(super) fn new(book: StatusEntries) -> Self {
        Self { book, dirty: false, writing: None, write_due: Timestamp::default() }
    }
    pub(super) fn get(&self, id: &DeploymentId) -> Option<&StatusEntry> {
        self.book.entries.get(id)
    }
    pub(super) fn entries(&self) -> impl Iterator<Item = (&DeploymentId, &StatusEntry)> {
        self.book.entries.iter()
    }
    pub(super) fn all_delivered(&self) -> bool {
        self.book.entries.values().all(|entry| entry.delivered)
    }
    pub(super) fn digests(&self) -> impl Iterator<Item = Digest> {
        self.book.entries.values().filter_map(|entry| entry.digest.clone())
    }
    pub(super) fn next_undelivered(&self) -> Option<(&DeploymentId, &StatusEntry)> {
        self.book.entries.iter().filter(|(_, entry)| !entry.delivered).min_by_key(|(_, entry)| entry.sequence)
    }
    pub(super) fn wake(&self) -> Option<Timestamp> {
        (self.dirty && self.writing.is_none()).then_some(self.write_due)
    }
    pub(super) fn shift_back(&mut self, back: Duration) {
        self.write_due = self.write_due.minus(back);
    }
    pub(super) fn persisted(&mut self, write: WriteId, ok: bool, retry_at: Timestamp) {
        if self.writing.take_if(|id| *id == write).is_some() && !ok {
            self.dirty = true;
            self.write_due = retry_at;
        }
    }

    /// Replaces the last status, unless it is the same.
    fn put(&mut self, status: DeploymentStatus, digest: Option<Digest>, now: Timestamp) -> bool {
        let id = status.deployment_id;
        let old = self.book.entries.get(&id);
        if old.is_some_and(|old| is_same_report(&old.status, &status) && old.digest == digest) {
            return false;
        }
        let since =
            old.filter(|old| old.status.state == status.state && old.digest == digest).map_or(now, |old| old.since);
        self.book.next_sequence += 1;
        let sequence = self.book.next_sequence;
        self.book.entries.insert(id, StatusEntry { sequence, digest, since, delivered: false, status });
        self.dirty = true;
        true
    }

    /// Changes the error of a deployment without changing its reported state. Returns whether it changed.
    pub(super) fn annotate(&mut self, id: DeploymentId, error: Option<StatusError>) -> bool {
        let Some(entry) = self.book.entries.get_mut(&id).filter(|entry| entry.status.error != error) else {
            return false;
        };
        self.book.next_sequence += 1;
        entry.sequence = self.book.next_sequence;
        entry.status.error = error;
        entry.delivered = false;
        self.dirty = true;
        true
    }

    /// The server rejected this report, so the others go first next time.
    fn move_to_end(&mut self, id: DeploymentId, sequence: u64) {
        let Some(entry) = self.book.entries.get_mut(&id).filter(|entry| entry.sequence == sequence) else { return };
        self.book.next_sequence += 1;
        entry.sequence = self.book.next_sequence;
        self.dirty = true;
    }

    fn delivered(&mut self, id: DeploymentId, sequence: u64) {
        let Some(entry) = self.book.entries.get_mut(&id).filter(|entry| entry.sequence == sequence) else { return };
        self.dirty = true;
        if entry.status.state == State::Removed {
            // The final status of this deployment is delivered.
            self.book.entries.shift_remove(&id);
        } else {
            entry.delivered = true;
        }
    }
}

/// Ignores the manifest version: a later manifest that does not change a deployment is no news.
fn is_same_report(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    old.state == new.state
        && old.error == new.error
        && old.components == new.components
        && old.device_id == new.device_id
}

impl Machine {
    pub(super) fn advance_statuses(&mut self, now: Timestamp) {
        if self.statuses.dirty && self.statuses.writing.is_none() && self.statuses.write_due <= now {
            self.statuses.dirty = false;
            let record = Record::Statuses(self.statuses.book.clone());
            self.statuses.writing = Some(self.persist(vec![record]));
        }
    }

    pub(super) fn next_status_request(&self) -> Option<(Sent, Request)> {
        let (id, entry) = self.statuses.next_undelivered()?;
        let sent = Sent::PostStatus { deployment: *id, sequence: entry.sequence };
        Some((sent, Request::PostStatus { deployment: *id, json: entry.status.to_json() }))
    }

    pub(super) fn status_answered(
        &mut self,
        id: DeploymentId,
        sequence: u64,
        answer: Answer,
        now: Timestamp,
        rng: &mut dyn RngCore,
    ) {
        match &answer {
            // W-10: only the status counts, and any 2xx is a success.
            Answer::Response(response) if matches!(response.status, 200..=299) => {
                self.network.statuses.succeeded(now);
                self.statuses.delivered(id, sequence);
            }
            // Keeping it would block the following ones forever.
            Answer::Response(response) if is_final(response) => {
                let (_, message) = explain_answer("report status", &answer);
                self.warn(Code::StatusRefused, Some(id), message);
                self.network.statuses.succeeded(now);
                self.statuses.delivered(id, sequence);
            }
            _ => {
                let code = self.request_failed(LaneName::Statuses, "report status", &answer, now, rng);
                if code == Code::AnswerUnexpected {
                    self.statuses.move_to_end(id, sequence);
                }
            }
        }
    }

    /// ST-10: a new deployment is pending until it starts.
    pub(super) fn report_new_deployments(&mut self, now: Timestamp) {
        let Some(goal) = self.accepted.clone() else { return };
        for deployment in &goal.manifest.deployments {
            let id = deployment.deployment_id;
            let known = self.statuses.get(&id).is_some_and(|entry| entry.digest.is_some());
            if let (false, Some(Document::Ready(document))) = (known, goal.documents.get(&id)) {
                let components = all_components(document, State::Pending, None);
                self.set_status(
                    id,
                    document_device(document),
                    State::Pending,
                    None,
                    components,
                    Some(deployment.digest.clone()),
                    now,
                );
            }
        }
    }

    /// A deployment that changed and changed back is a change for the server, even if no work started in between:
    /// either `before`, the previous manifest, named another revision, or manifests were skipped since.
    /// Deployments that already match the new manifest are reported again with its version (ST-04, ST-06).
    pub(super) fn restate(&mut self, before: Option<&Goal>, now: Timestamp) {
        let Some(goal) = &self.accepted else { return };
        let before = before.filter(|before| before.record.version.checked_add(1) == Some(goal.record.version));
        for deployment in &goal.manifest.deployments {
            if before.is_some_and(|before| before.manifest.deployments.contains(deployment)) {
                continue;
            }
            let entry = self.statuses.book.entries.get(&deployment.deployment_id);
            let Some(entry) = entry.filter(|entry| entry.digest.as_ref() == Some(&deployment.digest)) else { continue };
            let mut entry = entry.clone();
            entry.status.adopted_manifest_version = goal.record.version;
            entry.delivered = false;
            entry.since = entry.since.min(now);
            self.statuses.book.next_sequence += 1;
            entry.sequence = self.statuses.book.next_sequence;
            self.statuses.book.entries.insert(deployment.deployment_id, entry);
            self.statuses.dirty = true;
        }
    }

    /// Reports with the version of the accepted manifest (ST-04, ST-05, ST-11).
    #[expect(clippy::too_many_arguments, reason = "these are the fields of a report")]
    pub(super) fn set_status(
        &mut self,
        id: DeploymentId,
        device: Option<DeviceId>,
        state: State,
        error: Option<StatusError>,
        components: Vec<ComponentStatus>,
        digest: Option<Digest>,
        now: Timestamp,
    ) {
        let Some(version) = self.accepted_version() else { return };
        // ST-03: derived from the components; without any the state is used as is.
        let state = State::overall(components.iter().map(|component| component.state)).unwrap_or(state);
        // A child is named; the client's own device need not be (GW-05).
        let device_id = device.filter(|device| self.devices.own() != Some(device) && device.parent().is_some());
        let status = DeploymentStatus {
            deployment_id: id,
            device_id,
            adopted_manifest_version: version,
            state,
            error,
            components,
        };
        if self.statuses.put(status, digest, now) {
            self.log(Level::Info, None, Some(id), format!("deployment is {}", state.as_str()));
        }
    }
}

/// The device a document names, unless the gateway selects one.
pub(super) fn document_device(document: &ApplicationDeployment) -> Option<DeviceId> {
    document.metadata.device_id.as_ref().and_then(margo::DeviceTarget::device)
}

/// ST-02: one entry for each component.
pub(super) fn all_components(
    document: &ApplicationDeployment,
    state: State,
    error: Option<&StatusError>,
) -> Vec<ComponentStatus> {
    let component = |component: &margo::description::Component| ComponentStatus {
        name: component.name.clone(),
        state,
        error: error.cloned().map(|error| {
            // ST-07: errors of a gateway carry its id, others the name of the component.
            let ours = Code::parse(&error.code).is_some_and(Code::is_gateway);
            StatusError { source: if ours { error.source } else { component.name.clone() }, ..error }
        }),
    };
    document.spec.deployment_profile.components.iter().map(component).collect()
}

pub(super) fn status_error(code: Code, source: &str, message: &str) -> StatusError {
    StatusError {
        code: code.number().to_owned(),
        source: source.to_owned(),
        message: message.chars().take(MESSAGE_CHARS_MAX).collect(),
    }
}
