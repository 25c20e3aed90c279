//! One deployment explained.

use super::{SIMULATED, With, fact, next_action, second};
use crate::app::explain::sentence;
use crate::app::policies;
use margo::status::{DeploymentStatus, State, StatusError};
use margrave_api::explain::{Explanation, Fact};
use margrave_core::deployment_state::DeploymentState;
use margrave_core::hold::AnnouncedHold;
use margrave_core::model::{ClientState, Deployment, DeploymentRevision, Desired, Reported};
use margrave_core::policy::{OnFailure, Policy};
use margrave_core::time::Timestamp;
use margrave_store::UnfinishedRollout;

/// Facts about a deployment.
pub(in crate::app::explain) struct Facts<'a> {
    pub(in crate::app::explain) deployment: &'a Deployment,
    pub(in crate::app::explain) reported: Option<&'a Reported>,
    /// Since when the device reports the same.
    pub(in crate::app::explain) reported_since: Option<Timestamp>,
    pub(in crate::app::explain) deployment_state: DeploymentState,
    pub(in crate::app::explain) client: Connectivity,
    /// The current revision, while it is kept.
    pub(in crate::app::explain) revision: Option<&'a DeploymentRevision>,
    /// The revision that the device reports.
    pub(in crate::app::explain) adopted_revision: Option<i64>,
    /// The agent of its device simulates workloads.
    pub(in crate::app::explain) simulated: bool,
    /// The maintenance hold of its device.
    pub(in crate::app::explain) held: Option<AnnouncedHold>,
    /// The record of its device was deleted.
    pub(in crate::app::explain) forgotten: bool,
    /// Rollouts in progress that will update it.
    pub(in crate::app::explain) coming: &'a [UnfinishedRollout],
}

/// Connectivity of a device: its client, as far as the server knows.
#[derive(Debug, Clone)]
pub(in crate::app::explain) struct Connectivity {
    pub(in crate::app::explain) client: String,
    /// The gateway in front of a child device.
    pub(in crate::app::explain) gateway: Option<String>,
    pub(in crate::app::explain) state: ClientState,
    pub(in crate::app::explain) last_seen: Option<Timestamp>,
    pub(in crate::app::explain) offline: bool,
}

impl Connectivity {
    /// The subject of connectivity sentences.
    fn who(&self) -> String {
        match &self.gateway {
            Some(gateway) => format!("its gateway `{gateway}`"),
            None => "the device".to_owned(),
        }
    }

    pub(super) fn observed(&self) -> Vec<Fact> {
        let (who, about) = (self.who(), format!("client/{}", self.client));
        let mut facts = Vec::new();
        match self.state {
            ClientState::Accepted => {}
            ClientState::Pending => {
                facts
                    .push(fact("client-pending", format!("client `{}` is not accepted and gets nothing", self.client)));
            }
            ClientState::Rejected => {
                facts.push(fact("client-rejected", format!("client `{}` is rejected and gets nothing", self.client)));
            }
            ClientState::Decommissioned => {
                facts.push(fact(
                    "client-decommissioned",
                    format!("client `{}` is decommissioned and gets nothing", self.client),
                ));
            }
        }
        facts.push(match self.last_seen {
            None => fact("client-never-seen", format!("{who} has never connected")),
            Some(seen) if self.offline => {
                fact("client-offline", format!("{who} has been offline since {}", second(seen))).since(seen)
            }
            Some(seen) => fact("client-last-seen", format!("{who} was last seen at {}", second(seen))).since(seen),
        });
        facts.into_iter().map(|fact| fact.about(about.clone())).collect()
    }

    /// What is missing for a connection.
    pub(super) fn waiting_for(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        if self.state != ClientState::Accepted {
            let sentence = format!("an operator to accept client `{}`", self.client);
            facts.push(fact("acceptance", sentence).about(format!("client/{}", self.client)));
        }
        if self.offline {
            facts.push(fact("contact", format!("{} to connect to the server", self.who())));
        }
        facts
    }

