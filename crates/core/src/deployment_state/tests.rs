use super::{DeploymentState, LastReport, state_from_last_report, state_of};
use crate::model::{Deployment, Desired, Failed, Reported};
use crate::time::Timestamp;
use margo::digest::Digest;
use margo::ids::DeploymentId;
use margo::parameters::ParameterValues;
use margo::status::State;
use uuid::Uuid;

const OFFLINE_BEFORE: Timestamp = Timestamp(1_000);
const ONLINE: Option<Timestamp> = Some(Timestamp(1_000));
const OFFLINE: Option<Timestamp> = Some(Timestamp(999));

fn deployment(desired: Desired) -> Deployment {
    Deployment {
        id: DeploymentId(Uuid::from_u128(1)),
        client: "press-07".parse().unwrap(),
        target: "press-07".parse().unwrap(),
        application: "digitron".parse().unwrap(),
        version: "1.0.0".into(),
        profile: "helm".into(),
        values: ParameterValues::new(),
        sensitive: false,
        policy: crate::policy::Policy::default(),
        revision: 1,
        desired,
        yaml_digest: Digest::of(b""),
        changed_version: 5,
        target_version: 5,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        rollout: Uuid::from_u128(2),
    }
}

/// As the store keeps it without earlier reports.
fn failed(state: State, adopted_version: u64) -> Option<Failed> {
    let counts = state == State::Failed && adopted_version != 0;
    counts.then(|| Failed {
        adopted_version,
        body: vec![],
        received_at: Timestamp(0),
        since: Timestamp(0),
        attempts: 1,
    })
}

fn check(desired: Desired, report: Option<(State, u64)>, last_seen: Option<Timestamp>, expected: DeploymentState) {
    let reported = report.map(|(state, adopted_version)| Reported {
        state,
        adopted_version,
        body: vec![],
        received_at: Timestamp(0),
        failed: failed(state, adopted_version),
    });
    let actual = state_of(&deployment(desired), reported.as_ref(), last_seen, OFFLINE_BEFORE);
    assert_eq!(actual, expected, "{desired:?} {report:?} {last_seen:?}");
}

// ST-06
#[test]
fn distinguishes_states_on_the_target_version() {
    for version in [5, 6, u64::MAX] {
        check(Desired::Present, Some((State::Installed, version)), ONLINE, DeploymentState::UpToDate);
        check(Desired::Present, Some((State::Installing, version)), ONLINE, DeploymentState::Updating);
        check(Desired::Present, Some((State::Pending, version)), ONLINE, DeploymentState::Updating);
        check(Desired::Present, Some((State::Failed, version)), ONLINE, DeploymentState::Failed);
        check(Desired::Present, Some((State::Removed, version)), ONLINE, DeploymentState::Updating);
    }
}

// ST-06
#[test]
fn reports_versions_below_the_target_as_outdated() {
    for state in State::ALL {
        check(Desired::Present, Some((state, 4)), ONLINE, DeploymentState::Outdated);
    }
}

// ST-06
#[test]
fn is_pending_after_a_republish_of_the_same_revision() {
    for (desired, changed_version, expected) in [
        (Desired::Present, 3, DeploymentState::Pending),
        (Desired::Present, 4, DeploymentState::Pending),
        (Desired::Present, 5, DeploymentState::Outdated),
        (Desired::Absent, 4, DeploymentState::Pending),
    ] {
        let republished = Deployment { changed_version, ..deployment(desired) };
        let word =
            |adopted_version, failed_version| LastReport { state: State::Failed, adopted_version, failed_version };
        assert_eq!(
            state_from_last_report(&republished, Some(word(4, Some(4)))),
            expected,
            "{desired:?} {changed_version}"
        );
        assert_eq!(
            state_from_last_report(&republished, Some(word(0, None))),
            if desired == Desired::Absent { DeploymentState::Pending } else { DeploymentState::Outdated },
            "version 0 is unknown"
        );
    }
}

