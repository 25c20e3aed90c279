use super::{Convergence, Word, judge, last_word};
use crate::model::{Deployment, Desired, Failed, Reported};
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
        changed_version: 5,
        target_version: 5,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        change: Uuid::from_u128(2),
    }
}

/// As the store keeps it when nothing was said before.
fn failed(state: State, adopted_version: u64) -> Option<Failed> {
    let counts = state == State::Failed && adopted_version != 0;
    counts.then(|| Failed { adopted_version, body: vec![], received_at: Timestamp(0) })
}

fn check(desired: Desired, report: Option<(State, u64)>, last_seen: Option<Timestamp>, expected: Convergence) {
    let reported = report.map(|(state, adopted_version)| Reported {
        state,
        adopted_version,
        body: vec![],
        received_at: Timestamp(0),
        failed: failed(state, adopted_version),
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

// ST-06
#[test]
fn waits_for_whoever_was_told_the_same_revision_again() {
    for (desired, changed_version, expected) in [
        (Desired::Present, 3, Convergence::Waiting),
        (Desired::Present, 4, Convergence::Waiting),
        (Desired::Present, 5, Convergence::OlderRevision),
        (Desired::Absent, 4, Convergence::Waiting),
    ] {
        let told = Deployment { changed_version, ..deployment(desired) };
        let word = |adopted_version, failed_version| Word { state: State::Failed, adopted_version, failed_version };
        assert_eq!(last_word(&told, Some(word(4, Some(4)))), expected, "{desired:?} {changed_version}");
        assert_eq!(last_word(&told, Some(word(0, None))), Convergence::OlderRevision, "version 0 is none");
    }
}

#[test]
fn whoever_tries_again_has_failed_until_it_succeeds_or_is_asked_for_something_else() {
    let word = |state, failed_version| Some(Word { state, adopted_version: 5, failed_version });
    let present = deployment(Desired::Present);
    for state in [State::Pending, State::Installing, State::Failed] {
        assert_eq!(last_word(&present, word(state, Some(5))), Convergence::Failed, "{state:?}");
        assert_eq!(last_word(&deployment(Desired::Absent), word(state, Some(5))), Convergence::Failed, "{state:?}");
    }
    assert_eq!(last_word(&present, word(State::Installed, None)), Convergence::Converged);
    assert_eq!(
        last_word(&present, word(State::Installing, Some(4))),
        Convergence::Applying,
        "that was another revision"
    );
    let again = Deployment { target_version: 6, ..deployment(Desired::Present) };
    assert_eq!(last_word(&again, word(State::Installing, Some(5))), Convergence::Waiting, "somebody asked for it anew");
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
fn takes_what_was_never_begun_for_gone_once_the_device_has_called() {
    check(Desired::Absent, None, HEARD, Convergence::Converged);
    check(Desired::Absent, None, SILENT, Convergence::Converged);
    check(Desired::Absent, None, Some(Timestamp(0)), Convergence::NotHeardOf);
    check(Desired::Absent, None, None, Convergence::NotHeardOf);
    let later = Deployment { updated_at: Timestamp(1_000), ..deployment(Desired::Absent) };
    assert_eq!(judge(&later, None, HEARD, SILENT_SINCE), Convergence::Waiting, "not since it was taken back");
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
