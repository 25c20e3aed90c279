use super::super::without_commands;
use super::*;

const NOW: Timestamp = Timestamp(1_790_000_000_000_000);

fn facts(deployments: &[(Convergence, u64)], fits: u64, unfit: u64) -> Facts {
    let counts: BTreeMap<Convergence, u64> = deployments.iter().copied().collect();
    Facts {
        application: "vision".into(),
        versions: vec![("2.0.0".into(), NOW), ("1.0.0".into(), NOW)],
        deployments: if counts.is_empty() { BTreeMap::new() } else { BTreeMap::from([("1.0.0".to_owned(), counts)]) },
        fit: Fit {
            judged: fits + unfit,
            devices: fits + unfit,
            fits,
            unfit,
            unknown: 0,
            reasons: vec![("profile `small`: has 1 GiB of memory, needs 2 GiB".into(), unfit)],
        },
        coming: Vec::new(),
        failed: Vec::new(),
    }
}

#[track_caller]
fn check(facts: &Facts, state: &str, summary: &str) -> Explanation {
    let shown = explain(facts);
    assert_eq!((shown.state.as_str(), shown.summary.as_str()), (state, summary));
    without_commands(&shown);
    shown
}

#[test]
fn the_counts_give_the_state() {
    use Convergence::{Converged, Failed, NotHeardOf};
    check(&facts(&[(Converged, 3)], 3, 0), "fine", "all 3 deployments are as desired");
    check(&facts(&[(Converged, 2), (Failed, 1)], 3, 0), "failing", "2 of 3 deployments are as desired, 1 failed");
    let shown = check(&facts(&[(Converged, 2), (NotHeardOf, 1)], 3, 0), "waiting", "2 of 3 deployments are as desired");
    assert_eq!(shown.waiting_for[0].sentence, "1 device to call the server");
    assert!(
        shown.known.iter().any(|fact| fact.sentence == "version 1.0.0: 1 deployment waits for a device that is silent")
    );
}

#[test]
fn what_failed_is_named_with_its_place() {
    let mut facts = facts(&[(Convergence::Failed, 1), (Convergence::NotHeardOf, 1)], 0, 2);
    facts.failed = vec![Failed { id: "1-2".into(), place: "hall/press".into(), why: "revision 1 failed".into() }];
    let shown = check(&facts, "failing", "0 of 2 deployments are as desired, 1 failed");
    let [failed, silent, fit] = shown.would_change_it.as_slice() else { panic!("{shown:?}") };
    assert_eq!(failed.sentence, "removing the cause on `hall/press`: revision 1 failed");
    assert_eq!(failed.command.as_deref(), Some("margrave deployment explain 1-2"));
    assert_eq!(silent.command.as_deref(), Some("margrave deployment list --app vision --state not-heard-of"));
    assert_eq!(fit.command.as_deref(), Some("margrave app fit vision --reasons"));
}

#[test]
fn an_application_nobody_runs_is_unused_or_blocked() {
    check(&facts(&[], 3, 1), "unused", "it is in the catalog and runs nowhere");
    let alone = check(&facts(&[], 0, 0), "unused", "it is in the catalog and runs nowhere");
    assert!(alone.known.iter().any(|fact| fact.sentence == "no device has joined yet"), "{alone:?}");
    assert_eq!(alone.would_change_it[0].sentence, "a device that joins and can run it");
    let blocked = check(
        &facts(&[], 0, 4),
        "blocked",
        "it runs nowhere, and no device that was judged can run the newest version",
    );
    assert!(
        blocked.known.iter().any(|fact| { fact.sentence == "of 4 devices, 0 can run the newest version and 4 cannot" })
    );
    assert!(
        blocked
            .known
            .iter()
            .any(|fact| fact.sentence == "4 devices: profile `small`: has 1 GiB of memory, needs 2 GiB")
    );
    assert_eq!(blocked.would_change_it[0].code, "show-fit");
}

#[test]
fn a_fleet_too_large_to_judge_says_how_much_of_it_was() {
    let mut facts = facts(&[], 5000, 0);
    facts.fit.devices = 100_000;
    let shown = explain(&facts);
    assert!(
        shown.known.iter().any(|fact| fact.sentence.starts_with("of the first 5000 of 100000 devices, ")),
        "{shown:?}"
    );
}