    pub(super) fn next_steps(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        if self.state != ClientState::Accepted {
            facts.push(
                fact("accept-client", format!("accept client `{}`", self.client))
                    .about(format!("client/{}", self.client))
                    .command(format!("margrave client accept {}", self.client)),
            );
        }
        if self.offline {
            let sentence = format!(
                "check power, network and certificate of {}; run `margrave-agent explain` on the device",
                self.who()
            );
            facts.push(fact("check-device", sentence));
        }
        facts
    }
}

pub(in crate::app::explain) fn explain(facts: &Facts<'_>) -> Explanation {
    let Facts { deployment, reported, deployment_state, client, .. } = facts;
    Explanation {
        subject: format!("deployment/{}", deployment.id),
        state: deployment_state.as_str().to_owned(),
        summary: sentence(deployment, *reported, (client.state, client.last_seen), *deployment_state),
        desired: desired(facts),
        observed: observed(facts),
        waiting_for: waiting_for(facts),
        next_steps: next_steps(facts),
    }
}

fn desired(facts: &Facts<'_>) -> Vec<Fact> {
    let deployment = facts.deployment;
    let Deployment { application, version, profile, revision, target_version, .. } = deployment;
    let place = format!("{}/{}", deployment.client, deployment.target);
    let (code, text) = match deployment.desired {
        Desired::Present => {
            ("present", format!("`{application}` {version} with profile `{profile}` should run on `{place}`"))
        }
        Desired::Absent => ("absent", format!("`{application}` should not be on `{place}`")),
    };
    let desired = fact(code, format!("{text}; that is revision {revision}, published with manifest {target_version}"))
        .since(deployment.updated_at)
        .about(format!("rollout/{}", deployment.rollout))
        .value("application", application.as_str())
        .value("version", version.as_str())
        .value("revision", *revision)
        .value("manifestVersion", *target_version);
    let by = facts.revision.map(|revision| {
        let why = revision.comment.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        fact("requested-by", format!("`{}` requested it{why}", revision.actor))
            .since(revision.at)
            .value("actor", revision.actor.as_str())
    });
    let chosen = Policy { attempt: 0, ..deployment.policy };
    let policy = (!chosen.is_default()).then(|| {
        let Policy { drift, on_failure, on_removal, .. } = chosen;
        let words: Vec<String> = policies::shown(chosen).iter().map(|(when, what)| format!("{when}: {what}")).collect();
        fact("policy", format!("policies: {}", words.join("; ")))
            .value("drift", drift.as_str())
            .value("onFailure", on_failure.as_str())
            .value("onRemoval", on_removal.as_str())
    });
    [desired].into_iter().chain(by).chain(policy).collect()
}

fn observed(facts: &Facts<'_>) -> Vec<Fact> {
    let mut observed = vec![match facts.reported {
        None => fact("no-report", "the device has not reported on it yet"),
        Some(reported) => last_report(facts, reported),
    }];
    if facts.simulated {
        let Deployment { client, target, .. } = facts.deployment;
        let device = target.device().or_else(|| target.gateway());
        let about = device.map_or_else(|| format!("client/{client}"), |device| format!("device/{client}/{device}"));
        observed.push(fact("simulated", SIMULATED).about(about));
    }
    if facts.forgotten {
        let sentence = "the record of its device was deleted; it reappears when its client reports the device again";
        observed.push(fact("device-record-deleted", sentence));
    }
    let status = status(facts.reported);
    if let Some(host) = status.as_ref().and_then(|status| status.device_id.as_ref()) {
        observed.push(fact("hosted-by", format!("the gateway placed it on `{host}`")).value("device", host.as_str()));
    }
    let components = status.iter().flat_map(|status| &status.components);
    for component in components.filter(|component| component.state != settled(facts.deployment)) {
        let mut one = fact("component", format!("component `{}` is `{}`", component.name, component.state.as_str()))
            .value("component", component.name.as_str())
            .value("state", component.state.as_str());
        if let Some(error) = &component.error {
            one = with_error(one, error);
        }
        observed.push(one);
    }
    if let Some(error) = status.as_ref().and_then(|status| status.error.as_ref()) {
        let failed = status.as_ref().is_some_and(|status| status.state == State::Failed);
        let what = if failed { "the deployment failed" } else { "the device reports" };
        observed.push(with_error(fact("error", what), error));
    }
    observed.extend(before_this_attempt(facts));
    observed.extend(facts.client.observed());
    observed
}

