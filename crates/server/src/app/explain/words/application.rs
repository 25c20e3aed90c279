//! One application explained.

use super::deployment::publishing;
use super::{With as _, all_fine, count, fact};
use margrave_api::explain::{Explanation, Fact};
use margrave_core::deployment_state::DeploymentState;
use margrave_core::time::Timestamp;
use margrave_store::UnfinishedRollout;
use std::collections::BTreeMap;

/// Facts about an application.
pub(in crate::app::explain) struct Facts {
    pub(in crate::app::explain) application: String,
    /// Newest import first.
    pub(in crate::app::explain) versions: Vec<(String, Timestamp)>,
    /// Deployments by version.
    pub(in crate::app::explain) deployments: BTreeMap<String, BTreeMap<DeploymentState, u64>>,
    pub(in crate::app::explain) compatibility_counts: CompatibilityCounts,
    pub(in crate::app::explain) coming: Vec<UnfinishedRollout>,
    /// Some of the failed deployments.
    pub(in crate::app::explain) failed: Vec<Failed>,
}

/// A failed deployment.
pub(in crate::app::explain) struct Failed {
    pub(in crate::app::explain) id: String,
    /// Client and device.
    pub(in crate::app::explain) place: String,
    pub(in crate::app::explain) why: String,
}

/// Compatibility of one version.
#[derive(Debug, Clone, Default)]
pub struct CompatibilityCounts {
    /// Devices evaluated.
    pub evaluated: u64,
    /// Devices in total.
    pub devices: u64,
    pub compatible: u64,
    pub incompatible: u64,
    pub unknown: u64,
    /// Devices by deciding rule of the application; a device may count for several.
    pub rules: BTreeMap<String, u64>,
    /// Reasons for incompatibility, most common first.
    pub(in crate::app::explain) reasons: Vec<(String, u64)>,
}

impl Facts {
    fn of(&self, is: impl Fn(DeploymentState) -> bool) -> u64 {
        let counts = self.deployments.values().flatten();
        counts.filter(|(deployment_state, _)| is(**deployment_state)).map(|(_, count)| count).sum()
    }
}

pub(in crate::app::explain) fn explain(facts: &Facts) -> Explanation {
    let (state, summary) = summary(facts);
    Explanation {
        subject: format!("application/{}", facts.application),
        state: state.to_owned(),
        summary,
        desired: desired(facts),
        observed: observed(facts),
        waiting_for: waiting_for(facts),
        next_steps: next_steps(facts),
    }
}

fn summary(facts: &Facts) -> (&'static str, String) {
    let total = facts.of(|_| true);
    let converged = facts.of(|deployment_state| deployment_state == DeploymentState::UpToDate);
    let failed = facts.of(|deployment_state| deployment_state == DeploymentState::Failed);
    if failed > 0 {
        return ("failed", format!("{converged} of {total} deployments are as desired, {failed} failed"));
    }
    if converged < total || !facts.coming.is_empty() {
        return ("updating", format!("{converged} of {total} deployments are as desired"));
    }
    if total > 0 {
        return ("online", all_fine(total));
    }
    if facts.compatibility_counts.compatible == 0 && facts.compatibility_counts.evaluated > 0 {
        return ("blocked", "it runs nowhere, and no checked device can run the newest version".to_owned());
    }
    ("unused", "it is in the catalog and not deployed".to_owned())
}

fn desired(facts: &Facts) -> Vec<Fact> {
    let by_version = facts.deployments.iter().map(|(version, counts)| (version, counts.values().sum::<u64>()));
    let desired: Vec<Fact> = by_version
        .filter(|(_, total)| *total > 0)
        .map(|(version, total)| {
            let sentence = format!("version {version} should have {}", count(total, "deployment"));
            fact("present", sentence).value("version", version.as_str()).value("deployments", total)
        })
        .collect();
    if desired.is_empty() { vec![fact("nothing", "it should not run anywhere")] } else { desired }
}

