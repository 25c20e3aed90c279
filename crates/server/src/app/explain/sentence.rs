//! One sentence per deployment: its observed state, and what it waits for (ST-06).

use super::words::second;
use margo::status::{DeploymentStatus, State};
use margrave_core::deployment_state::DeploymentState;
use margrave_core::model::{ClientState, Deployment, Desired, Reported};
use margrave_core::time::Timestamp;

pub(crate) fn sentence(
    deployment: &Deployment,
    reported: Option<&Reported>,
    (client, last_seen): (ClientState, Option<Timestamp>),
    deployment_state: DeploymentState,
) -> String {
    let out = match client {
        ClientState::Rejected => "is rejected",
        ClientState::Decommissioned => "is decommissioned",
        ClientState::Pending => "is not accepted",
        ClientState::Accepted => return of_accepted_client(deployment, reported, last_seen, deployment_state),
    };
    // All traffic goes through the client: while it is blocked, being offline explains nothing.
    match deployment_state {
        DeploymentState::Removed => of_accepted_client(deployment, reported, last_seen, deployment_state),
        DeploymentState::UpToDate | DeploymentState::Failed => {
            let state_text = of_accepted_client(deployment, reported, last_seen, deployment_state);
            format!("{state_text}; client `{}` {out} and gets no updates", deployment.client)
        }
        DeploymentState::Updating
        | DeploymentState::Removing
        | DeploymentState::Outdated
        | DeploymentState::Pending
        | DeploymentState::DeviceOffline => {
            let again = if client == ClientState::Decommissioned { "accepted again" } else { "accepted" };
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

/// The same for an accepted client.
fn of_accepted_client(
    deployment: &Deployment,
    reported: Option<&Reported>,
    last_seen: Option<Timestamp>,
    deployment_state: DeploymentState,
) -> String {
    let what = what(deployment);
    match deployment_state {
        DeploymentState::Removed if reported.is_none() => "withdrawn before the device started it".to_owned(),
        DeploymentState::Removed => "removed from the device".to_owned(),
        DeploymentState::UpToDate => format!("{what} is installed"),
        DeploymentState::Updating | DeploymentState::Removing => {
            format!("the device is applying {what}{}", at(reported))
        }
        DeploymentState::Failed if reported.is_some_and(|reported| reported.retried_failure().is_some()) => {
            format!("{what} failed{}; the device is retrying", because(reported))
        }
        DeploymentState::Failed => format!("{what} failed{}", because(reported)),
        DeploymentState::Outdated => older(deployment, reported, &what),
        // A removal that the device has not adopted yet, or that it reports without a version.
        DeploymentState::Pending if deployment.desired == Desired::Absent && !republished(deployment, reported) => {
            match reported {
                Some(_) => older(deployment, reported, &what),
                None => format!("{what} is published; waiting for the device to fetch it and report"),
            }
        }
        DeploymentState::Pending if reported.is_some() => retry_requested(reported, &what),
        DeploymentState::Pending => {
            format!("{what} is published; waiting for the device to fetch it and report")
        }
        DeploymentState::DeviceOffline => match last_seen {
            Some(seen) => format!("the device has been offline since {}; {what} is pending", second(seen)),
            None => format!("the device has never connected; {what} is pending"),
        },
    }
}

fn at(reported: Option<&Reported>) -> String {
    reported.map_or_else(String::new, |reported| format!(" and reports `{}`", reported.state.as_str()))
}

fn because(reported: Option<&Reported>) -> String {
    // A retry in progress has no error yet.
    let body = reported.map(|reported| reported.retried_failure().map_or(&reported.body, |failed| &failed.body));
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

/// The device has this revision, and was asked to report about it again.
fn republished(deployment: &Deployment, reported: Option<&Reported>) -> bool {
    reported
        .is_some_and(|reported| reported.adopted_version != 0 && reported.adopted_version >= deployment.changed_version)
}

fn state_text(reported: Option<&Reported>) -> &'static str {
    reported.map_or("unknown", |reported| reported.state.as_str())
}

fn retry_requested(reported: Option<&Reported>, what: &str) -> String {
    let state = state_text(reported);
    format!("a retry of {what} was requested and the device has not reported yet; its last report was `{state}`")
}

fn older(deployment: &Deployment, reported: Option<&Reported>, what: &str) -> String {
    let adopted = reported.map_or(0, |reported| reported.adopted_version);
    let state = state_text(reported);
    if adopted == 0 {
        return format!(
            "the device reports `{state}` without a manifest version; waiting for a report about version {}",
            deployment.target_version
        );
    }
    if deployment.desired == Desired::Absent {
        return format!(
            "the device still has it (`{state}`); the removal is in manifest {} and is pending",
            deployment.target_version
        );
    }
    // A deployment that never changed has no older revision.
    if deployment.revision == 1 {
        return retry_requested(reported, what);
    }
    format!(
        "the device runs an older revision (manifest {adopted}, `{state}`); {what} is in manifest {} and is pending",
        deployment.target_version
    )
}
