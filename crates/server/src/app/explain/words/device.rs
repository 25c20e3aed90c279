//! One device explained.

use super::deployment::Connectivity;
use super::{SIMULATED, With as _, all_fine, count, fact};
use margrave_api::explain::{Explanation, Fact};
use margrave_core::deployment_state::DeploymentState;
use margrave_core::hold::AnnouncedHold;
use margrave_core::model::{Desired, DeviceKey, DeviceState};
use margrave_core::time::Timestamp;

/// Facts about a device.
#[expect(clippy::struct_excessive_bools, reason = "four independent facts about a device")]
pub(in crate::app::explain) struct Facts<'a> {
    pub(in crate::app::explain) key: &'a DeviceKey,
    pub(in crate::app::explain) client: Connectivity,
    pub(in crate::app::explain) reported_at: Timestamp,
    pub(in crate::app::explain) hosts_workloads: bool,
    /// Its agent simulates workloads.
    pub(in crate::app::explain) simulated: bool,
    /// Its agent has no runtime for workloads.
    pub(in crate::app::explain) no_runtime: bool,
    /// The maintenance hold set by a technician.
    pub(in crate::app::explain) held: Option<AnnouncedHold>,
    pub(in crate::app::explain) deployments: Vec<DeviceDeployment>,
    /// There are more deployments than were read.
    pub(in crate::app::explain) more: bool,
}

/// One deployment on it.
pub(in crate::app::explain) struct DeviceDeployment {
    pub(in crate::app::explain) id: String,
    pub(in crate::app::explain) what: String,
    pub(in crate::app::explain) desired: Desired,
    pub(in crate::app::explain) deployment_state: DeploymentState,
    pub(in crate::app::explain) sentence: String,
    pub(in crate::app::explain) since: Timestamp,
}

pub(in crate::app::explain) fn explain(facts: &Facts<'_>) -> Explanation {
    let name = format!("{}/{}", facts.key.client, facts.key.device);
    let (state, summary) = summary(facts);
    Explanation {
        subject: format!("device/{name}"),
        state: state.to_owned(),
        summary,
        desired: desired(facts),
        observed: observed(facts),
        waiting_for: waiting_for(facts),
        next_steps: next_steps(facts),
    }
}

fn of(facts: &Facts<'_>, is: impl Fn(DeploymentState) -> bool) -> u64 {
    facts.deployments.iter().filter(|placed| is(placed.deployment_state)).count() as u64
}

fn summary(facts: &Facts<'_>) -> (&'static str, String) {
    let failed = of(facts, |deployment_state| deployment_state == DeploymentState::Failed);
    let open = of(facts, |deployment_state| !deployment_state.is_settled());
    let total = facts.deployments.len() as u64;
    let link = facts.client.observed();
    let first = |facts: &[Fact]| facts.first().map(|fact| fact.sentence.clone()).unwrap_or_default();
    let deployments = facts.deployments.iter().map(|placed| (placed.desired, placed.deployment_state));
    let state = DeviceState::of(facts.client.state, facts.client.offline, deployments);
    let sentence = match state {
        DeviceState::Blocked => first(&link),
        // Why it gets no correction of its failures comes first.
        _ if facts.client.offline => format!("{}; {} pending", first(&link), count(open, "deployment")),
        DeviceState::Failed | DeviceState::Degraded => {
            format!("{failed} of {} failed", count(total, "deployment"))
        }
        DeviceState::Offline | DeviceState::Updating => {
            format!("{open} of {} {} pending", count(total, "deployment"), if total == 1 { "is" } else { "are" })
        }
        DeviceState::Online => match total {
            0 if facts.no_runtime => "the device is online and runs no applications: no runtime is enabled".to_owned(),
            0 => "the device is online and nothing is deployed to it".to_owned(),
            total => all_fine(total),
        },
    };
    (state.as_str(), sentence)
}

