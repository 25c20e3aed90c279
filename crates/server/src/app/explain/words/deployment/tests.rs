use super::super::without_commands;
use super::*;
use margo::digest::Digest;
use margo::ids::DeploymentId;
use margo::parameters::Answers;
use margrave_core::convergence::judge;
use margrave_core::model::{ChangeKind, Failed};
use serde_json::{Value, json};
use uuid::Uuid;

const NOW: Timestamp = Timestamp(1_790_000_000_000_000);
const SILENT_SINCE: Timestamp = Timestamp(NOW.0 - 300_000_000);
const HEARD: Option<Timestamp> = Some(NOW);
const LONG_AGO: Option<Timestamp> = Some(Timestamp(NOW.0 - 3_600_000_000));

fn wanted(desired: Desired) -> Deployment {
    Deployment {
        id: DeploymentId(Uuid::from_u128(1)),
        client: "press-07".parse().unwrap(),
        target: "press-07".parse().unwrap(),
        application: "vision".parse().unwrap(),
        version: "2.0.0".into(),
        profile: "small".into(),
        values: Answers::new(),
        sensitive: false,
        policy: margrave_core::policy::Policy::default(),
        revision: 3,
        desired,
        yaml_digest: Digest::of(b""),
        changed_version: 7,
        target_version: 7,
        created_at: NOW,
        updated_at: NOW,
        change: Uuid::from_u128(2),
    }
}

fn said(state: State, adopted: u64, components: &Value) -> Reported {
    let body = json!({
        "deploymentId": Uuid::from_u128(1), "adoptedManifestVersion": adopted,
        "status": { "state": state.as_str() }, "components": components,
    });
    let body = body.to_string().into_bytes();
    let failed = Failed { adopted_version: adopted, body: body.clone(), received_at: NOW };
    let failed = (state == State::Failed && adopted != 0).then_some(failed);
    Reported { state, adopted_version: adopted, body, received_at: NOW, failed }
}

fn one(state: State) -> Value {
    json!([{ "name": "camera", "state": state.as_str() }])
}

fn link(last_seen: Option<Timestamp>) -> Link {
    Link {
        client: "press-07".into(),
        gateway: None,
        state: ClientState::Accepted,
        last_seen,
        silent: last_seen.is_none_or(|seen| seen < SILENT_SINCE),
    }
}

fn explained(deployment: &Deployment, reported: Option<&Reported>, client: Link, coming: &[Coming]) -> Explanation {
    explain(&facts(deployment, reported, client, coming))
}

fn facts<'a>(
    deployment: &'a Deployment,
    reported: Option<&'a Reported>,
    client: Link,
    coming: &'a [Coming],
) -> Facts<'a> {
    let convergence = judge(deployment, reported, client.last_seen, SILENT_SINCE);
    Facts {
        deployment,
        reported,
        said_since: None,
        convergence,
        client,
        revision: None,
        adopted_revision: reported.map(|_| 3),
        simulated: false,
        held: None,
        forgotten: false,
        coming,
    }
}

/// State, then the codes of what is known, waited for, and of what would change it.
#[track_caller]
fn check(explanation: &Explanation, state: &str, known: &[&str], waiting_for: &[&str], would_change_it: &[&str]) {
    let codes = |facts: &[Fact]| facts.iter().map(|fact| fact.code.clone()).collect::<Vec<_>>();
    assert_eq!(explanation.state, state);
    assert_eq!(codes(&explanation.known), known, "known");
    assert_eq!(codes(&explanation.waiting_for), waiting_for, "waited for");
    assert_eq!(codes(&explanation.would_change_it), would_change_it, "would change it");
    assert!(!explanation.summary.is_empty() && !explanation.desired.is_empty());
    without_commands(explanation);
}

#[test]
fn what_is_as_desired_waits_for_nothing() {
    let reported = said(State::Installed, 7, &one(State::Installed));
    let shown = explained(&wanted(Desired::Present), Some(&reported), link(HEARD), &[]);
    check(&shown, "converged", &["last-report", "client-heard"], &[], &["new-revision"]);
    assert_eq!(shown.known[0].sentence, "the device says `installed` of revision 3 (manifest 7)");
    assert_eq!(
        shown.desired[0].sentence,
        "`vision` 2.0.0 with profile `small` should run on `press-07/press-07`; that is revision 3, published with manifest 7"
    );
    assert_eq!(shown.desired[0].since.as_deref(), Some(NOW.to_string().as_str()));
}

#[test]
fn what_is_gone_can_come_back() {
    let reported = said(State::Removed, 8, &one(State::Removed));
    let shown = explained(&wanted(Desired::Absent), Some(&reported), link(LONG_AGO), &[]);
    check(&shown, "converged", &["last-report", "client-silent"], &[], &["deploy-again"]);
}

