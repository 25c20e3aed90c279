//! One device in words.

use super::deployment::Link;
use super::{SIMULATED, With as _, all_fine, fact};
use margrave_api::explain::{Explanation, Fact};
use margrave_core::convergence::Convergence;
use margrave_core::hold::Announced;
use margrave_core::model::{ClientState, Desired, DeviceKey};
use margrave_core::time::Timestamp;

/// What is known of a device.
#[expect(clippy::struct_excessive_bools, reason = "four independent facts about a device")]
pub(in crate::app::explain) struct Facts<'a> {
    pub(in crate::app::explain) key: &'a DeviceKey,
    pub(in crate::app::explain) client: Link,
    pub(in crate::app::explain) reported_at: Timestamp,
    pub(in crate::app::explain) hosts_workloads: bool,
    /// Its agent only pretends to run workloads.
    pub(in crate::app::explain) simulated: bool,
    /// Its agent has nothing to run workloads with.
    pub(in crate::app::explain) no_runtime: bool,
    /// A technician at the device has stopped changes.
    pub(in crate::app::explain) held: Option<Announced>,
    pub(in crate::app::explain) deployments: Vec<Placed>,
    /// There are more deployments than were looked at.
    pub(in crate::app::explain) more: bool,
}

/// One deployment on it.
pub(in crate::app::explain) struct Placed {
    pub(in crate::app::explain) id: String,
    pub(in crate::app::explain) what: String,
    pub(in crate::app::explain) desired: Desired,
    pub(in crate::app::explain) convergence: Convergence,
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
        known: known(facts),
        waiting_for: waiting_for(facts),
        would_change_it: would_change_it(facts),
    }
}

fn of(facts: &Facts<'_>, is: impl Fn(Convergence) -> bool) -> u64 {
    facts.deployments.iter().filter(|placed| is(placed.convergence)).count() as u64
}

fn summary(facts: &Facts<'_>) -> (&'static str, String) {
    let failed = of(facts, |convergence| convergence == Convergence::Failed);
    let open = of(facts, |convergence| !matches!(convergence, Convergence::Converged | Convergence::Failed));
    let total = facts.deployments.len() as u64;
    let link = facts.client.known();
    let first = |facts: &[Fact]| facts.first().map(|fact| fact.sentence.clone()).unwrap_or_default();
    if facts.client.state != ClientState::Accepted {
        return ("shut-out", first(&link));
    }
    if facts.client.silent {
        return ("silent", format!("{}; {open} deployments wait for it", first(&link)));
    }
    if failed > 0 {
        return ("failing", format!("{failed} of {total} deployments failed"));
    }
    if open > 0 {
        return ("waiting", format!("{open} of {total} deployments are not there yet"));
    }
    match total {
        0 if facts.no_runtime => {
            ("fine", "the device is heard of, and runs no applications: no runtime is switched on".to_owned())
        }
        0 => ("fine", "nothing should run here, and the device is heard of".to_owned()),
        total => ("fine", all_fine(total)),
    }
}

fn desired(facts: &Facts<'_>) -> Vec<Fact> {
    if facts.deployments.is_empty() {
        return vec![fact("nothing", "nothing should run here")];
    }
    let mut desired: Vec<Fact> = facts
        .deployments
        .iter()
        .map(|placed| {
            let (code, verb) = match placed.desired {
                Desired::Present => ("present", "should run here"),
                Desired::Absent => ("absent", "should be gone from here"),
            };
            fact(code, format!("{} {verb}", placed.what)).since(placed.since).about(format!("deployment/{}", placed.id))
        })
        .collect();
    if facts.more {
        desired.push(
            fact("more", "and more than are named here")
                .about(format!("device/{}/{}", facts.key.client, facts.key.device))
                .command(format!("margrave deployment list --device {}", facts.key.device)),
        );
    }
    desired
}

fn known(facts: &Facts<'_>) -> Vec<Fact> {
    let mut known = vec![fact("capabilities", "the device has reported what it can do").since(facts.reported_at)];
    if facts.no_runtime {
        known.push(fact("no-runtime", margrave_core::runtime::NO_RUNTIME));
    } else if !facts.hosts_workloads {
        known.push(fact("hosts-nothing", "by its own report the device hosts no workloads, so nothing fits it"));
    }
    if facts.simulated {
        known.push(fact("simulated", SIMULATED));
    }
    if let Some(Announced { reason, until }) = &facts.held {
        let sentence = format!("a technician at the device holds changes until {until}: {reason}");
        known
            .push(fact("held-by-technician", sentence).value("until", until.as_str()).value("reason", reason.as_str()));
    }
    known.extend(facts.client.known());
    for placed in &facts.deployments {
        let one = fact("deployment", format!("{}: {}", placed.what, placed.sentence));
        known.push(one.about(format!("deployment/{}", placed.id)).value("state", placed.convergence.as_str()));
    }
    known
}

fn waiting_for(facts: &Facts<'_>) -> Vec<Fact> {
    let mut waiting = facts.client.waiting_for();
    if let Some(Announced { until, .. }) = &facts.held {
        waiting.push(fact("technician", format!("the technician's hold, which ends by itself at {until}")));
    }
    let open = facts.deployments.iter();
    for placed in open.filter(|one| !matches!(one.convergence, Convergence::Converged | Convergence::Failed)) {
        let one = fact("deployment", format!("{}: {}", placed.what, placed.sentence));
        waiting.push(one.about(format!("deployment/{}", placed.id)));
    }
    waiting
}

fn would_change_it(facts: &Facts<'_>) -> Vec<Fact> {
    let mut would = facts.client.would_change_it();
    for placed in facts.deployments.iter().filter(|placed| placed.convergence == Convergence::Failed) {
        would.push(
            fact("explain-deployment", format!("removing the cause why {} failed", placed.what))
                .about(format!("deployment/{}", placed.id))
                .command(format!("margrave deployment explain {}", placed.id)),
        );
    }
    if facts.deployments.is_empty() && facts.hosts_workloads {
        would.push(
            fact("deploy", "deploying an application to it")
                .about(format!("device/{}/{}", facts.key.client, facts.key.device))
                .command(format!("margrave deploy APPLICATION --device {}", facts.key.device)),
        );
    }
    if facts.no_runtime {
        let sentence = "`[compose]` or `[kubernetes]` in the settings of its agent, and a restart of the agent; `margrave-agent \
                        status` on the device says which lines";
        would.push(fact("real-runtime", sentence));
    }
    if would.is_empty() {
        would.push(fact("next-poll", "the device's next poll, or a change by an operator"));
    }
    if facts.simulated {
        let sentence = "`[compose]` or `[kubernetes]` in the configuration of its agent makes it run real workloads";
        would.push(fact("real-runtime", sentence));
    }
    would
}

#[cfg(test)]
mod tests;