#[test]
fn stays_failed_while_retrying_until_success_or_a_new_revision() {
    let word = |state, failed_version| Some(LastReport { state, adopted_version: 5, failed_version });
    let present = deployment(Desired::Present);
    for state in [State::Pending, State::Installing, State::Failed] {
        assert_eq!(state_from_last_report(&present, word(state, Some(5))), DeploymentState::Failed, "{state:?}");
        assert_eq!(
            state_from_last_report(&deployment(Desired::Absent), word(state, Some(5))),
            DeploymentState::Failed,
            "{state:?}"
        );
    }
    assert_eq!(state_from_last_report(&present, word(State::Installed, None)), DeploymentState::UpToDate);
    assert_eq!(
        state_from_last_report(&present, word(State::Installing, Some(4))),
        DeploymentState::Updating,
        "it failed with another revision"
    );
    let again = Deployment { target_version: 6, ..deployment(Desired::Present) };
    assert_eq!(
        state_from_last_report(&again, word(State::Installing, Some(5))),
        DeploymentState::Pending,
        "an operator requested a retry"
    );
}

// W-12
#[test]
fn never_treats_version_zero_as_up_to_date() {
    for state in State::ALL {
        check(Desired::Present, Some((state, 0)), ONLINE, DeploymentState::Outdated);
        check(Desired::Absent, Some((state, 0)), ONLINE, DeploymentState::Pending);
    }
}

// ST-11, ST-12
#[test]
fn accepts_a_removal_report_of_any_known_version() {
    check(Desired::Absent, Some((State::Removed, 5)), ONLINE, DeploymentState::Removed);
    check(Desired::Absent, Some((State::Removed, 3)), ONLINE, DeploymentState::Removed);
    check(Desired::Absent, Some((State::Removing, 5)), ONLINE, DeploymentState::Removing);
    check(Desired::Absent, Some((State::Failed, 5)), ONLINE, DeploymentState::Failed);
    check(Desired::Absent, Some((State::Installed, 4)), ONLINE, DeploymentState::Pending);
    check(Desired::Absent, Some((State::Installed, 5)), ONLINE, DeploymentState::Removing);
}

#[test]
fn is_pending_for_an_online_client_and_device_offline_otherwise() {
    check(Desired::Present, None, ONLINE, DeploymentState::Pending);
    check(Desired::Present, None, OFFLINE, DeploymentState::DeviceOffline);
    check(Desired::Present, None, None, DeploymentState::DeviceOffline);
    check(Desired::Present, Some((State::Installing, 5)), OFFLINE, DeploymentState::DeviceOffline);
    check(Desired::Present, Some((State::Installed, 4)), OFFLINE, DeploymentState::DeviceOffline);
}

#[test]
fn treats_a_removal_before_installation_as_done_after_the_next_contact() {
    check(Desired::Absent, None, ONLINE, DeploymentState::Removed);
    check(Desired::Absent, None, OFFLINE, DeploymentState::Removed);
    check(Desired::Absent, None, Some(Timestamp(0)), DeploymentState::DeviceOffline);
    check(Desired::Absent, None, None, DeploymentState::DeviceOffline);
    let later = Deployment { updated_at: Timestamp(1_000), ..deployment(Desired::Absent) };
    assert_eq!(
        state_of(&later, None, ONLINE, OFFLINE_BEFORE),
        DeploymentState::Pending,
        "not since the removal was published"
    );
}

#[test]
fn keeps_the_last_state_when_a_device_goes_offline() {
    check(Desired::Present, Some((State::Installed, 5)), OFFLINE, DeploymentState::UpToDate);
    check(Desired::Present, Some((State::Failed, 5)), None, DeploymentState::Failed);
    check(Desired::Absent, Some((State::Removed, 5)), OFFLINE, DeploymentState::Removed);
}

#[test]
fn reads_back_its_names() {
    for deployment_state in DeploymentState::ALL {
        assert_eq!(DeploymentState::parse(deployment_state.as_str()), Some(deployment_state));
    }
    assert_eq!(DeploymentState::parse("online"), None);
}
