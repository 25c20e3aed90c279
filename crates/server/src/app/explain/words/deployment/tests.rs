use super::super::without_commands;
use super::*;
use margo::digest::Digest;
use margo::ids::DeploymentId;
use margo::parameters::ParameterValues;
use margrave_core::deployment_state::state_of;
use margrave_core::model::{Failed, RolloutKind};
use serde_json::{Value, json};
use uuid::Uuid;

const NOW: Timestamp = Timestamp(1_790_000_000_000_000);
const SILENT_SINCE: Timestamp = Timestamp(NOW.0 - 300_000_000);
const HEARD: Option<Timestamp> = Some(NOW);
const LONG_AGO: Option<Timestamp> = Some(Timestamp(NOW.0 - 3_600_000_000));

fn desired(desired: Desired) -> Deployment {
    Deployment {
        id: DeploymentId(Uuid::from_u128(1)),
        client: "press-07".parse().unwrap(),
        target: "press-07".parse().unwrap(),
        application: "vision".parse().unwrap(),
        version: "2.0.0".into(),
        profile: "small".into(),
        values: ParameterValues::new(),
        sensitive: false,
        policy: margrave_core::policy::Policy::default(),
        revision: 3,
        desired,
        yaml_digest: Digest::of(b""),
        changed_version: 7,
        target_version: 7,
        created_at: NOW,
        updated_at: NOW,
        rollout: Uuid::from_u128(2),
    }
}

fn reported_with(state: State, adopted: u64, components: &Value) -> Reported {
    let body = json!({
        "deploymentId": Uuid::from_u128(1), "adoptedManifestVersion": adopted,
        "status": { "state": state.as_str() }, "components": components,
    });
    let body = body.to_string().into_bytes();
    let failed = Failed { adopted_version: adopted, body: body.clone(), received_at: NOW, since: NOW, attempts: 1 };
    let failed = (state == State::Failed && adopted != 0).then_some(failed);
    Reported { state, adopted_version: adopted, body, received_at: NOW, failed }
}

fn one(state: State) -> Value {
    json!([{ "name": "camera", "state": state.as_str() }])
}

fn link(last_seen: Option<Timestamp>) -> Connectivity {
    Connectivity {
        client: "press-07".into(),
        gateway: None,
        state: ClientState::Accepted,
        last_seen,
        offline: last_seen.is_none_or(|seen| seen < SILENT_SINCE),
    }
}

fn explained(
    deployment: &Deployment,
    reported: Option<&Reported>,
    client: Connectivity,
    coming: &[UnfinishedRollout],
) -> Explanation {
    explain(&facts(deployment, reported, client, coming))
}

fn facts<'a>(
    deployment: &'a Deployment,
    reported: Option<&'a Reported>,
    client: Connectivity,
    coming: &'a [UnfinishedRollout],
) -> Facts<'a> {
    let deployment_state = state_of(deployment, reported, client.last_seen, SILENT_SINCE);
    Facts {
        deployment,
        reported,
        reported_since: None,
        deployment_state,
        client,
        revision: None,
        adopted_revision: reported.map(|_| 3),
        simulated: false,
        held: None,
        forgotten: false,
        coming,
    }
}

/// State, then the codes of observed facts, of what it waits for, and of next steps.
#[track_caller]
fn check(explanation: &Explanation, state: &str, observed: &[&str], waiting_for: &[&str], next_steps: &[&str]) {
    let codes = |facts: &[Fact]| facts.iter().map(|fact| fact.code.clone()).collect::<Vec<_>>();
    assert_eq!(explanation.state, state);
    assert_eq!(codes(&explanation.observed), observed, "known");
    assert_eq!(codes(&explanation.waiting_for), waiting_for, "waiting for");
    assert_eq!(codes(&explanation.next_steps), next_steps, "next steps");
    assert!(!explanation.summary.is_empty() && !explanation.desired.is_empty());
    without_commands(explanation);
}

#[test]
fn an_up_to_date_deployment_waits_for_nothing() {
    let reported = reported_with(State::Installed, 7, &one(State::Installed));
    let shown = explained(&desired(Desired::Present), Some(&reported), link(HEARD), &[]);
    check(&shown, "up-to-date", &["last-report", "client-last-seen"], &[], &["new-revision"]);
    assert_eq!(shown.observed[0].sentence, "the device reports `installed` for revision 3 (manifest 7)");
    assert_eq!(
        shown.desired[0].sentence,
        "`vision` 2.0.0 with profile `small` should run on `press-07/press-07`; that is revision 3, published with manifest 7"
    );
    assert_eq!(shown.desired[0].since.as_deref(), Some(NOW.to_string().as_str()));
}

#[test]
fn a_removed_deployment_can_be_deployed_again() {
    let reported = reported_with(State::Removed, 8, &one(State::Removed));
    let shown = explained(&desired(Desired::Absent), Some(&reported), link(LONG_AGO), &[]);
    check(&shown, "removed", &["last-report", "client-offline"], &[], &["deploy-again"]);
}

