//! One sentence per deployment: what is known, and what is waited for (ST-06).

use super::words::second;
use margo::status::{DeploymentStatus, State};
use margrave_core::convergence::Convergence;
use margrave_core::model::{ClientState, Deployment, Desired, Reported};
use margrave_core::time::Timestamp;

pub(crate) fn sentence(
    deployment: &Deployment,
    reported: Option<&Reported>,
    (client, last_seen): (ClientState, Option<Timestamp>),
    convergence: Convergence,
) -> String {
    let gone = deployment.desired == Desired::Absent && convergence == Convergence::Converged;
    let out = match client {
        ClientState::Retired => "is retired",
        ClientState::Pending => "is not accepted",
        ClientState::Accepted => return let_in(deployment, reported, last_seen, convergence),
    };
    // What comes and goes comes and goes through the client: while it is kept out, silence explains nothing.
    match convergence {
        Convergence::Converged if gone => let_in(deployment, reported, last_seen, convergence),
        Convergence::Converged | Convergence::Failed => {
            let said = let_in(deployment, reported, last_seen, convergence);
            format!("{said}; client `{}` {out} and gets no changes", deployment.client)
        }
        Convergence::Applying | Convergence::OlderRevision | Convergence::Waiting | Convergence::NotHeardOf => {
            let again = if client == ClientState::Retired { "accepted again" } else { "accepted" };
            let what = what(deployment);
            format!("client `{}` {out} and gets nothing; {what} waits until it is {again}", deployment.client)
        }
    }
}

fn what(deployment: &Deployment) -> String {
    match deployment.desired {
        Desired::Present => format!("revision {} ({})", deployment.revision, deployment.version),
        Desired::Absent => "the removal".to_owned(),
    }
}

/// The same where nobody is in the way.
fn let_in(
    deployment: &Deployment,
    reported: Option<&Reported>,
    last_seen: Option<Timestamp>,
    convergence: Convergence,
) -> String {
    let what = what(deployment);
    match convergence {
        Convergence::Converged if deployment.desired == Desired::Absent && reported.is_none() => {
            "taken back before the device had begun it".to_owned()
        }
        Convergence::Converged if deployment.desired == Desired::Absent => "removed from the device".to_owned(),
        Convergence::Converged => format!("{what} is installed"),
        Convergence::Applying => format!("the device is applying {what}{}", at(reported)),
        Convergence::Failed if reported.is_some_and(|reported| reported.tries_again().is_some()) => {
            format!("{what} failed{}; the device is trying again now", because(reported))
        }
        Convergence::Failed => format!("{what} failed{}", because(reported)),
        Convergence::OlderRevision => older(deployment, reported, &what),
        Convergence::Waiting if reported.is_some() => told_again(reported, &what),
        Convergence::Waiting => {
            format!("{what} is published; waiting for the device to fetch it and report")
        }
        Convergence::NotHeardOf => match last_seen {
            Some(seen) => format!("the device has not been heard of since {}; {what} waits for it", second(seen)),
            None => format!("the device has never been heard of; {what} waits for it"),
        },
    }
}

fn at(reported: Option<&Reported>) -> String {
    reported.map_or_else(String::new, |reported| format!(" and says `{}`", reported.state.as_str()))
}

fn because(reported: Option<&Reported>) -> String {
    // Of an attempt that is under way nothing is wrong yet.
    let body = reported.map(|reported| reported.tries_again().map_or(&reported.body, |failed| &failed.body));
    let Some(status) = body.and_then(|body| DeploymentStatus::read(body).ok()) else {
        return String::new();
    };
    let status = status.document;
    let component = status.components.iter().find(|component| component.state == State::Failed);
    let error = component.and_then(|component| component.error.as_ref()).or(status.error.as_ref());
    let place = component.map_or_else(String::new, |component| format!(" in component `{}`", component.name));
    match error {
        Some(error) => format!("{place}: {} ({})", error.message, error.code),
        None => place,
    }
}

fn said(reported: Option<&Reported>) -> &'static str {
    reported.map_or("unknown", |reported| reported.state.as_str())
}

fn told_again(reported: Option<&Reported>, what: &str) -> String {
    let state = said(reported);
    format!("the device was told {what} once more and has not answered yet; before, it said `{state}`")
}

fn older(deployment: &Deployment, reported: Option<&Reported>, what: &str) -> String {
    let adopted = reported.map_or(0, |reported| reported.adopted_version);
    let state = said(reported);
    if adopted == 0 {
        return format!(
            "the device says `{state}` without saying of which manifest; waiting for a report about version {}",
            deployment.target_version
        );
    }
    if deployment.desired == Desired::Absent {
        return format!(
            "the device still has it (`{state}`); the removal is in manifest {} and waits for the device",
            deployment.target_version
        );
    }
    // What was never changed has no older revision.
    if deployment.revision == 1 {
        return told_again(reported, what);
    }
    format!(
        "the device is on an older revision (manifest {adopted}, `{state}`); {what} is in manifest {} and waits for it",
        deployment.target_version
    )
}