/// The error of the last failure, while the device retries.
fn before_this_attempt(facts: &Facts<'_>) -> Option<Fact> {
    let failed = facts.reported?.retried_failure().filter(|_| facts.deployment_state == DeploymentState::Failed)?;
    let before = fact("failed-before", "it failed, and the device is retrying").since(failed.received_at);
    Some(match errors(facts.reported).first() {
        Some(error) => with_error(before, error),
        None => before,
    })
}

fn last_report(facts: &Facts<'_>, reported: &Reported) -> Fact {
    let state = reported.state.as_str();
    let of = match (reported.adopted_version, facts.adopted_revision) {
        (0, _) => " without a manifest version".to_owned(),
        (version, Some(revision)) => format!(" for revision {revision} (manifest {version})"),
        (version, None) => format!(" for manifest {version}"),
    };
    fact("last-report", format!("the device reports `{state}`{of}"))
        .since(facts.reported_since.unwrap_or(reported.received_at))
        .value("state", state)
        .value("adoptedVersion", reported.adopted_version)
        .value("receivedAt", reported.received_at.to_string())
}

fn with_error(mut fact: Fact, error: &StatusError) -> Fact {
    fact.sentence = format!("{}: {} (code {} from `{}`)", fact.sentence, error.message, error.code, error.source);
    fact.value("code", error.code.as_str()).value("source", error.source.as_str())
}

fn waiting_for(facts: &Facts<'_>) -> Vec<Fact> {
    let deployment = facts.deployment;
    let mut waiting: Vec<Fact> = facts.coming.iter().map(publishing).collect();
    if facts.deployment_state.is_done() {
        return waiting;
    }
    if facts.deployment_state != DeploymentState::Failed {
        waiting.extend(facts.client.waiting_for());
    }
    let version = deployment.target_version;
    match facts.deployment_state {
        DeploymentState::UpToDate | DeploymentState::Removed => {}
        DeploymentState::Updating | DeploymentState::Removing => {
            waiting.push(fact("next-report", "the device to finish and report"));
        }
        DeploymentState::Failed => {
            let next_try = next_try(deployment, facts.held.as_ref());
            let then = if retries_automatically(deployment) { "" } else { ", then a retry by an operator" };
            let sentence = format!("the cause to be fixed{then}; {next_try}");
            waiting.push(fact("cause-removed", sentence).value("nextTry", next_try));
        }
        DeploymentState::Outdated | DeploymentState::Pending | DeploymentState::DeviceOffline => {
            let sentence = format!("the device to fetch manifest {version} and report about it");
            waiting.push(fact("next-poll", sentence).value("manifestVersion", version));
        }
    }
    waiting
}

/// Rollback without a previous revision behaves like the default.
fn retries_automatically(deployment: &Deployment) -> bool {
    match deployment.policy.on_failure {
        OnFailure::KeepPartial => true,
        OnFailure::Rollback => deployment.revision == 1,
        OnFailure::Stop => false,
    }
}

/// What the device does about a failure. It does not report the time of the next retry, except for a maintenance hold.
fn next_try(deployment: &Deployment, held: Option<&AnnouncedHold>) -> String {
    match (retries_automatically(deployment), held, deployment.policy.on_failure) {
        (true, Some(AnnouncedHold { until, .. }), _) => {
            format!("the device retries when the maintenance hold ends, at {until}")
        }
        (true, None, _) => "the device retries with back-off; run \
                            `margrave-agent explain` on the device to see when"
            .to_owned(),
        (false, _, OnFailure::Stop) => "the device has stopped, according to its failure policy".to_owned(),
        (false, ..) => "the device rolled back, according to its failure policy".to_owned(),
    }
}

