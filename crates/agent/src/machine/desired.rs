//! Poll, validate, fetch, verify, accept: DS-08 to DS-24. A manifest is accepted completely or not at all.

mod fetch;

use super::io::{Answer, Effect, Level, PersistFailure, Record, Response, WriteId};
use super::long_poll::Wait;
use super::network::LaneName;
use super::records::{Accepted, Reconciled};
use super::report::Topic;
use super::{Goal, Machine};
use crate::codes::Code;
use indexmap::IndexMap;
use margo::Digest;
use margo::manifest::{RollbackFloor, StateManifest, Verdict, compare};
use margrave_core::time::Timestamp;
use rand::RngCore;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Upper bound of deployments per client: a gateway with hundreds of children stays far below it.
const DEPLOYMENTS_MAX: usize = 10_000;

/// Retry interval after a full disk: space returns after a cleanup.
const WRITE_RETRY: Duration = Duration::from_secs(15);

/// A newer manifest that is not accepted yet.
#[derive(Debug)]
pub(super) struct Pending {
    manifest: StateManifest,
    body: String,
    body_digest: Digest,
    etag: Option<String>,
    /// Verified, not yet durable.
    fetched: IndexMap<Digest, Arc<[u8]>>,
    without_bundle: bool,
    stage: Stage,
    origin: Origin,
}

/// The origin of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The response to a poll.
    Server,
    /// The preload file of a device without contact to its server yet.
    Preload,
}

impl Pending {
    pub(super) fn preloaded(
        manifest: StateManifest,
        body: String,
        etag: String,
        documents: Vec<(Digest, Arc<[u8]>)>,
    ) -> Self {
        let body_digest = Digest::of(body.as_bytes());
        let fetched = documents.into_iter().collect();
        let (etag, stage, origin) = (Some(etag), Stage::Fetching, Origin::Preload);
        Self { manifest, body, body_digest, etag, fetched, without_bundle: false, stage, origin }
    }

    /// A missing deployment.
    pub(super) fn lacks(&self) -> Option<Digest> {
        let mut named = self.manifest.deployments.iter().map(|listed| &listed.digest);
        named.find(|digest| !self.fetched.contains_key(*digest)).cloned()
    }
}

/// The contents an unfinished fetch leaves to the next one for the same manifest.
#[derive(Debug)]
pub(super) struct UnfinishedFetch {
    manifest: Digest,
    fetched: IndexMap<Digest, Arc<[u8]>>,
    /// The bundle could not be fetched: single files may still get through a weak link or proxy.
    without_bundle: bool,
}

#[derive(Debug)]
enum Stage {
    Fetching,
    Writing(WriteId),
}

impl Machine {
    /// Only from the reconciled record, and only while it is for the accepted manifest and all of its content is stored:
    /// a 304 must never hide remaining work (DS-13, invariant 4).
    pub(super) fn if_none_match(&self) -> Option<String> {
        let goal = self.accepted.as_ref()?;
        let reconciled = self.reconciled.as_ref()?;
        let same = reconciled.version == goal.record.version && reconciled.body_digest == goal.record.body_digest;
        (same && self.missing(&goal.manifest).is_empty()).then(|| reconciled.etag.clone()).flatten()
    }

    /// No fetch while an acceptance is being written.
    pub(super) fn desired_is_free(&self) -> bool {
        !matches!(&self.pending, Some(Pending { stage: Stage::Writing(_), .. }))
    }

    pub(super) fn poll_answered(
        &mut self,
        conditional: bool,
        wait: Option<Wait>,
        answer: Answer,
        now: Timestamp,
        rng: &mut dyn RngCore,
    ) {
        match answer {
            Answer::Response(Response { status: 304, waited, .. }) if conditional => {
                if self.polled_at.is_none() {
                    self.network.hold.news(now);
                }
                let policy = &self.settings.poll;
                let next = wait.and_then(|wait| self.network.hold.unchanged(wait, waited, policy, now, rng));
                self.polled(now, rng);
                self.network.desired.due = next.unwrap_or(self.network.desired.due);
            }
            Answer::Response(Response { status: 200, etag, body, .. }) => self.manifest_offered(etag, body, now, rng),
            other => {
                if let Some(wait) = wait {
                    self.network.hold.failed(wait, &other, now);
                }
                let code = self.request_failed(LaneName::Desired, "poll", &other, now, rng);
                let (_, message) = super::network::explain_answer("poll", &other);
                self.warn(code, None, message);
            }
        }
    }

    /// The poll succeeded; the next one is due after the period.
    fn polled(&mut self, now: Timestamp, rng: &mut dyn RngCore) {
        self.polled_at = Some(now);
        self.clear_trouble(Topic::Desired);
        let next = self.settings.poll.next(now, rng);
        self.network.desired.succeeded(next);
    }

