use super::{Convergence, judge};
use crate::model::{Deployment, Desired, Reported};
use crate::time::Timestamp;
use margo::digest::Digest;
use margo::ids::DeploymentId;
use margo::parameters::Answers;
use margo::status::State;
use uuid::Uuid;

const SILENT_SINCE: Timestamp = Timestamp(1_000);
const HEARD: Option<Timestamp> = Some(Timestamp(1_000));
const SILENT: Option<Timestamp> = Some(Timestamp(999));

fn deployment(desired: Desired) -> Deployment {
    Deployment {
        id: DeploymentId(Uuid::from_u128(1)),
        client: "press-07".parse().unwrap(),
        target: "press-07".parse().unwrap(),
        application: "digitron".parse().unwrap(),
        version: "1.0.0".into(),
        profile: "helm".into(),
        values: Answers::new(),
        sensitive: false,
        policy: crate::policy::Policy::default(),
        revision: 1,
        desired,
        yaml_digest: Digest::of(b""),
        target_version: 5,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        change: Uuid::from_u128(2),
    }
}

fn check(desired: Desired, report: Option<(State, u64)>, last_seen: Option<Timestamp>, expected: Convergence) {
    let reported = report.map(|(state, adopted_version)| Reported {
        state,
        adopted_version,
        body: vec![],
        received_at: Timestamp(0),
    });
    let actual = judge(&deployment(desired), reported.as_ref(), last_seen, SILENT_SINCE);
    assert_eq!(actual, expected, "{desired:?} {report:?} {last_seen:?}");
}

// ST-06
#[test]
fn tells_the_states_on_the_target_version_apart() {
    for version in [5, 6, u64::MAX] {
        check(Desired::Present, Some((State::Installed, version)), HEARD, Convergence::Converged);
        check(Desired::Present, Some((State::Installing, version)), HEARD, Convergence::Applying);
        check(Desired::Present, Some((State::Pending, version)), HEARD, Convergence::Applying);
        check(Desired::Present, Some((State::Failed, version)), HEARD, Convergence::Failed);
        check(Desired::Present, Some((State::Removed, version)), HEARD, Convergence::Applying);
    }
}

// ST-06
#[test]
fn calls_anything_below_the_target_an_older_revision() {
    for state in State::ALL {
        check(Desired::Present, Some((state, 4)), HEARD, Convergence::OlderRevision);
    }
}

// W-12
#[test]
fn never_takes_version_zero_for_converged() {
    for state in State::ALL {
        check(Desired::Present, Some((state, 0)), HEARD, Convergence::OlderRevision);
        check(Desired::Absent, Some((state, 0)), HEARD, Convergence::OlderRevision);
    }
}

// ST-11, ST-12
#[test]
fn takes_a_removal_report_of_any_known_version_for_removed() {
    check(Desired::Absent, Some((State::Removed, 5)), HEARD, Convergence::Converged);
    check(Desired::Absent, Some((State::Removed, 3)), HEARD, Convergence::Converged);
    check(Desired::Absent, Some((State::Removing, 5)), HEARD, Convergence::Applying);
    check(Desired::Absent, Some((State::Failed, 5)), HEARD, Convergence::Failed);
    check(Desired::Absent, Some((State::Installed, 4)), HEARD, Convergence::OlderRevision);
    check(Desired::Absent, Some((State::Installed, 5)), HEARD, Convergence::Applying);
}

#[test]
fn waits_for_a_client_that_is_heard_of_and_misses_one_that_is_not() {
    check(Desired::Present, None, HEARD, Convergence::Waiting);
    check(Desired::Present, None, SILENT, Convergence::NotHeardOf);
    check(Desired::Present, None, None, Convergence::NotHeardOf);
    check(Desired::Present, Some((State::Installing, 5)), SILENT, Convergence::NotHeardOf);
    check(Desired::Present, Some((State::Installed, 4)), SILENT, Convergence::NotHeardOf);
}

#[test]
fn lets_the_last_word_stand_when_a_device_falls_silent() {
    check(Desired::Present, Some((State::Installed, 5)), SILENT, Convergence::Converged);
    check(Desired::Present, Some((State::Failed, 5)), None, Convergence::Failed);
    check(Desired::Absent, Some((State::Removed, 5)), SILENT, Convergence::Converged);
}

#[test]
fn reads_back_its_names() {
    for convergence in Convergence::ALL {
        assert_eq!(Convergence::parse(convergence.as_str()), Some(convergence));
    }
    assert_eq!(Convergence::parse("fine"), None);
}
