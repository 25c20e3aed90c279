use super::super::without_commands;
use super::*;
use margrave_core::model::ClientState;

const NOW: Timestamp = Timestamp(1_790_000_000_000_000);

fn placed(deployment_state: DeploymentState) -> DeviceDeployment {
    DeviceDeployment {
        id: "1".into(),
        what: "`vision` 2.0.0".into(),
        desired: Desired::Present,
        deployment_state,
        sentence: "as it is".into(),
        since: NOW,
    }
}

fn explained(state: ClientState, offline: bool, deployments: &[DeploymentState], hosts_workloads: bool) -> Explanation {
    let key = DeviceKey { client: "hall".parse().unwrap(), device: "press".parse().unwrap() };
    explain(&facts(&key, state, offline, deployments, hosts_workloads))
}

fn facts<'a>(
    key: &'a DeviceKey,
    state: ClientState,
    offline: bool,
    deployments: &[DeploymentState],
    hosts_workloads: bool,
) -> Facts<'a> {
    Facts {
        key,
        client: Connectivity { client: "hall".into(), gateway: None, state, last_seen: Some(NOW), offline },
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
fn check(explanation: &Explanation, state: &str, waiting_for: &[&str], next_steps: &[&str]) {
    let codes = |facts: &[Fact]| facts.iter().map(|fact| fact.code.clone()).collect::<Vec<_>>();
    assert_eq!(explanation.state, state);
    assert_eq!(codes(&explanation.waiting_for), waiting_for);
    assert_eq!(codes(&explanation.next_steps), next_steps);
    without_commands(explanation);
}

#[test]
fn the_worst_fact_gives_the_state() {
    use DeploymentState::{Failed, Pending, UpToDate};
    let accepted = ClientState::Accepted;
    check(&explained(accepted, false, &[UpToDate], true), "online", &[], &["next-poll"]);
    check(&explained(accepted, false, &[UpToDate, Pending], true), "updating", &["deployment"], &["next-poll"]);
    check(&explained(accepted, false, &[Failed, Pending], true), "degraded", &["deployment"], &["explain-deployment"]);
    check(&explained(accepted, false, &[Failed], true), "failed", &[], &["explain-deployment"]);
    check(&explained(accepted, true, &[Pending], true), "offline", &["contact", "deployment"], &["check-device"]);
    check(
        &explained(ClientState::Decommissioned, false, &[], true),
        "blocked",
        &["acceptance"],
        &["accept-client", "deploy"],
    );
}

#[test]
fn suggests_next_steps_for_an_empty_device() {
    let shown = explained(ClientState::Accepted, false, &[], true);
    check(&shown, "online", &[], &["deploy"]);
    assert_eq!(shown.desired[0].sentence, "nothing is deployed to this device");
    let useless = explained(ClientState::Accepted, false, &[], false);
    assert!(useless.observed.iter().any(|fact| fact.code == "hosts-nothing"), "{useless:?}");
}

#[test]
fn explains_a_simulated_device_and_how_to_make_it_real() {
    let key = DeviceKey { client: "hall".parse().unwrap(), device: "press".parse().unwrap() };
    let observed = facts(&key, ClientState::Accepted, false, &[DeploymentState::UpToDate], true);
    let shown = explain(&Facts { simulated: true, ..observed });
    check(&shown, "online", &[], &["next-poll", "real-runtime"]);
    let reported_with = shown.observed.iter().find(|fact| fact.code == "simulated").expect("a simulated fact");
    assert_eq!(
        reported_with.sentence,
        "nothing is really installed on this device: its agent runs with the simulated runtime"
    );
    let real = explained(ClientState::Accepted, false, &[DeploymentState::UpToDate], true);
    assert!(!real.observed.iter().any(|fact| fact.code == "simulated"), "{real:?}");
}

#[test]
fn explains_why_a_device_without_a_runtime_hosts_nothing() {
    let key = DeviceKey { client: "hall".parse().unwrap(), device: "press".parse().unwrap() };
    let facts = Facts { no_runtime: true, ..facts(&key, ClientState::Accepted, false, &[], false) };
    let explained = explain(&facts);
    check(&explained, "online", &[], &["real-runtime"]);
    assert!(explained.summary.contains("no runtime is enabled"), "{}", explained.summary);
    let observed: Vec<_> = explained.observed.iter().map(|fact| fact.code.as_str()).collect();
    assert!(observed.contains(&"no-runtime") && !observed.contains(&"hosts-nothing"), "{observed:?}");
}