#[test]
fn names_pending_components_while_updating() {
    let components = json!([{ "name": "camera", "state": "installed" }, { "name": "model", "state": "installing" }]);
    let reported = reported_with(State::Installing, 7, &components);
    let shown = explained(&desired(Desired::Present), Some(&reported), link(HEARD), &[]);
    check(&shown, "updating", &["last-report", "component", "client-last-seen"], &["next-report"], &["next-report"]);
    assert_eq!(shown.observed[1].sentence, "component `model` is `installing`");
}

#[test]
fn explains_a_failure_with_code_source_and_next_step() {
    let error = json!({ "code": "204", "source": "press-07", "message": "needs 2Gi, has 1Gi" });
    let components = json!([{ "name": "camera", "state": "failed", "error": error }]);
    let reported = reported_with(State::Failed, 7, &components);
    let shown = explained(&desired(Desired::Present), Some(&reported), link(HEARD), &[]);
    check(
        &shown,
        "failed",
        &["last-report", "component", "client-last-seen"],
        &["cause-removed"],
        &["next-action", "retry", "new-revision"],
    );
    let command = |index: usize| shown.next_steps[index].command.as_deref();
    let id = Uuid::from_u128(1);
    assert_eq!(command(1), Some(format!("margrave deployment retry {id}").as_str()));
    assert_eq!(command(2), Some(format!("margrave deployment diff {id}").as_str()));
    assert_eq!(
        shown.observed[1].sentence,
        "component `camera` is `failed`: needs 2Gi, has 1Gi (code 204 from `press-07`)"
    );
    assert!(shown.next_steps[0].sentence.starts_with("select another device or profile"), "{shown:?}");
}

#[test]
fn the_failure_policy_decides_who_retries() {
    let reported = reported_with(State::Failed, 7, &one(State::Failed));
    for (on_failure, sentence) in [
        (OnFailure::KeepPartial, "the cause to be fixed; the device retries with back-off; "),
        (OnFailure::Stop, "the cause to be fixed, then a retry by an operator; the device has stopped, "),
        (OnFailure::Rollback, "the cause to be fixed, then a retry by an operator; the device rolled back"),
    ] {
        let mut deployment = desired(Desired::Present);
        deployment.policy.on_failure = on_failure;
        let shown = explained(&deployment, Some(&reported), link(HEARD), &[]);
        assert!(shown.waiting_for[0].sentence.starts_with(sentence), "{:?}", shown.waiting_for);
        let policy = shown.desired.iter().find(|fact| fact.code == "policy");
        let mentioned = policy.is_some_and(|fact| fact.sentence.contains(on_failure.meaning()));
        assert_eq!(mentioned, on_failure != OnFailure::default(), "{policy:?}");
    }
}

#[test]
fn names_the_time_of_a_retry_only_if_known() {
    let reported = reported_with(State::Failed, 7, &one(State::Failed));
    let mut deployment = desired(Desired::Present);
    let next_try = |deployment: &Deployment, held: Option<AnnouncedHold>| {
        let shown = explain(&Facts { held, ..facts(deployment, Some(&reported), link(HEARD), &[]) });
        shown.waiting_for[0].values["nextTry"].as_str().unwrap().to_owned()
    };
    assert!(next_try(&deployment, None).contains("on the device to see when"));
    let held = AnnouncedHold { reason: "changing the fan".into(), until: "2026-09-21T15:00:00Z".into() };
    let until = "the device retries when the maintenance hold ends, at 2026-09-21T15:00:00Z";
    assert_eq!(next_try(&deployment, Some(held)), until);
    (deployment.policy.on_failure, deployment.revision) = (OnFailure::Rollback, 1);
    assert!(next_try(&deployment, None).starts_with("the device retries"), "nothing to go back to");
}

#[test]
fn an_outdated_deployment_waits_for_the_next_poll() {
    let reported = reported_with(State::Installed, 6, &one(State::Installed));
    let shown = explained(&desired(Desired::Present), Some(&reported), link(HEARD), &[]);
    check(&shown, "outdated", &["last-report", "client-last-seen"], &["next-poll"], &["next-poll"]);
    let vague = reported_with(State::Installed, 0, &one(State::Installed));
    let shown = explained(&desired(Desired::Present), Some(&vague), link(HEARD), &[]);
    assert_eq!(shown.observed[0].sentence, "the device reports `installed` without a manifest version");
}

#[test]
fn a_deployment_without_a_report_is_pending() {
    let shown = explained(&desired(Desired::Present), None, link(HEARD), &[]);
    check(&shown, "pending", &["no-report", "client-last-seen"], &["next-poll"], &["next-poll"]);
}

#[test]
fn waits_for_an_offline_device_and_suggests_checking_it() {
    let shown = explained(&desired(Desired::Present), None, link(LONG_AGO), &[]);
    check(&shown, "device-offline", &["no-report", "client-offline"], &["contact", "next-poll"], &["check-device"]);
    let never = explained(&desired(Desired::Present), None, link(None), &[]);
    assert_eq!(never.observed[1].sentence, "the device has never connected");
}