fn desired(facts: &Facts<'_>) -> Vec<Fact> {
    if facts.deployments.is_empty() {
        return vec![fact("nothing", "nothing is deployed to this device")];
    }
    let mut desired: Vec<Fact> = facts
        .deployments
        .iter()
        .map(|placed| {
            let (code, verb) = match placed.desired {
                Desired::Present => ("present", "should run here"),
                Desired::Absent => ("absent", "should be removed"),
            };
            fact(code, format!("{} {verb}", placed.what)).since(placed.since).about(format!("deployment/{}", placed.id))
        })
        .collect();
    if facts.more {
        desired.push(
            fact("more", "further deployments are not listed")
                .about(format!("device/{}/{}", facts.key.client, facts.key.device))
                .command(format!("margrave deployment list --device {}", facts.key.device)),
        );
    }
    desired
}

fn observed(facts: &Facts<'_>) -> Vec<Fact> {
    let mut observed = vec![fact("capabilities", "the device has reported its capabilities").since(facts.reported_at)];
    if facts.no_runtime {
        observed.push(fact("no-runtime", margrave_core::runtime::NO_RUNTIME));
    } else if !facts.hosts_workloads {
        observed.push(fact(
            "hosts-nothing",
            "the device reports that it hosts no workloads, so no application is compatible",
        ));
    }
    if facts.simulated {
        observed.push(fact("simulated", SIMULATED));
    }
    if let Some(AnnouncedHold { reason, until }) = &facts.held {
        let sentence = format!("a technician has put the device on maintenance hold until {until}: {reason}");
        observed
            .push(fact("maintenance-hold", sentence).value("until", until.as_str()).value("reason", reason.as_str()));
    }
    observed.extend(facts.client.observed());
    for placed in &facts.deployments {
        let one = fact("deployment", format!("{}: {}", placed.what, placed.sentence));
        observed.push(one.about(format!("deployment/{}", placed.id)).value("state", placed.deployment_state.as_str()));
    }
    observed
}

fn waiting_for(facts: &Facts<'_>) -> Vec<Fact> {
    let mut waiting = facts.client.waiting_for();
    if let Some(AnnouncedHold { until, .. }) = &facts.held {
        waiting.push(fact("technician", format!("the maintenance hold to end at {until}")));
    }
    let open = facts.deployments.iter();
    for placed in open.filter(|one| !one.deployment_state.is_settled()) {
        let one = fact("deployment", format!("{}: {}", placed.what, placed.sentence));
        waiting.push(one.about(format!("deployment/{}", placed.id)));
    }
    waiting
}

fn next_steps(facts: &Facts<'_>) -> Vec<Fact> {
    let mut would = facts.client.next_steps();
    for placed in facts.deployments.iter().filter(|placed| placed.deployment_state == DeploymentState::Failed) {
        would.push(
            fact("explain-deployment", format!("fix the cause of the failure of {}", placed.what))
                .about(format!("deployment/{}", placed.id))
                .command(format!("margrave deployment explain {}", placed.id)),
        );
    }
    if facts.deployments.is_empty() && facts.hosts_workloads {
        would.push(
            fact("deploy", "deploy an application to it")
                .about(format!("device/{}/{}", facts.key.client, facts.key.device))
                .command(format!("margrave deploy APPLICATION --device {}", facts.key.device)),
        );
    }
    if facts.no_runtime {
        let sentence = "enable `[compose]` or `[kubernetes]` in the settings of its agent and restart it; `margrave-agent \
                        status` on the device shows which lines";
        would.push(fact("real-runtime", sentence));
    }
    if would.is_empty() {
        would.push(fact("next-poll", "wait for the next poll of the device, or make a change"));
    }
    if facts.simulated {
        let sentence = "enable `[compose]` or `[kubernetes]` in the configuration of its agent to run real workloads";
        would.push(fact("real-runtime", sentence));
    }
    would
}

#[cfg(test)]
mod tests;
