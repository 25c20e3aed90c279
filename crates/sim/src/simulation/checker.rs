//! Records acknowledged operations and verifies the invariants.
//!
//! The checker sees only what is visible from outside: responses, durable records, workloads. It never inspects the
//! state machine or the server, except for the contents of the store.

use super::disk::Disk;
use super::runtime::Runtime;
use super::violation::Violation;
use margo::deployment::ApplicationDeployment;
use margo::digest::Digest;
use margo::manifest::StateManifest;
use margo::status::DeploymentStatus;
use margo::{ClientId, DeploymentId, DeviceTarget};
use margrave_agent::machine::io::{ApplyWork, DeviceReport, RemoveWork};
use margrave_agent::machine::records::Reconciled;
use margrave_core::model::Reported;
use margrave_core::time::Timestamp;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;
use uuid::Uuid;

type Checked = Result<(), Violation>;

/// Shorter than any interval between two polls of an agent without news.
const POLL_SPACING: Duration = Duration::from_millis(900);

#[derive(Debug, Default)]
pub(crate) struct Checker {
    manifests: HashMap<ClientId, Served>,
    /// Everything published, by client: what an agent may act on.
    artifacts: HashSet<(ClientId, DeploymentId, Digest)>,
    /// The newest version that each agent has durably accepted.
    accepted: HashMap<ClientId, u64>,
    /// The last acknowledged status of each deployment.
    pub(crate) words: BTreeMap<DeploymentId, AcknowledgedStatus>,
    /// Acknowledged rollouts.
    pub(crate) rollouts: Vec<Uuid>,
}