#[test]
fn reports_the_gateway_of_a_child_device_as_offline() {
    let child = Connectivity { gateway: Some("gw".into()), ..link(LONG_AGO) };
    let shown = explained(&desired(Desired::Present), None, child, &[]);
    assert!(shown.observed[1].sentence.starts_with("its gateway `gw` has been offline since "), "{shown:?}");
    assert_eq!(shown.waiting_for[0].sentence, "its gateway `gw` to connect to the server");
}

#[test]
fn an_unaccepted_client_needs_an_operator() {
    for (state, code) in
        [(ClientState::Pending, "client-pending"), (ClientState::Decommissioned, "client-decommissioned")]
    {
        let shown = explained(&desired(Desired::Present), None, Connectivity { state, ..link(HEARD) }, &[]);
        check(
            &shown,
            "pending",
            &["no-report", code, "client-last-seen"],
            &["acceptance", "next-poll"],
            &["accept-client"],
        );
        let accept = &shown.next_steps[0];
        assert_eq!(accept.sentence, "accept client `press-07`");
        assert_eq!(accept.command.as_deref(), Some("margrave client accept press-07"));
    }
}

#[test]
fn explains_that_a_decommissioned_client_gets_no_updates() {
    let decommissioned = |seen| Connectivity { state: ClientState::Decommissioned, ..link(seen) };
    let installed = reported_with(State::Installed, 7, &one(State::Installed));
    let shown = explained(&desired(Desired::Present), Some(&installed), decommissioned(HEARD), &[]);
    check(&shown, "up-to-date", &["last-report", "client-decommissioned", "client-last-seen"], &[], &["accept-client"]);
    let summary = "revision 3 (2.0.0) is installed; client `press-07` is decommissioned and gets no updates";
    assert_eq!(shown.summary, summary);
    // For a client that is not accepted, being offline explains nothing.
    let shown = explained(
        &desired(Desired::Absent),
        Some(&reported_with(State::Installed, 6, &json!([]))),
        decommissioned(LONG_AGO),
        &[],
    );
    let summary = "client `press-07` is decommissioned and gets nothing; the removal waits until it is accepted again";
    assert_eq!(shown.summary, summary);
    let would: Vec<&str> = shown.next_steps.iter().map(|fact| fact.code.as_str()).collect();
    assert_eq!(would, ["accept-client", "check-device", "delete-device-record"]);
    assert_eq!(shown.next_steps[2].about.as_deref(), Some("device/press-07/press-07"));
    let waiting = Connectivity { state: ClientState::Pending, ..link(HEARD) };
    let shown = explained(&desired(Desired::Present), None, waiting, &[]);
    let summary = "client `press-07` is not accepted and gets nothing; revision 3 (2.0.0) waits until it is accepted";
    assert_eq!(shown.summary, summary);
}

#[test]
fn names_a_rollout_that_is_still_being_published() {
    let coming = UnfinishedRollout {
        id: Uuid::from_u128(9),
        kind: RolloutKind::Upgrade,
        version: "3.0.0".into(),
        total: 5000,
        done: 500,
        created_at: NOW,
    };
    let reported = reported_with(State::Installed, 7, &one(State::Installed));
    let shown = explained(&desired(Desired::Present), Some(&reported), link(HEARD), &[coming]);
    check(&shown, "up-to-date", &["last-report", "client-last-seen"], &["publishing"], &["new-revision"]);
    assert!(shown.waiting_for[0].sentence.contains("500 of 5000 devices"), "{shown:?}");
}

#[test]
fn explains_that_simulated_workloads_do_not_run() {
    let (deployment, reported) =
        (desired(Desired::Present), reported_with(State::Installed, 7, &one(State::Installed)));
    let shown = explain(&Facts { simulated: true, ..facts(&deployment, Some(&reported), link(HEARD), &[]) });
    check(&shown, "up-to-date", &["last-report", "simulated", "client-last-seen"], &[], &["new-revision"]);
    assert_eq!(
        shown.observed[1].sentence,
        "nothing is really installed on this device: its agent runs with the simulated runtime"
    );
    assert_eq!(shown.observed[1].about.as_deref(), Some("device/press-07/press-07"));
}

#[test]
fn keeps_the_error_during_a_retry() {
    let error = json!({ "code": "E301", "source": "runtime", "message": "image not found" });
    let before = reported_with(State::Failed, 7, &json!([{ "name": "camera", "state": "failed", "error": error }]));
    let now = Reported { failed: before.failed, ..reported_with(State::Installing, 7, &one(State::Installing)) };
    let shown = explained(&desired(Desired::Present), Some(&now), link(HEARD), &[]);
    let observed = ["last-report", "component", "failed-before", "client-last-seen"];
    check(&shown, "failed", &observed, &["cause-removed"], &["next-action", "retry", "new-revision"]);
    let sentence = "revision 3 (2.0.0) failed in component `camera`: image not found (E301); the device is retrying";
    assert_eq!(shown.summary, sentence);
    assert!(shown.observed[2].sentence.contains("image not found (code E301"), "{}", shown.observed[2].sentence);
}
