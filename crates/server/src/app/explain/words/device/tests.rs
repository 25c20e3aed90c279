use super::super::without_commands;
use super::*;

const NOW: Timestamp = Timestamp(1_790_000_000_000_000);

fn placed(convergence: Convergence) -> Placed {
    Placed {
        id: "1".into(),
        what: "`vision` 2.0.0".into(),
        desired: Desired::Present,
        convergence,
        sentence: "as it is".into(),
        since: NOW,
    }
}

fn explained(state: ClientState, silent: bool, deployments: &[Convergence], hosts_workloads: bool) -> Explanation {
    let key = DeviceKey { client: "hall".parse().unwrap(), device: "press".parse().unwrap() };
    explain(&facts(&key, state, silent, deployments, hosts_workloads))
}

fn facts<'a>(
    key: &'a DeviceKey,
    state: ClientState,
    silent: bool,
    deployments: &[Convergence],
    hosts_workloads: bool,
) -> Facts<'a> {
    Facts {
        key,
        client: Link { client: "hall".into(), gateway: None, state, last_seen: Some(NOW), silent },
        reported_at: NOW,
        hosts_workloads,
        simulated: false,
        no_runtime: false,
        held: None,
        deployments: deployments.iter().copied().map(placed).collect(),
        more: false,
    }
}

#[track_caller]
fn check(explanation: &Explanation, state: &str, waiting_for: &[&str], would_change_it: &[&str]) {
    let codes = |facts: &[Fact]| facts.iter().map(|fact| fact.code.clone()).collect::<Vec<_>>();
    assert_eq!(explanation.state, state);
    assert_eq!(codes(&explanation.waiting_for), waiting_for);
    assert_eq!(codes(&explanation.would_change_it), would_change_it);
    without_commands(explanation);
}

#[test]
fn the_worst_that_is_known_gives_the_state() {
    use Convergence::{Converged, Failed, Waiting};
    let accepted = ClientState::Accepted;
    check(&explained(accepted, false, &[Converged], true), "fine", &[], &["next-poll"]);
    check(&explained(accepted, false, &[Converged, Waiting], true), "waiting", &["deployment"], &["next-poll"]);
    check(&explained(accepted, false, &[Failed, Waiting], true), "failing", &["deployment"], &["explain-deployment"]);
    check(&explained(accepted, true, &[Waiting], true), "silent", &["contact", "deployment"], &["check-device"]);
    check(
        &explained(ClientState::Retired, false, &[], true),
        "shut-out",
        &["acceptance"],
        &["accept-client", "deploy"],
    );
}

#[test]
fn an_empty_device_says_what_could_be_done() {
    let shown = explained(ClientState::Accepted, false, &[], true);
    check(&shown, "fine", &[], &["deploy"]);
    assert_eq!(shown.desired[0].sentence, "nothing should run here");
    let useless = explained(ClientState::Accepted, false, &[], false);
    assert!(useless.known.iter().any(|fact| fact.code == "hosts-nothing"), "{useless:?}");
}

#[test]
fn a_device_that_only_pretends_says_so_and_what_would_make_it_real() {
    let key = DeviceKey { client: "hall".parse().unwrap(), device: "press".parse().unwrap() };
    let known = facts(&key, ClientState::Accepted, false, &[Convergence::Converged], true);
    let shown = explain(&Facts { simulated: true, ..known });
    check(&shown, "fine", &[], &["next-poll", "real-runtime"]);
    let said = shown.known.iter().find(|fact| fact.code == "simulated").expect("it is told");
    assert_eq!(said.sentence, "nothing is really installed on this device: its agent runs with the simulated runtime");
    let real = explained(ClientState::Accepted, false, &[Convergence::Converged], true);
    assert!(!real.known.iter().any(|fact| fact.code == "simulated"), "{real:?}");
}

#[test]
fn a_device_without_a_runtime_says_why_it_hosts_nothing_and_what_would_change_it() {
    let key = DeviceKey { client: "hall".parse().unwrap(), device: "press".parse().unwrap() };
    let facts = Facts { no_runtime: true, ..facts(&key, ClientState::Accepted, false, &[], false) };
    let explained = explain(&facts);
    check(&explained, "fine", &[], &["real-runtime"]);
    assert!(explained.summary.contains("no runtime is switched on"), "{}", explained.summary);
    let known: Vec<_> = explained.known.iter().map(|fact| fact.code.as_str()).collect();
    assert!(known.contains(&"no-runtime") && !known.contains(&"hosts-nothing"), "{known:?}");
}