#[derive(Debug, Default)]
struct Served {
    newest: u64,
    manifests: HashMap<u64, (Digest, Vec<(DeploymentId, Digest)>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AcknowledgedStatus {
    adopted: u64,
    body: Vec<u8>,
}

impl Checker {
    /// A manifest was served or is ready to be served.
    pub(crate) fn manifest_served(&mut self, client: &ClientId, body: &[u8], etag: Option<&str>) -> Checked {
        let digest = Digest::of(body);
        let manifest = StateManifest::read(body)
            .map_err(|findings| Violation::new("a served manifest can be read", findings.to_string()))?
            .document;
        if etag.is_some_and(|etag| etag != digest.etag()) {
            return Err(Violation::new(
                "the ETag is the digest of the body",
                format!("{client}: {etag:?} for {digest}"),
            ));
        }
        let version = manifest.manifest_version;
        let served = self.manifests.entry(client.clone()).or_default();
        if version < served.newest {
            let detail = format!("{client}: {version} after {}", served.newest);
            return Err(Violation::new("manifest versions of a client only increase", detail));
        }
        served.newest = version;
        let listed = || manifest.deployments.iter().map(|one| (one.deployment_id, one.digest.clone())).collect();
        let (known, deployments) = served.manifests.entry(version).or_insert_with(|| (digest.clone(), listed()));
        if *known != digest {
            let detail = format!("{client}: version {version} was {known} and is {digest}");
            return Err(Violation::new("a manifest version is never reused", detail));
        }
        for (id, digest) in deployments {
            self.artifacts.insert((client.clone(), *id, digest.clone()));
        }
        Ok(())
    }

    /// The accepted manifest on an agent's disk never gets older, and was published.
    pub(crate) fn accepted_durable(&mut self, client: &ClientId, disk: &Disk) -> Checked {
        let Some(record) = disk.accepted() else { return Ok(()) };
        let newest = self.accepted.entry(client.clone()).or_default();
        if record.version < *newest {
            let detail = format!("{client}: {} after {newest}", record.version);
            return Err(Violation::new("an agent never accepts an older manifest", detail));
        }
        *newest = record.version;
        let published = self.manifests.get(client).and_then(|served| served.manifests.get(&record.version));
        if published.map(|(digest, _)| digest) != Some(&Digest::of(record.body.as_bytes())) {
            let detail = format!("{client}: version {} is not what was published", record.version);
            return Err(Violation::new("an agent accepts only published manifests", detail));
        }
        Ok(())
    }

    /// Bad sectors may destroy the newest record; the remaining floor still counts.
    pub(crate) fn disk_damaged(&mut self, client: &ClientId, disk: &Disk) {
        self.accepted.insert(client.clone(), disk.known_version());
    }

    /// Agents apply only verified bytes of the manifest on disk (invariant 4).
    pub(crate) fn apply_begins(&self, client: &ClientId, work: &ApplyWork, disk: &Disk) -> Checked {
        let rule = "an agent applies only durably accepted manifests";
        let desired =
            desired(disk).ok_or_else(|| Violation::new(rule, format!("{client} applies without a manifest")))?;
        if desired.get(&work.deployment) != Some(&work.digest) {
            let detail = format!("{client} applies {} {}", work.deployment, work.digest);
            return Err(Violation::new(rule, detail));
        }
        if !self.artifacts.contains(&(client.clone(), work.deployment, work.digest.clone())) {
            let detail = format!("{client} applies {}, which was never published for it", work.digest);
            return Err(Violation::new("an agent applies only verified bytes", detail));
        }
        Ok(())
    }

    /// A manifest is reconciled only after every part of it was applied (DS-24 step 8).
    pub(crate) fn reconciled_written(
        &self,
        client: &ClientId,
        record: &Reconciled,
        disk: &Disk,
        runtime: &Runtime,
    ) -> Checked {
        let rule = "only a fully applied manifest is recorded as reconciled";
        let violation =
            |detail: &str| Err(Violation::new(rule, format!("{client}, version {}: {detail}", record.version)));
        // A newer manifest may have been accepted while the record was being written.
        if disk.accepted().is_some_and(|accepted| accepted.version < record.version) {
            return violation("it was not accepted");
        }
        let served = self.manifests.get(client).and_then(|served| served.manifests.get(&record.version));
        let Some((digest, deployments)) = served else { return violation("it was never published") };
        if record.body_digest != *digest {
            return violation("its content differs");
        }
        for (id, digest) in deployments {
            let document = disk.content(digest).and_then(|yaml| ApplicationDeployment::read(yaml).ok());
            let Some(document) = document.map(|read| read.document) else { continue };
            if !runtime.has_landed(*id, digest, &document.spec.deployment_profile.components) {
                return violation(&format!("{id} was not applied"));
            }
        }
        Ok(())
    }

    /// A status was acknowledged with 2xx.
    pub(crate) fn status_acknowledged(&mut self, body: &[u8]) {
        let Ok(read) = DeploymentStatus::read(body) else { return };
        let status = read.document;
        let word = AcknowledgedStatus { adopted: status.adopted_manifest_version, body: body.to_vec() };
        let held = self.words.get(&status.deployment_id);
        // A report about an older manifest never replaces one about a newer.
        if held.is_none_or(|held| held.adopted <= word.adopted) {
            self.words.insert(status.deployment_id, word);
        }
    }

    /// An acknowledged status is stored, unless a newer one replaced it (invariant 5).
    pub(crate) fn status_kept(&self, id: DeploymentId, reported: Option<&Reported>, unanswered: &[Vec<u8>]) -> Checked {
        let Some(word) = self.words.get(&id) else { return Ok(()) };
        let rule = "an acknowledged status is never lost";
        let Some(reported) = reported else {
            return Err(Violation::new(rule, format!("{id}: no status is stored")));
        };
        let replaced = reported.adopted_version > word.adopted || unanswered.contains(&reported.body);
        if reported.body == word.body || replaced {
            return Ok(());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Err(Violation::new(rule, format!("{id}: {} became {}", text(&word.body), text(&reported.body))))
    }
}

/// Only absence from an accepted manifest removes a workload (invariant 6). A desired workload is removed only from a
/// device that should not have it: one it was not assigned to, or a removed child.
pub(crate) fn remove_begins(client: &ClientId, work: &RemoveWork, disk: &Disk, devices: &[DeviceReport]) -> Checked {
    let rule = "only absence from an accepted manifest removes a workload";
    let desired = desired(disk).ok_or_else(|| Violation::new(rule, format!("{client} removes without a manifest")))?;
    let Some(digest) = desired.get(&work.deployment) else { return Ok(()) };
    // A component of a remaining deployment may be removed if its new revision does not have it.
    let document = disk.content(digest).and_then(|yaml| ApplicationDeployment::read(yaml).ok());
    let (None, Some(document)) = (&work.component, document) else { return Ok(()) };
    let target = document.document.metadata.device_id.as_ref().and_then(DeviceTarget::device);
    let belongs = match target {
        Some(target) => target == work.device,
        None => devices.iter().any(|device| device.id == work.device),
    };
    if belongs {
        return Err(Violation::new(rule, format!("{client} removes {}, which is desired", work.deployment)));
    }
    Ok(())
}

/// `If-None-Match` carries only the ETag of the reconciled record (invariant 4).
pub(crate) fn poll_sent(client: &ClientId, if_none_match: Option<&str>, disk: &Disk) -> Checked {
    let Some(etag) = if_none_match else { return Ok(()) };
    let rule = "If-None-Match carries only a reconciled ETag";
    let reconciled = disk.reconciled();
    if reconciled.as_ref().and_then(|record| record.etag.as_deref()) != Some(etag) {
        return Err(Violation::new(rule, format!("{client} sends {etag}, reconciled is {reconciled:?}")));
    }
    let accepted = disk.accepted().map(|record| record.version);
    if accepted.is_some() && accepted != reconciled.map(|record| record.version) {
        return Err(Violation::new(rule, format!("{client} sends the ETag of a version before {accepted:?}")));
    }
    Ok(())
}

/// The last poll of an agent, to verify that it keeps its interval, however the server handles long polls.
#[derive(Debug, Default)]
pub(crate) struct LastPoll(Option<((u32, i64), Timestamp)>);

impl LastPoll {
    /// `era` is the agent's start counter and clock offset: after a start or a clock jump it may poll at once.
    pub(crate) fn sent(&mut self, client: &ClientId, era: (u32, i64), waits: bool, now: Timestamp) -> Checked {
        let last = self.0.replace((era, now));
        match last {
            Some((before, at)) if before == era && waits && now.since(at) < POLL_SPACING => {
                let detail = format!("{client} polls again after {} ms", now.since(at).as_millis());
                Err(Violation::new("long polls keep the minimum interval", detail))
            }
            _ => Ok(()),
        }
    }
}

/// The desired state in the accepted manifest on disk.
fn desired(disk: &Disk) -> Option<HashMap<DeploymentId, Digest>> {
    let manifest = disk.accepted()?.manifest()?;
    Some(manifest.deployments.into_iter().map(|desired| (desired.deployment_id, desired.digest)).collect())
}