    fn manifest_offered(&mut self, etag: Option<String>, body: Vec<u8>, now: Timestamp, rng: &mut dyn RngCore) {
        let body_digest = Digest::of(&body);
        let manifest = match StateManifest::read(&body) {
            Ok(read) => read.document,
            Err(findings) => {
                let text = findings.to_string();
                // DS-08: an unknown algorithm anywhere makes the whole manifest invalid.
                let code = if text.contains("unknown digest algorithm") {
                    Code::DigestAlgorithmUnknown
                } else {
                    Code::ManifestUnreadable
                };
                return self.refuse(code, text, now, rng);
            }
        };
        let Ok(body) = String::from_utf8(body) else {
            return self.refuse(Code::ManifestUnreadable, "the manifest is not UTF-8".to_owned(), now, rng);
        };
        if let Some(problem) = unacceptable(&manifest) {
            return self.refuse(problem.0, problem.1, now, rng);
        }
        let held = self.held();
        let version = manifest.manifest_version;
        match compare(held.as_ref(), version, &body_digest) {
            // DS-23: logged as a security event.
            Verdict::Violation { floor, offered } if floor == offered => {
                let text = format!("manifest version {offered} was offered again with different content");
                self.refuse(Code::ManifestConflict, text, now, rng);
            }
            Verdict::Violation { floor, offered } => {
                let text = format!("manifest version {offered} is older than the accepted version {floor}");
                self.refuse(Code::ManifestOlder, text, now, rng);
            }
            Verdict::Unchanged if self.accepted.is_some() => self.manifest_unchanged(manifest, etag, body, now, rng),
            Verdict::Unchanged | Verdict::Newer => {
                self.polled_at = Some(now);
                self.log(Level::Info, None, None, format!("the server offers manifest version {version}"));
                self.pursue(manifest, etag, body, body_digest, now, rng);
            }
        }
    }

    /// DS-23: the same manifest again, after a lost or unsent ETag. Failed deployments keep their retry schedule.
    fn manifest_unchanged(
        &mut self,
        manifest: StateManifest,
        etag: Option<String>,
        body: String,
        now: Timestamp,
        rng: &mut dyn RngCore,
    ) {
        self.polled(now, rng);
        if self.if_none_match().is_none() {
            // Not applied yet; the next long poll follows after that.
            self.network.hold.news(now);
        }
        if !self.missing(&manifest).is_empty() {
            let body_digest = Digest::of(body.as_bytes());
            return self.pursue(manifest, etag, body, body_digest, now, rng);
        }
        if let Some(goal) = &mut self.accepted
            && goal.record.etag != etag
        {
            goal.record.etag = etag;
            // The reconciled record gets the new ETag with the next check of the runtime.
            self.work.observe_soon(now);
        }
    }

    /// The rollback floor, from whichever record still has it (DS-22).
    pub(super) fn held(&self) -> Option<RollbackFloor> {
        let accepted = self.accepted.as_ref().map(|goal| goal.record.held());
        let reconciled = self.reconciled.as_ref().map(Reconciled::held);
        [accepted, reconciled, self.floor.clone()].into_iter().flatten().max_by_key(|held| held.version)
    }

    fn pursue(
        &mut self,
        manifest: StateManifest,
        etag: Option<String>,
        body: String,
        body_digest: Digest,
        now: Timestamp,
        rng: &mut dyn RngCore,
    ) {
        let leftover = self.leftover.take().filter(|leftover| leftover.manifest == body_digest);
        let (fetched, without_bundle) =
            leftover.map(|leftover| (leftover.fetched, leftover.without_bundle)).unwrap_or_default();
        self.pending = Some(Pending {
            manifest,
            body,
            body_digest,
            etag,
            fetched,
            without_bundle,
            stage: Stage::Fetching,
            origin: Origin::Server,
        });
        self.network.desired.due = now;
        self.accept_if_complete(now, rng);
    }

    /// Keeps the current manifest, logs the reason, and retries later (DS-10).
    fn refuse(&mut self, code: Code, why: String, now: Timestamp, rng: &mut dyn RngCore) {
        self.pending = None;
        let retry = self.settings.retry;
        let answer = Answer::Failed { code, message: String::new() };
        self.network.desired.failed(&answer, retry, now, rng);
        let due = self.network.desired.due;
        self.warn(code, None, format!("rejected the desired state, keeping the current one: {why}"));
        self.note_trouble(Topic::Desired, code, why, Some(due), now);
    }

