//! One deployment in words.

use super::{SIMULATED, With, fact, next_action, second};
use crate::app::explain::sentence;
use crate::app::policies;
use margo::status::{DeploymentStatus, State, StatusError};
use margrave_api::explain::{Explanation, Fact};
use margrave_core::convergence::Convergence;
use margrave_core::hold::Announced;
use margrave_core::model::{ClientState, Deployment, DeploymentRevision, Desired, Reported};
use margrave_core::policy::{OnFailure, Policy};
use margrave_core::time::Timestamp;
use margrave_store::Coming;

/// What is known of a deployment.
pub(in crate::app::explain) struct Facts<'a> {
    pub(in crate::app::explain) deployment: &'a Deployment,
    pub(in crate::app::explain) reported: Option<&'a Reported>,
    /// Since when the device says the same.
    pub(in crate::app::explain) said_since: Option<Timestamp>,
    pub(in crate::app::explain) convergence: Convergence,
    pub(in crate::app::explain) client: Link,
    /// The present revision, while it is kept.
    pub(in crate::app::explain) revision: Option<&'a DeploymentRevision>,
    /// The revision the device says it has.
    pub(in crate::app::explain) adopted_revision: Option<i64>,
    /// The agent of its device only pretends to run workloads.
    pub(in crate::app::explain) simulated: bool,
    /// A technician keeps its device from changes.
    pub(in crate::app::explain) held: Option<Announced>,
    /// Its device is not known any more.
    pub(in crate::app::explain) forgotten: bool,
    /// Changes under way that will reach it.
    pub(in crate::app::explain) coming: &'a [Coming],
}

/// The way to a device: its client, as far as it can be told from here.
#[derive(Debug, Clone)]
pub(in crate::app::explain) struct Link {
    pub(in crate::app::explain) client: String,
    /// The gateway in front of a child device.
    pub(in crate::app::explain) gateway: Option<String>,
    pub(in crate::app::explain) state: ClientState,
    pub(in crate::app::explain) last_seen: Option<Timestamp>,
    pub(in crate::app::explain) silent: bool,
}

impl Link {
    /// Who it is that is heard of or silent.
    fn who(&self) -> String {
        match &self.gateway {
            Some(gateway) => format!("its gateway `{gateway}`"),
            None => "the device".to_owned(),
        }
    }

    pub(super) fn known(&self) -> Vec<Fact> {
        let (who, about) = (self.who(), format!("client/{}", self.client));
        let mut facts = Vec::new();
        match self.state {
            ClientState::Accepted => {}
            ClientState::Pending => {
                facts
                    .push(fact("client-pending", format!("client `{}` is not accepted and gets nothing", self.client)));
            }
            ClientState::Retired => {
                facts.push(fact("client-retired", format!("client `{}` is retired and gets nothing", self.client)));
            }
        }
        facts.push(match self.last_seen {
            None => fact("client-never-seen", format!("{who} has never been heard of")),
            Some(seen) if self.silent => {
                fact("client-silent", format!("{who} has been silent since {}", second(seen))).since(seen)
            }
            Some(seen) => fact("client-heard", format!("{who} was last heard of at {}", second(seen))).since(seen),
        });
        facts.into_iter().map(|fact| fact.about(about.clone())).collect()
    }

    /// Whether anything can come through.
    pub(super) fn waiting_for(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        if self.state != ClientState::Accepted {
            let sentence = format!("an operator who accepts client `{}`", self.client);
            facts.push(fact("acceptance", sentence).about(format!("client/{}", self.client)));
        }
        if self.silent {
            facts.push(fact("contact", format!("{} to call the server", self.who())));
        }
        facts
    }

    pub(super) fn would_change_it(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        if self.state != ClientState::Accepted {
            facts.push(
                fact("accept-client", format!("accepting client `{}` lets it in", self.client))
                    .about(format!("client/{}", self.client))
                    .command(format!("margrave client accept {}", self.client)),
            );
        }
        if self.silent {
            let sentence = format!(
                "power, network or certificate of {}; `margrave-agent explain` on the spot says what it waits for",
                self.who()
            );
            facts.push(fact("check-device", sentence));
        }
        facts
    }
}