fn observed(facts: &Facts) -> Vec<Fact> {
    let mut observed = Vec::new();
    if let Some((newest, imported)) = facts.versions.first() {
        let total = facts.versions.len() as u64;
        let sentence = format!("the catalog has {}, the newest is {newest}", count(total, "version"));
        observed.push(
            fact("versions", sentence).since(*imported).value("versions", total).value("newest", newest.as_str()),
        );
    }
    for (version, counts) in &facts.deployments {
        for (deployment_state, number) in counts.iter().filter(|(_, number)| **number > 0) {
            let sentence = format!(
                "version {version}: {} {}",
                count(*number, "deployment"),
                state_word(*deployment_state, *number)
            );
            observed.push(
                fact(deployment_state.as_str(), sentence)
                    .value("version", version.as_str())
                    .value("deployments", *number),
            );
        }
    }
    let CompatibilityCounts { evaluated, devices, compatible, incompatible, unknown, reasons, rules: _ } =
        &facts.compatibility_counts;
    let which = if evaluated < devices {
        format!("of the first {evaluated} of {devices} devices")
    } else {
        format!("of {}", count(*devices, "device"))
    };
    let rest = match unknown {
        0 => format!(" and {incompatible} cannot"),
        unknown => format!(", {incompatible} cannot, unknown for {unknown}"),
    };
    let sentence = match devices {
        0 => "no device has joined yet".to_owned(),
        _ => format!("{which}, {compatible} can run the newest version{rest}"),
    };
    observed.push(
        fact("compatibility", sentence)
            .value("judged", *evaluated)
            .value("devices", *devices)
            .value("compatible", *compatible)
            .value("incompatible", *incompatible)
            .value("unknown", *unknown),
    );
    for (reason, number) in reasons {
        observed.push(
            fact("incompatibility-reason", format!("{}: {reason}", count(*number, "device"))).value("devices", *number),
        );
    }
    observed
}

fn state_word(deployment_state: DeploymentState, number: u64) -> &'static str {
    match (deployment_state, number) {
        (DeploymentState::UpToDate, 1) => "is as desired",
        (DeploymentState::UpToDate, _) => "are as desired",
        (DeploymentState::Updating, 1) => "is being applied",
        (DeploymentState::Updating, _) => "are being applied",
        (DeploymentState::Failed, _) => "failed",
        (DeploymentState::Outdated, 1) => "is on an older revision",
        (DeploymentState::Outdated, _) => "are on an older revision",
        (DeploymentState::Pending, 1) => "waits for its device",
        (DeploymentState::Pending, _) => "wait for their devices",
        (DeploymentState::Removing, 1) => "is being removed",
        (DeploymentState::Removing, _) => "are being removed",
        (DeploymentState::Removed, 1) => "is removed",
        (DeploymentState::Removed, _) => "are removed",
        (DeploymentState::DeviceOffline, 1) => "waits for an offline device",
        (DeploymentState::DeviceOffline, _) => "wait for offline devices",
    }
}

fn waiting_for(facts: &Facts) -> Vec<Fact> {
    let mut waiting: Vec<Fact> = facts.coming.iter().map(publishing).collect();
    let mut note = |code: &str, number: u64, words: &str| {
        if number > 0 {
            waiting.push(fact(code, format!("{} {words}", count(number, "device"))).value("deployments", number));
        }
    };
    let is = |desired: DeploymentState| facts.of(move |deployment_state| deployment_state == desired);
    note("next-report", is(DeploymentState::Updating), "to finish and report");
    note("next-poll", is(DeploymentState::Pending) + is(DeploymentState::Outdated), "to fetch the manifest and report");
    note("contact", is(DeploymentState::DeviceOffline), "to connect to the server");
    note("cause-removed", is(DeploymentState::Failed), "where the cause of a failure has to be fixed");
    waiting
}

fn next_steps(facts: &Facts) -> Vec<Fact> {
    let name = &facts.application;
    let mut would = Vec::new();
    let about = || format!("application/{name}");
    for Failed { id, place, why } in &facts.failed {
        would.push(
            fact("explain-deployment", format!("fix the cause on `{place}`: {why}"))
                .about(format!("deployment/{id}"))
                .command(format!("margrave deployment explain {id}"))
                .value("device", place.as_str()),
        );
    }
    if facts.of(|deployment_state| deployment_state == DeploymentState::DeviceOffline) > 0 {
        would.push(
            fact("list-offline", "bring offline devices back online")
                .about(about())
                .command(format!("margrave deployment list --app {name} --state device-offline")),
        );
    }
    if facts.compatibility_counts.incompatible + facts.compatibility_counts.unknown > 0 {
        would.push(
            fact("show-compatibility", "change the reported labels or capabilities of incompatible devices")
                .about(about())
                .command(format!("margrave app compatibility {name} --reasons")),
        );
    }
    if facts.of(|_| true) == 0 && facts.compatibility_counts.compatible > 0 {
        would.push(fact("deploy", "deploy it to devices").about(about()).command(format!("margrave deploy {name}")));
    }
    if facts.of(|_| true) == 0 && facts.compatibility_counts.devices == 0 {
        would.push(fact("join", "enroll a device that can run it").about(about()));
    }
    if would.is_empty() {
        would.push(fact("operator", "upgrade, reconfigure or remove it"));
    }
    would
}

#[cfg(test)]
mod tests;
