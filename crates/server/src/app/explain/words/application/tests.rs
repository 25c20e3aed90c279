use super::super::without_commands;
use super::*;

const NOW: Timestamp = Timestamp(1_790_000_000_000_000);

fn facts(deployments: &[(DeploymentState, u64)], compatible: u64, incompatible: u64) -> Facts {
    let counts: BTreeMap<DeploymentState, u64> = deployments.iter().copied().collect();
    Facts {
        application: "vision".into(),
        versions: vec![("2.0.0".into(), NOW), ("1.0.0".into(), NOW)],
        deployments: if counts.is_empty() { BTreeMap::new() } else { BTreeMap::from([("1.0.0".to_owned(), counts)]) },
        compatibility_counts: CompatibilityCounts {
            evaluated: compatible + incompatible,
            devices: compatible + incompatible,
            compatible,
            incompatible,
            unknown: 0,
            reasons: vec![("profile `small`: has 1 GiB of memory, needs 2 GiB".into(), incompatible)],
            rules: BTreeMap::new(),
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
fn derives_the_state_from_the_counts() {
    use DeploymentState::{DeviceOffline, Failed, UpToDate};
    check(&facts(&[(UpToDate, 3)], 3, 0), "online", "all 3 deployments are as desired");
    check(&facts(&[(UpToDate, 2), (Failed, 1)], 3, 0), "failed", "2 of 3 deployments are as desired, 1 failed");
    let shown =
        check(&facts(&[(UpToDate, 2), (DeviceOffline, 1)], 3, 0), "updating", "2 of 3 deployments are as desired");
    assert_eq!(shown.waiting_for[0].sentence, "1 device to connect to the server");
    assert!(
        shown.observed.iter().any(|fact| fact.sentence == "version 1.0.0: 1 deployment waits for an offline device")
    );
}

#[test]
fn names_failed_deployments_with_their_device() {
    let mut facts = facts(&[(DeploymentState::Failed, 1), (DeploymentState::DeviceOffline, 1)], 0, 2);
    facts.failed = vec![Failed { id: "1-2".into(), place: "hall/press".into(), why: "revision 1 failed".into() }];
    let shown = check(&facts, "failed", "0 of 2 deployments are as desired, 1 failed");
    let [failed, offline, compatibility_counts] = shown.next_steps.as_slice() else { panic!("{shown:?}") };
    assert_eq!(failed.sentence, "fix the cause on `hall/press`: revision 1 failed");
    assert_eq!(failed.command.as_deref(), Some("margrave deployment explain 1-2"));
    assert_eq!(offline.command.as_deref(), Some("margrave deployment list --app vision --state device-offline"));
    assert_eq!(compatibility_counts.command.as_deref(), Some("margrave app compatibility vision --reasons"));
}

#[test]
fn an_application_without_deployments_is_unused_or_blocked() {
    check(&facts(&[], 3, 1), "unused", "it is in the catalog and not deployed");
    let alone = check(&facts(&[], 0, 0), "unused", "it is in the catalog and not deployed");
    assert!(alone.observed.iter().any(|fact| fact.sentence == "no device has joined yet"), "{alone:?}");
    assert_eq!(alone.next_steps[0].sentence, "enroll a device that can run it");
    let blocked =
        check(&facts(&[], 0, 4), "blocked", "it runs nowhere, and no checked device can run the newest version");
    assert!(
        blocked
            .observed
            .iter()
            .any(|fact| { fact.sentence == "of 4 devices, 0 can run the newest version and 4 cannot" })
    );
    assert!(
        blocked
            .observed
            .iter()
            .any(|fact| fact.sentence == "4 devices: profile `small`: has 1 GiB of memory, needs 2 GiB")
    );
    assert_eq!(blocked.next_steps[0].code, "show-compatibility");
}

#[test]
fn reports_how_many_devices_of_a_large_fleet_were_evaluated() {
    let mut facts = facts(&[], 5000, 0);
    facts.compatibility_counts.devices = 100_000;
    let shown = explain(&facts);
    assert!(
        shown.observed.iter().any(|fact| fact.sentence.starts_with("of the first 5000 of 100000 devices, ")),
        "{shown:?}"
    );
}