pub(in crate::app::explain) fn explain(facts: &Facts<'_>) -> Explanation {
    let Facts { deployment, reported, convergence, client, .. } = facts;
    Explanation {
        subject: format!("deployment/{}", deployment.id),
        state: convergence.as_str().to_owned(),
        summary: sentence(deployment, *reported, (client.state, client.last_seen), *convergence),
        desired: desired(facts),
        known: known(facts),
        waiting_for: waiting_for(facts),
        would_change_it: would_change_it(facts),
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
    let wanted = fact(code, format!("{text}; that is revision {revision}, published with manifest {target_version}"))
        .since(deployment.updated_at)
        .about(format!("change/{}", deployment.change))
        .value("application", application.as_str())
        .value("version", version.as_str())
        .value("revision", *revision)
        .value("manifestVersion", *target_version);
    let by = facts.revision.map(|revision| {
        let why = revision.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        fact("wanted-by", format!("`{}` asked for it{why}", revision.actor))
            .since(revision.at)
            .value("actor", revision.actor.as_str())
    });
    let chosen = Policy { attempt: 0, ..deployment.policy };
    let policy = (!chosen.is_default()).then(|| {
        let Policy { drift, on_failure, on_removal, .. } = chosen;
        let words: Vec<String> = policies::shown(chosen).iter().map(|(when, what)| format!("{when}: {what}")).collect();
        fact("policy", format!("the device does by itself, {}", words.join("; ")))
            .value("drift", drift.as_str())
            .value("onFailure", on_failure.as_str())
            .value("onRemoval", on_removal.as_str())
    });
    [wanted].into_iter().chain(by).chain(policy).collect()
}

fn known(facts: &Facts<'_>) -> Vec<Fact> {
    let mut known = vec![match facts.reported {
        None => fact("no-report", "the device has not said anything about it yet"),
        Some(reported) => last_report(facts, reported),
    }];
    if facts.simulated {
        let Deployment { client, target, .. } = facts.deployment;
        let device = target.device().or_else(|| target.gateway());
        let about = device.map_or_else(|| format!("client/{client}"), |device| format!("device/{client}/{device}"));
        known.push(fact("simulated", SIMULATED).about(about));
    }
    if facts.forgotten {
        let sentence = "its device was forgotten here, and comes back when its client reports it again";
        known.push(fact("device-forgotten", sentence));
    }
    let status = status(facts.reported);
    if let Some(host) = status.as_ref().and_then(|status| status.device_id.as_ref()) {
        known.push(fact("hosted-by", format!("the gateway put it on `{host}`")).value("device", host.as_str()));
    }
    let components = status.iter().flat_map(|status| &status.components);
    for component in components.filter(|component| component.state != settled(facts.deployment)) {
        let mut one = fact("component", format!("component `{}` is `{}`", component.name, component.state.as_str()))
            .value("component", component.name.as_str())
            .value("state", component.state.as_str());
        if let Some(error) = &component.error {
            one = with_error(one, error);
        }
        known.push(one);
    }
    if let Some(error) = status.as_ref().and_then(|status| status.error.as_ref()) {
        let failed = status.as_ref().is_some_and(|status| status.state == State::Failed);
        let what = if failed { "the deployment failed" } else { "the device says about it" };
        known.push(with_error(fact("error", what), error));
    }
    known.extend(before_this_attempt(facts));
    known.extend(facts.client.known());
    known
}

/// What it failed with, while the device is at it again.
fn before_this_attempt(facts: &Facts<'_>) -> Option<Fact> {
    let failed = facts.reported?.tries_again().filter(|_| facts.convergence == Convergence::Failed)?;
    let before = fact("failed-before", "it failed, and the device is trying again now").since(failed.received_at);
    Some(match errors(facts.reported).first() {
        Some(error) => with_error(before, error),
        None => before,
    })
}

fn last_report(facts: &Facts<'_>, reported: &Reported) -> Fact {
    let state = reported.state.as_str();
    let of = match (reported.adopted_version, facts.adopted_revision) {
        (0, _) => " without saying of which manifest".to_owned(),
        (version, Some(revision)) => format!(" of revision {revision} (manifest {version})"),
        (version, None) => format!(" of manifest {version}"),
    };
    fact("last-report", format!("the device says `{state}`{of}"))
        .since(facts.said_since.unwrap_or(reported.received_at))
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
    if facts.convergence == Convergence::Converged {
        return waiting;
    }
    if facts.convergence != Convergence::Failed {
        waiting.extend(facts.client.waiting_for());
    }
    let version = deployment.target_version;
    match facts.convergence {
        Convergence::Converged => {}
        Convergence::Applying => waiting.push(fact("next-report", "the device to finish and report")),
        Convergence::Failed => {
            let next_try = next_try(deployment, facts.held.as_ref());
            let then = if tries_by_itself(deployment) { "" } else { ", then somebody to try again" };
            let sentence = format!("the cause to go away{then}; {next_try}");
            waiting.push(fact("cause-removed", sentence).value("nextTry", next_try));
        }
        Convergence::OlderRevision | Convergence::Waiting | Convergence::NotHeardOf => {
            let sentence = format!("the device to fetch manifest {version} and report about it");
            waiting.push(fact("next-poll", sentence).value("manifestVersion", version));
        }
    }
    waiting
}

/// Rollback without anything to go back to does as the default does.
fn tries_by_itself(deployment: &Deployment) -> bool {
    match deployment.policy.on_failure {
        OnFailure::KeepPartial => true,
        OnFailure::Rollback => deployment.revision == 1,
        OnFailure::Hold => false,
    }
}

/// What the device does about a failure. When it tries next is its own matter and not reported, but for a hold.
fn next_try(deployment: &Deployment, held: Option<&Announced>) -> String {
    match (tries_by_itself(deployment), held, deployment.policy.on_failure) {
        (true, Some(Announced { until, .. }), _) => {
            format!("the device tries again by itself when the technician's hold ends, at {until}")
        }
        (true, None, _) => "the device tries again by itself, after pauses that grow; it does not report when, \
                            `margrave-agent explain` on it tells"
            .to_owned(),
        (false, _, OnFailure::Hold) => "the device has stopped, as its failure policy says".to_owned(),
        (false, ..) => "the device went back to what ran before, as its failure policy says".to_owned(),
    }
}

pub(in crate::app::explain) fn publishing(change: &Coming) -> Fact {
    let Coming { id, kind, version, total, done, created_at } = change;
    let sentence =
        format!("change `{id}` ({} to {version}) to be published: {done} of {total} devices so far", kind.as_str());
    fact("publishing", sentence)
        .since(*created_at)
        .about(format!("change/{id}"))
        .value("done", *done)
        .value("total", *total)
}

fn would_change_it(facts: &Facts<'_>) -> Vec<Fact> {
    let deployment = facts.deployment;
    let id = deployment.id;
    let mut would = Vec::new();
    match facts.convergence {
        Convergence::Converged if deployment.desired == Desired::Absent => {
            let application = &deployment.application;
            would.push(
                fact("deploy-again", "deploying it again brings it back")
                    .about(format!("application/{application}"))
                    .command(format!("margrave deploy {application}")),
            );
            return would;
        }
        Convergence::Converged => {
            // Nothing new reaches a client that is kept out.
            if facts.client.state != ClientState::Accepted {
                would.extend(facts.client.would_change_it());
                return would;
            }
            would.push(fact("new-revision", "another version, other answers or a removal, by an operator"));
            return would;
        }
        Convergence::Failed => {
            for error in errors(facts.reported) {
                let action = next_action(&error.code).unwrap_or("remove the cause that the message names");
                would.push(fact("next-action", action).value("code", error.code.as_str()));
            }
            if deployment.desired == Desired::Present {
                would.push(
                    fact("try-again", "trying again now, once the cause is gone")
                        .about(format!("deployment/{id}"))
                        .command(format!("margrave deployment retry {id}")),
                );
            }
            let sentence = "another revision, which replaces this one; what this one changed may say why";
            would.push(
                fact("new-revision", sentence)
                    .about(format!("deployment/{id}"))
                    .command(format!("margrave deployment diff {id}")),
            );
        }
        Convergence::Applying => {
            let sentence = "the device's next report; `margrave-agent explain` on it says how far it is";
            would.push(fact("next-report", sentence));
        }
        Convergence::OlderRevision | Convergence::Waiting | Convergence::NotHeardOf => {}
    }
    would.extend(facts.client.would_change_it());
    if deployment.desired == Desired::Absent && facts.client.state == ClientState::Retired && !facts.forgotten {
        let sentence =
            "nobody hears of this removal while the client is retired; forget the device if it is gone for good";
        let device = deployment.target.device().or_else(|| deployment.target.gateway());
        let about = device.map(|device| format!("device/{}/{device}", deployment.client));
        would.push(about.into_iter().fold(fact("forget-device", sentence), With::about));
    }
    if would.is_empty() {
        would.push(fact("next-poll", "the device's next poll, which it makes by itself"));
    }
    would
}

/// Each code once, components first: they say more.
fn errors(reported: Option<&Reported>) -> Vec<StatusError> {
    let failed = reported.and_then(Reported::tries_again).map(|failed| &failed.body);
    let status = match failed {
        Some(body) => DeploymentStatus::read(body).ok().map(|read| read.document),
        None => status(reported),
    };
    let Some(status) = status else { return Vec::new() };
    let mut found: Vec<StatusError> = Vec::new();
    for error in status.components.into_iter().filter_map(|component| component.error).chain(status.error) {
        if !found.iter().any(|known| known.code == error.code) {
            found.push(error);
        }
    }
    found
}

fn status(reported: Option<&Reported>) -> Option<DeploymentStatus> {
    DeploymentStatus::read(&reported?.body).ok().map(|read| read.document)
}

/// The state every component should end in.
fn settled(deployment: &Deployment) -> State {
    match deployment.desired {
        Desired::Present => State::Installed,
        Desired::Absent => State::Removed,
    }
}

#[cfg(test)]
mod tests;
