//! Which revision ran last, which was abandoned, and in which boot: needed for rollbacks and after reboots.

use super::io::{Record, WriteId};
use super::records::{AbandonedRevision, Revision, Revisions};
use super::{Document, Goal, Machine};
use indexmap::IndexMap;
use margo::status::State;
use margo::{DeploymentId, Digest};
use margrave_core::time::Timestamp;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct RevisionTracker {
    record: Revisions,
    /// The current boot, if the system provides an id.
    boot: Option<String>,
    dirty: bool,
    writing: Option<WriteId>,
    write_due: Timestamp,
}

impl RevisionTracker {
    pub(super) fn new(record: Revisions, boot: Option<String>) -> Self {
        Self { record, boot, dirty: false, writing: None, write_due: Timestamp::default() }
    }
    pub(super) fn good(&self, id: DeploymentId) -> Option<&Digest> {
        self.record.deployments.get(&id).and_then(|revision| revision.good.as_ref())
    }
    pub(super) fn abandoned(&self, id: DeploymentId) -> Option<&AbandonedRevision> {
        self.record.deployments.get(&id).and_then(|revision| revision.abandoned.as_ref())
    }
    /// Kept for rollbacks.
    pub(super) fn digests(&self) -> impl Iterator<Item = Digest> {
        self.record.deployments.values().filter_map(|revision| revision.good.clone())
    }
    /// This revision was observed to run completely.
    pub(super) fn ran(&mut self, id: DeploymentId, digest: &Digest) {
        let ran = Revision { good: Some(digest.clone()), abandoned: None };
        if self.record.deployments.get(&id) != Some(&ran) {
            self.record.deployments.insert(id, ran);
            self.dirty = true;
        }
    }
    pub(super) fn abandon(&mut self, id: DeploymentId, abandoned: AbandonedRevision) {
        self.record.deployments.entry(id).or_default().abandoned = Some(abandoned);
        self.dirty = true;
    }
    pub(super) fn restored(&mut self, id: DeploymentId) {
        let abandoned = self.record.deployments.get_mut(&id).and_then(|revision| revision.abandoned.as_mut());
        if let Some(abandoned) = abandoned.filter(|abandoned| !abandoned.restored) {
            abandoned.restored = true;
            self.dirty = true;
        }
    }
    pub(super) fn forget(&mut self, id: DeploymentId) {
        self.dirty |= self.record.deployments.shift_remove(&id).is_some();
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
}

impl Machine {
    pub(super) fn advance_revisions(&mut self, now: Timestamp) {
        if self.revisions.dirty && self.revisions.writing.is_none() && self.revisions.write_due <= now {
            self.revisions.dirty = false;
            let record = Record::Revisions(self.revisions.record.clone());
            self.revisions.writing = Some(self.persist(vec![record]));
        }
    }

    /// Earlier revisions that run in place of abandoned ones that the manifest still names.
    pub(super) fn instead(&self, goal: &Goal) -> IndexMap<DeploymentId, (Digest, Document)> {
        let ids = goal.manifest.deployments.iter().map(|deployment| deployment.deployment_id);
        ids.filter_map(|id| {
            let abandoned = self.revisions.abandoned(id)?;
            let good = self.revisions.good(id).filter(|good| Some(*good) != goal.listed(id))?;
            let document = self.document(id, good);
            let back = goal.listed(id) == Some(&abandoned.digest) && matches!(document, Document::Ready(_));
            back.then(|| (id, (good.clone(), document)))
        })
        .collect()
    }

    /// After a reboot, everything that ran before starts again, independent of the drift policy.
    pub(super) fn handle_reboot(&mut self) {
        let (Some(now), Some(then)) = (&self.revisions.boot, &self.revisions.record.boot) else { return };
        if now != then {
            let ran = self.statuses.entries().filter(|(_, entry)| entry.status.state == State::Installed);
            self.work.restart = ran.map(|(id, _)| *id).collect();
        }
    }

    /// The same after an engine restart.
    pub(super) fn handle_engine_restart(&mut self, restarted: &[DeploymentId]) {
        let ran =
            |id: &&DeploymentId| self.statuses.get(id).is_some_and(|entry| entry.status.state == State::Installed);
        self.work.restart.extend(restarted.iter().filter(ran));
    }

    /// Once everything runs again, records this boot.
    pub(super) fn settle_boot(&mut self, goal: &Goal) {
        self.work.restart.retain(|id| goal.listed(*id).is_some());
        let RevisionTracker { record, boot, dirty, .. } = &mut self.revisions;
        if self.work.restart.is_empty() && boot.is_some() && record.boot != *boot {
            record.boot.clone_from(boot);
            *dirty = true;
        }
    }
}
