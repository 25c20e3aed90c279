//! Preview of a rollout: devices grouped by identical change, counted exactly, with one diff per group.
//! Documents are read and compared once per group, so a preview of a whole fleet is mostly counting.

use super::changed_values::{ChangedValue, answered};
use super::plan::{PlannedSkip, PlannedTarget, Request};
use super::show::difference;
use crate::app::cooperative::TimeSlices;
use crate::app::error::AppResult;
use crate::state::ServerState;
use margrave_api::devices::DeviceRef;
use margrave_api::rollouts::DiffLine;
use margrave_core::skips::SkipReason;
use std::collections::{BTreeMap, HashSet};

/// Groups shown with their diff; each costs reading and comparing a document.
const DIFFS_MAX: usize = 20;
/// Devices named per group and per reason.
const NAMED_MAX: usize = 12;
/// Distinct reasons for skipping a device.
const REASONS_MAX: usize = 50;

/// The effect of one rollout.
#[derive(Debug, Clone, Default)]
pub struct Review {
    pub targets: u64,
    /// How many of them are offline: they get it when they reconnect.
    pub offline: u64,
    /// Largest first.
    pub alike: Vec<DiffGroup>,
    /// Devices in groups that are not shown.
    pub otherwise: u64,
    pub skipped: u64,
    /// Most common reason first; further ones are only counted.
    pub reasons: Vec<Reason>,
}

/// Devices on which the same changes.
#[derive(Debug, Clone)]
pub struct DiffGroup {
    pub count: u64,
    /// The first of them.
    pub devices: Vec<String>,
    pub profile: String,
    /// Their current version.
    pub from: Option<String>,
    /// The changed values and policies, for people.
    pub values: Vec<ChangedValue>,
    /// Diff of the first of them.
    pub diff: Vec<DiffLine>,
}

/// Devices skipped for the same reason.
#[derive(Debug, Clone)]
pub struct Reason {
    /// A stable name: `already-deployed`, `incompatible`.
    pub kind: String,
    pub count: u64,
    pub devices: Vec<String>,
    pub reason: String,
}

/// Plans the whole rollout and counts; records nothing. Devices in `except` have a rollout of their own.
pub(crate) async fn review(state: &ServerState, request: &Request, except: &HashSet<DeviceRef>) -> AppResult<Review> {
    let planned = super::plan(state, request).await?;
    let mut slices = TimeSlices::begin();
    let mut offline = 0;
    let mut keys = Keys { request, new: BTreeMap::new() };
    let mut groups: BTreeMap<Key, (u64, Vec<String>, PlannedTarget)> = BTreeMap::new();
    for target in planned.targets {
        slices.next().await;
        let device = target.target.target.to_string();
        let client = target.target.client.to_string();
        if except.contains(&DeviceRef { client, device: device.clone() }) {
            continue;
        }
        offline += u64::from(target.offline);
        let group = groups.entry(keys.of(&target)).or_insert_with(|| (0, Vec::new(), target));
        group.0 += 1;
        if group.1.len() < NAMED_MAX {
            group.1.push(device);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
    let targets = groups.iter().map(|(_, (count, ..))| count).sum();
    let otherwise = groups.iter().skip(DIFFS_MAX).map(|(_, (count, ..))| count).sum();
    let mut alike = Vec::new();
    for (Key { from, profile, values }, (count, devices, target)) in groups.into_iter().take(DIFFS_MAX) {
        let diff = difference(state, request, &target).await?;
        alike.push(DiffGroup { count, devices, profile, from, values, diff });
    }
    let skipped = planned.skipped.into_iter().filter(|left| !except.contains(&left.device));
    let (skipped, reasons) = reasons(skipped);
    Ok(Review { targets, offline, alike, otherwise, skipped, reasons })
}

/// Exactly what is shown of a group: devices that would look the same are one group, whatever else differs between them.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// The version before.
    from: Option<String>,
    profile: String,
    values: Vec<ChangedValue>,
}

/// Keys of targets. The values of all new deployments with one profile are the same, and are computed once.
struct Keys<'a> {
    request: &'a Request,
    new: BTreeMap<String, Vec<ChangedValue>>,
}

impl Keys<'_> {
    fn of(&mut self, target: &PlannedTarget) -> Key {
        let profile = target.target.profile.clone();
        match &target.present {
            Some(present) => {
                Key { from: Some(present.version.clone()), profile, values: answered(self.request, target) }
            }
            None => {
                let known = self.new.entry(profile.clone());
                let values = known.or_insert_with(|| answered(self.request, target)).clone();
                Key { from: None, profile, values }
            }
        }
    }
}

/// Counts by kind and data, without the ids of deployments.
fn reasons(skipped: impl Iterator<Item = PlannedSkip>) -> (u64, Vec<Reason>) {
    let (mut total, mut found) = (0, BTreeMap::<(String, String), (u64, Vec<String>, SkipReason)>::new());
    for PlannedSkip { device, reason } in skipped {
        total += 1;
        let reason = reason.without_id();
        let key = (reason.kind().to_owned(), reason.data().to_string());
        if found.len() >= REASONS_MAX && !found.contains_key(&key) {
            continue;
        }
        let (count, devices, _) = found.entry(key).or_insert_with(|| (0, Vec::new(), reason));
        *count += 1;
        if devices.len() < NAMED_MAX {
            devices.push(device.device);
        }
    }
    let mut reasons: Vec<Reason> = found
        .into_values()
        .map(|(count, devices, reason)| Reason {
            kind: reason.kind().to_owned(),
            count,
            devices,
            reason: reason.to_string(),
        })
        .collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.count));
    (total, reasons)
}

#[cfg(test)]
mod tests {
    use super::*;
    use margo::ids::DeploymentId;
    use uuid::Uuid;

    #[test]
    fn counts_reasons_without_their_ids() {
        let left = |device: &str, reason: SkipReason| PlannedSkip {
            device: DeviceRef { client: device.to_owned(), device: device.to_owned() },
            reason,
        };
        let taken = |id| SkipReason::AlreadyDeployed { deployment: Some(DeploymentId(Uuid::from_u128(id))) };
        let (total, reasons) =
            reasons([left("a", SkipReason::Unchanged), left("b", taken(1)), left("c", taken(2))].into_iter());
        assert_eq!((total, reasons.len()), (3, 2));
        assert_eq!((reasons[0].count, reasons[0].devices.join(" ")), (2, "b c".to_owned()));
        assert_eq!(reasons[0].reason, "already has it; upgrade or reconfigure that one");
    }

    #[test]
    fn only_counts_reasons_beyond_the_limit() {
        let left = |number: usize| PlannedSkip {
            device: DeviceRef { client: "c".to_owned(), device: number.to_string() },
            reason: SkipReason::OnAnotherVersion { version: number.to_string() },
        };
        let (total, reasons) = reasons((0..REASONS_MAX + 7).map(left));
        assert_eq!((total, reasons.len()), (REASONS_MAX as u64 + 7, REASONS_MAX));
    }
}