#[test]
fn what_is_being_applied_names_the_components_that_are_not_there_yet() {
    let components = json!([{ "name": "camera", "state": "installed" }, { "name": "model", "state": "installing" }]);
    let reported = said(State::Installing, 7, &components);
    let shown = explained(&wanted(Desired::Present), Some(&reported), link(HEARD), &[]);
    check(&shown, "applying", &["last-report", "component", "client-heard"], &["next-report"], &["next-report"]);
    assert_eq!(shown.known[1].sentence, "component `model` is `installing`");
}

#[test]
fn a_failure_says_code_source_and_what_to_do() {
    let error = json!({ "code": "204", "source": "press-07", "message": "needs 2Gi, has 1Gi" });
    let components = json!([{ "name": "camera", "state": "failed", "error": error }]);
    let reported = said(State::Failed, 7, &components);
    let shown = explained(&wanted(Desired::Present), Some(&reported), link(HEARD), &[]);
    check(
        &shown,
        "failed",
        &["last-report", "component", "client-heard"],
        &["cause-removed"],
        &["next-action", "try-again", "new-revision"],
    );
    let command = |index: usize| shown.would_change_it[index].command.as_deref();
    let id = Uuid::from_u128(1);
    assert_eq!(command(1), Some(format!("margrave deployment retry {id}").as_str()));
    assert_eq!(command(2), Some(format!("margrave deployment diff {id}").as_str()));
    assert_eq!(
        shown.known[1].sentence,
        "component `camera` is `failed`: needs 2Gi, has 1Gi (code 204 from `press-07`)"
    );
    assert!(shown.would_change_it[0].sentence.starts_with("choose another device or profile"), "{shown:?}");
}

#[test]
fn who_tries_again_after_a_failure_is_a_matter_of_policy() {
    let reported = said(State::Failed, 7, &one(State::Failed));
    for (on_failure, sentence) in [
        (OnFailure::KeepPartial, "the cause to go away; the device tries again by itself, after pauses that grow; "),
        (OnFailure::Hold, "the cause to go away, then somebody to try again; the device has stopped, "),
        (OnFailure::Rollback, "the cause to go away, then somebody to try again; the device went back "),
    ] {
        let mut deployment = wanted(Desired::Present);
        deployment.policy.on_failure = on_failure;
        let shown = explained(&deployment, Some(&reported), link(HEARD), &[]);
        assert!(shown.waiting_for[0].sentence.starts_with(sentence), "{:?}", shown.waiting_for);
        let policy = shown.desired.iter().find(|fact| fact.code == "policy");
        let told = policy.is_some_and(|fact| fact.sentence.contains(on_failure.meaning()));
        assert_eq!(told, on_failure != OnFailure::default(), "{policy:?}");
    }
}

#[test]
fn a_device_that_tries_again_by_itself_says_when_only_where_that_is_known() {
    let reported = said(State::Failed, 7, &one(State::Failed));
    let mut deployment = wanted(Desired::Present);
    let next_try = |deployment: &Deployment, held: Option<Announced>| {
        let shown = explain(&Facts { held, ..facts(deployment, Some(&reported), link(HEARD), &[]) });
        shown.waiting_for[0].values["nextTry"].as_str().unwrap().to_owned()
    };
    assert!(next_try(&deployment, None).contains("it does not report when"));
    let held = Announced { reason: "changing the fan".into(), until: "2026-09-21T15:00:00Z".into() };
    let until = "the device tries again by itself when the technician's hold ends, at 2026-09-21T15:00:00Z";
    assert_eq!(next_try(&deployment, Some(held)), until);
    (deployment.policy.on_failure, deployment.revision) = (OnFailure::Rollback, 1);
    assert!(next_try(&deployment, None).starts_with("the device tries again by itself"), "nothing to go back to");
}

#[test]
fn an_older_revision_waits_for_the_next_poll() {
    let reported = said(State::Installed, 6, &one(State::Installed));
    let shown = explained(&wanted(Desired::Present), Some(&reported), link(HEARD), &[]);
    check(&shown, "older-revision", &["last-report", "client-heard"], &["next-poll"], &["next-poll"]);
    let vague = said(State::Installed, 0, &one(State::Installed));
    let shown = explained(&wanted(Desired::Present), Some(&vague), link(HEARD), &[]);
    assert_eq!(shown.known[0].sentence, "the device says `installed` without saying of which manifest");
}

#[test]
fn what_nobody_spoke_of_waits() {
    let shown = explained(&wanted(Desired::Present), None, link(HEARD), &[]);
    check(&shown, "waiting", &["no-report", "client-heard"], &["next-poll"], &["next-poll"]);
}

#[test]
fn a_silent_device_is_waited_for_and_can_be_checked() {
    let shown = explained(&wanted(Desired::Present), None, link(LONG_AGO), &[]);
    check(&shown, "not-heard-of", &["no-report", "client-silent"], &["contact", "next-poll"], &["check-device"]);
    let never = explained(&wanted(Desired::Present), None, link(None), &[]);
    assert_eq!(never.known[1].sentence, "the device has never been heard of");
}