    pub(super) fn accept_if_complete(&mut self, now: Timestamp, _rng: &mut dyn RngCore) {
        let Some(pending) = &self.pending else { return };
        if !self.missing(&pending.manifest).is_empty() {
            return;
        }
        let record = Accepted {
            version: pending.manifest.manifest_version,
            etag: pending.etag.clone(),
            body_digest: pending.body_digest.clone(),
            body: pending.body.clone(),
            accepted_at: now,
            previous: self.previous_contents(&pending.body_digest),
        };
        let contents = pending
            .fetched
            .iter()
            .map(|(digest, bytes)| Record::Content { digest: digest.clone(), bytes: Arc::clone(bytes) });
        // Contents first: without them an accepted record would need another fetch.
        let records = contents.chain([Record::Accepted(record)]).collect();
        let write = self.persist(records);
        if let Some(pending) = &mut self.pending {
            pending.stage = Stage::Writing(write);
        }
    }

    pub(super) fn persisted(
        &mut self,
        write: WriteId,
        result: Result<(), PersistFailure>,
        now: Timestamp,
        rng: &mut dyn RngCore,
    ) {
        match &result {
            Ok(()) => self.clear_trouble(Topic::Disk),
            Err(failure) => {
                let code = if failure.disk_full { Code::DiskFull } else { Code::WriteFailed };
                self.warn(code, None, format!("write state: {}", failure.message));
                self.note_trouble(Topic::Disk, code, failure.message.clone(), Some(now.plus(WRITE_RETRY)), now);
            }
        }
        if matches!(&self.pending, Some(Pending { stage: Stage::Writing(id), .. }) if *id == write) {
            match result {
                Ok(()) => self.adopt(now, rng),
                Err(failure) => {
                    // Not durable, so not accepted: no work starts. It is fetched again when there is space.
                    self.pending = None;
                    let due = now.plus(self.write_retry());
                    self.network.desired.due = due;
                    let code = if failure.disk_full { Code::DiskFull } else { Code::WriteFailed };
                    self.note_trouble(Topic::Desired, code, failure.message, Some(due), now);
                }
            }
        } else {
            let retry_at = now.plus(self.write_retry());
            self.statuses.persisted(write, result.is_ok(), retry_at);
            self.revisions.persisted(write, result.is_ok(), retry_at);
            self.work.reconciled_persisted(write, result.is_ok(), &mut self.reconciled, retry_at);
        }
    }

    fn write_retry(&self) -> Duration {
        WRITE_RETRY.min(self.settings.retry.max)
    }

    /// The acceptance is durable: from now on this is the desired state.
    fn adopt(&mut self, now: Timestamp, rng: &mut dyn RngCore) {
        let Some(pending) = self.pending.take() else { return };
        let Pending { manifest, body, body_digest, etag, fetched, without_bundle: _, stage: _, origin } = pending;
        self.contents.extend(fetched);
        let previous = self.previous_contents(&body_digest);
        let record =
            Accepted { version: manifest.manifest_version, etag, body_digest, body, accepted_at: now, previous };
        let goal = self.goal(record, manifest);
        self.log(Level::Info, None, None, format!("accepted manifest version {}", goal.record.version));
        self.floor = None;
        let before = self.accepted.replace(goal);
        self.restate(before.as_ref(), now);
        if origin == Origin::Server {
            self.clear_trouble(Topic::Preload);
            self.polled(now, rng);
            self.network.hold.news(now);
        }
        self.forget_contents();
        self.report_new_deployments(now);
        self.cancel_outdated();
        self.work.forget_retries();
        self.work.discard_observation(now);
    }

    /// The contents to keep for a rollback once `next` is accepted.
    fn previous_contents(&self, next: &Digest) -> Vec<Digest> {
        let Some(Goal { record, manifest, .. }) = &self.accepted else { return Vec::new() };
        if record.body_digest == *next {
            return record.previous.clone();
        }
        manifest.deployments.iter().map(|deployment| deployment.digest.clone()).collect()
    }

    /// Garbage collection never removes the accepted, the running or the previous revision.
    fn forget_contents(&mut self) {
        let Some(goal) = &self.accepted else { return };
        let mut keep: HashSet<Digest> = goal.record.previous.iter().cloned().collect();
        keep.extend(goal.manifest.deployments.iter().map(|deployment| deployment.digest.clone()));
        keep.extend(self.statuses.digests());
        keep.extend(self.revisions.digests());
        let forget: Vec<_> = self.contents.keys().filter(|digest| !keep.contains(*digest)).cloned().collect();
        if !forget.is_empty() {
            self.contents.retain(|digest, _| keep.contains(digest));
            self.effects.push(Effect::Forget(forget));
        }
    }
}

pub(super) fn unacceptable(manifest: &StateManifest) -> Option<(Code, String)> {
    if manifest.deployments.len() > DEPLOYMENTS_MAX {
        let count = manifest.deployments.len();
        return Some((Code::ManifestTooLarge, format!("{count} deployments, the limit is {DEPLOYMENTS_MAX}")));
    }
    let mut seen = HashSet::new();
    let twice = manifest.deployments.iter().find(|deployment| !seen.insert(deployment.deployment_id))?;
    Some((Code::ManifestUnreadable, format!("deployment {} is listed twice", twice.deployment_id)))
}
