//! What a change comes to, as one looks at it before: devices that change alike together, counted exactly, with one difference
//! each. Nothing is read twice for devices that are the same to begin with, so a whole fleet is a matter of counting.

use super::answered::{Answered, answered};
use super::plan::{PlannedTarget, Request};
use super::show::difference;
use crate::app::error::AppResult;
use crate::app::turns::Turns;
use crate::state::ServerState;
use margo::parameters::Answers;
use margrave_api::changes::{DiffLine, LeftOut};
use margrave_api::devices::DeviceRef;
use margrave_core::policy::Policy;
use std::collections::{BTreeMap, HashSet};

/// Kinds of change shown with their difference; each costs a document read and compared.
const DIFFS_MAX: usize = 20;
/// Devices named with each kind of change, and with each reason.
const NAMED_MAX: usize = 12;
/// Different reasons for leaving a device out that are kept apart.
const REASONS_MAX: usize = 50;

/// What one change would do.
#[derive(Debug, Clone, Default)]
pub struct Review {
    pub targets: u64,
    /// Of those, the ones not heard of for a while: they get it when they call.
    pub silent: u64,
    /// The largest first.
    pub alike: Vec<Alike>,
    /// Devices that change in one of the ways that are not shown.
    pub otherwise: u64,
    pub left_out: u64,
    /// The commonest reason first; what is beyond them is only counted.
    pub reasons: Vec<Reason>,
}

/// Devices whose documents change in the same way.
#[derive(Debug, Clone)]
pub struct Alike {
    pub count: u64,
    /// The first of them.
    pub devices: Vec<String>,
    pub profile: String,
    /// Version they are on now.
    pub from: Option<String>,
    /// What becomes of the answers of the first of them, for people.
    pub answers: Vec<Answered>,
    /// Of the first of them.
    pub diff: Vec<DiffLine>,
}

/// Devices left out for the same reason.
#[derive(Debug, Clone)]
pub struct Reason {
    pub count: u64,
    pub devices: Vec<String>,
    pub reason: String,
}

/// Plans it whole and counts; nothing is recorded. Devices in `except` have a change of their own.
pub(crate) async fn review(state: &ServerState, request: &Request, except: &HashSet<DeviceRef>) -> AppResult<Review> {
    let planned = super::plan(state, request).await?;
    let mut turns = Turns::begin();
    let mut silent = 0;
    let mut groups: BTreeMap<Key, (u64, Vec<String>, PlannedTarget)> = BTreeMap::new();
    for target in planned.targets {
        turns.next().await;
        let device = target.target.target.to_string();
        let client = target.target.client.to_string();
        if except.contains(&DeviceRef { client, device: device.clone() }) {
            continue;
        }
        silent += u64::from(target.silent);
        let group = groups.entry(Key::of(&target)).or_insert_with(|| (0, Vec::new(), target));
        group.0 += 1;
        if group.1.len() < NAMED_MAX {
            group.1.push(device);
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|(count, ..)| std::cmp::Reverse(*count));
    let targets = groups.iter().map(|(count, ..)| count).sum();
    let otherwise = groups.iter().skip(DIFFS_MAX).map(|(count, ..)| count).sum();
    let mut alike = Vec::new();
    for (count, devices, target) in groups.into_iter().take(DIFFS_MAX) {
        let diff = difference(state, request, &target).await?;
        let answers = answered(request, &target);
        let from = target.present.map(|present| present.version);
        alike.push(Alike { count, devices, profile: target.target.profile, from, answers, diff });
    }
    let left_out = planned.left_out.into_iter().filter(|left| !except.contains(&left.device));
    let (left_out, reasons) = reasons(left_out);
    Ok(Review { targets, silent, alike, otherwise, left_out, reasons })
}

/// What decides how a document changes, whatever the device is called.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    profile: String,
    before: Option<(String, String, String, String)>,
}

impl Key {
    fn of(planned: &PlannedTarget) -> Self {
        let text = |values: &Answers| serde_json::to_string(values).unwrap_or_default();
        let policy = |policy: Policy| margrave_core::policy::Wish::from(policy).to_text();
        let before = planned.present.as_ref().map(|present| {
            (present.version.clone(), present.profile.clone(), text(&present.values), policy(present.policy))
        });
        Self { profile: planned.target.profile.clone(), before }
    }
}

fn reasons(left_out: impl Iterator<Item = LeftOut>) -> (u64, Vec<Reason>) {
    let (mut total, mut found) = (0, BTreeMap::<String, (u64, Vec<String>)>::new());
    for LeftOut { device, reason } in left_out {
        total += 1;
        let reason = without_id(&reason);
        if found.len() >= REASONS_MAX && !found.contains_key(&reason) {
            continue;
        }
        let (count, devices) = found.entry(reason).or_default();
        *count += 1;
        if devices.len() < NAMED_MAX {
            devices.push(device.device);
        }
    }
    let mut reasons: Vec<Reason> =
        found.into_iter().map(|(reason, (count, devices))| Reason { count, devices, reason }).collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.count));
    (total, reasons)
}

/// The id of a deployment tells people nothing and makes every reason a different one.
fn without_id(reason: &str) -> String {
    match reason.split_once(", as deployment ") {
        Some((before, rest)) => {
            let after = rest.find(';').map_or("", |end| &rest[end..]);
            format!("{before}{after}")
        }
        None => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_without_the_ids_in_them() {
        let left = |device: &str, reason: &str| LeftOut {
            device: DeviceRef { client: device.to_owned(), device: device.to_owned() },
            reason: reason.to_owned(),
        };
        let (total, reasons) = reasons(
            [
                left("a", "nothing would change"),
                left("b", "has it already, as deployment 1-2; upgrade or reconfigure that one"),
                left("c", "has it already, as deployment 3-4; upgrade or reconfigure that one"),
            ]
            .into_iter(),
        );
        assert_eq!((total, reasons.len()), (3, 2));
        assert_eq!((reasons[0].count, reasons[0].devices.join(" ")), (2, "b c".to_owned()));
        assert_eq!(reasons[0].reason, "has it already; upgrade or reconfigure that one");
    }

    #[test]
    fn of_many_reasons_the_rest_is_only_counted() {
        let left = |number: usize| LeftOut {
            device: DeviceRef { client: "c".to_owned(), device: number.to_string() },
            reason: format!("reason {number}"),
        };
        let (total, reasons) = reasons((0..REASONS_MAX + 7).map(left));
        assert_eq!((total, reasons.len()), (REASONS_MAX as u64 + 7, REASONS_MAX));
    }
}