pub(in crate::app::explain) fn publishing(rollout: &UnfinishedRollout) -> Fact {
    let UnfinishedRollout { id, kind, version, total, done, created_at } = rollout;
    let sentence =
        format!("rollout `{id}` ({} to {version}) to be published: {done} of {total} devices so far", kind.as_str());
    fact("publishing", sentence)
        .since(*created_at)
        .about(format!("rollout/{id}"))
        .value("done", *done)
        .value("total", *total)
}

fn next_steps(facts: &Facts<'_>) -> Vec<Fact> {
    let deployment = facts.deployment;
    let id = deployment.id;
    let mut would = Vec::new();
    match facts.deployment_state {
        DeploymentState::Removed => {
            let application = &deployment.application;
            would.push(
                fact("deploy-again", "deploy it again")
                    .about(format!("application/{application}"))
                    .command(format!("margrave deploy {application}")),
            );
            return would;
        }
        DeploymentState::UpToDate => {
            // A blocked client gets nothing new.
            if facts.client.state != ClientState::Accepted {
                would.extend(facts.client.next_steps());
                return would;
            }
            would.push(fact("new-revision", "upgrade, reconfigure or remove it"));
            return would;
        }
        DeploymentState::Failed => {
            for error in errors(facts.reported) {
                let action = next_action(&error.code).unwrap_or("fix the cause named in the message");
                would.push(fact("next-action", action).value("code", error.code.as_str()));
            }
            if deployment.desired == Desired::Present {
                would.push(
                    fact("retry", "retry once the cause is fixed")
                        .about(format!("deployment/{id}"))
                        .command(format!("margrave deployment retry {id}")),
                );
            }
            let sentence = "replace it with another revision; the diff of this one may show the cause";
            would.push(
                fact("new-revision", sentence)
                    .about(format!("deployment/{id}"))
                    .command(format!("margrave deployment diff {id}")),
            );
        }
        DeploymentState::Updating | DeploymentState::Removing => {
            let sentence =
                "wait for the next report of the device; `margrave-agent explain` on the device shows its progress";
            would.push(fact("next-report", sentence));
        }
        DeploymentState::Outdated | DeploymentState::Pending | DeploymentState::DeviceOffline => {}
    }
    would.extend(facts.client.next_steps());
    if deployment.desired == Desired::Absent && facts.client.state.is_excluded() && !facts.forgotten {
        let sentence = "the removal is not delivered while the client is blocked; \
                        delete the device record if the device is gone for good";
        let device = deployment.target.device().or_else(|| deployment.target.gateway());
        let about = device.map(|device| format!("device/{}/{device}", deployment.client));
        would.push(about.into_iter().fold(fact("delete-device-record", sentence), With::about));
    }
    if would.is_empty() {
        would.push(fact("next-poll", "wait for the next poll of the device"));
    }
    would
}

/// Each code once, components first: they are more specific.
fn errors(reported: Option<&Reported>) -> Vec<StatusError> {
    let failed = reported.and_then(Reported::retried_failure).map(|failed| &failed.body);
    let status = match failed {
        Some(body) => DeploymentStatus::read(body).ok().map(|read| read.document),
        None => status(reported),
    };
    let Some(status) = status else { return Vec::new() };
    let mut found: Vec<StatusError> = Vec::new();
    for error in status.components.into_iter().filter_map(|component| component.error).chain(status.error) {
        if !found.iter().any(|observed| observed.code == error.code) {
            found.push(error);
        }
    }
    found
}

fn status(reported: Option<&Reported>) -> Option<DeploymentStatus> {
    DeploymentStatus::read(&reported?.body).ok().map(|read| read.document)
}

/// The desired state of every component.
fn settled(deployment: &Deployment) -> State {
    match deployment.desired {
        Desired::Present => State::Installed,
        Desired::Absent => State::Removed,
    }
}

#[cfg(test)]
mod tests;