#[test]
fn behind_a_gateway_it_is_the_gateway_that_is_silent() {
    let child = Link { gateway: Some("gw".into()), ..link(LONG_AGO) };
    let shown = explained(&wanted(Desired::Present), None, child, &[]);
    assert!(shown.known[1].sentence.starts_with("its gateway `gw` has been silent since "), "{shown:?}");
    assert_eq!(shown.waiting_for[0].sentence, "its gateway `gw` to call the server");
}

#[test]
fn a_client_that_is_not_let_in_needs_an_operator() {
    for (state, code) in [(ClientState::Pending, "client-pending"), (ClientState::Retired, "client-retired")] {
        let shown = explained(&wanted(Desired::Present), None, Link { state, ..link(HEARD) }, &[]);
        check(
            &shown,
            "waiting",
            &["no-report", code, "client-heard"],
            &["acceptance", "next-poll"],
            &["accept-client"],
        );
        let accept = &shown.would_change_it[0];
        assert_eq!(accept.sentence, "accepting client `press-07` lets it in");
        assert_eq!(accept.command.as_deref(), Some("margrave client accept press-07"));
    }
}

#[test]
fn what_is_on_a_retired_client_says_that_nothing_reaches_it() {
    let retired = |seen| Link { state: ClientState::Retired, ..link(seen) };
    let installed = said(State::Installed, 7, &one(State::Installed));
    let shown = explained(&wanted(Desired::Present), Some(&installed), retired(HEARD), &[]);
    check(&shown, "converged", &["last-report", "client-retired", "client-heard"], &[], &["accept-client"]);
    let summary = "revision 3 (2.0.0) is installed; client `press-07` is retired and gets no changes";
    assert_eq!(shown.summary, summary);
    // The silence of a client that is not let in says nothing.
    let shown =
        explained(&wanted(Desired::Absent), Some(&said(State::Installed, 6, &json!([]))), retired(LONG_AGO), &[]);
    let summary = "client `press-07` is retired and gets nothing; the removal waits until it is accepted again";
    assert_eq!(shown.summary, summary);
    let would: Vec<&str> = shown.would_change_it.iter().map(|fact| fact.code.as_str()).collect();
    assert_eq!(would, ["accept-client", "check-device", "forget-device"]);
    assert_eq!(shown.would_change_it[2].about.as_deref(), Some("device/press-07/press-07"));
    let waiting = Link { state: ClientState::Pending, ..link(HEARD) };
    let shown = explained(&wanted(Desired::Present), None, waiting, &[]);
    let summary = "client `press-07` is not accepted and gets nothing; revision 3 (2.0.0) waits until it is accepted";
    assert_eq!(shown.summary, summary);
}

#[test]
fn a_change_that_is_still_being_published_is_named() {
    let coming = Coming {
        id: Uuid::from_u128(9),
        kind: ChangeKind::Upgrade,
        version: "3.0.0".into(),
        total: 5000,
        done: 500,
        created_at: NOW,
    };
    let reported = said(State::Installed, 7, &one(State::Installed));
    let shown = explained(&wanted(Desired::Present), Some(&reported), link(HEARD), &[coming]);
    check(&shown, "converged", &["last-report", "client-heard"], &["publishing"], &["new-revision"]);
    assert!(shown.waiting_for[0].sentence.contains("500 of 5000 devices"), "{shown:?}");
}

#[test]
fn what_is_installed_on_a_device_that_only_pretends_is_said_not_to_run() {
    let (deployment, reported) = (wanted(Desired::Present), said(State::Installed, 7, &one(State::Installed)));
    let shown = explain(&Facts { simulated: true, ..facts(&deployment, Some(&reported), link(HEARD), &[]) });
    check(&shown, "converged", &["last-report", "simulated", "client-heard"], &[], &["new-revision"]);
    assert_eq!(
        shown.known[1].sentence,
        "nothing is really installed on this device: its agent runs with the simulated runtime"
    );
    assert_eq!(shown.known[1].about.as_deref(), Some("device/press-07/press-07"));
}

#[test]
fn what_failed_and_is_tried_again_keeps_its_reason() {
    let error = json!({ "code": "E301", "source": "runtime", "message": "image not found" });
    let before = said(State::Failed, 7, &json!([{ "name": "camera", "state": "failed", "error": error }]));
    let now = Reported { failed: before.failed, ..said(State::Installing, 7, &one(State::Installing)) };
    let shown = explained(&wanted(Desired::Present), Some(&now), link(HEARD), &[]);
    let known = ["last-report", "component", "failed-before", "client-heard"];
    check(&shown, "failed", &known, &["cause-removed"], &["next-action", "try-again", "new-revision"]);
    let sentence =
        "revision 3 (2.0.0) failed in component `camera`: image not found (E301); the device is trying again now";
    assert_eq!(shown.summary, sentence);
    assert!(shown.known[2].sentence.contains("image not found (code E301"), "{}", shown.known[2].sentence);
}
