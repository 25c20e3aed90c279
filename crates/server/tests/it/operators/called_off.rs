//! A change is called off where it waits for devices that do not call.

use super::chosen::{place, three};
use super::wizard::text;
use super::*;
use margrave_api::changes::CallOffChange;
use margrave_api::deployments::Convergence;
use std::time::Duration;

/// All are silent but the last, which has what it should.
async fn one_is_left(server: &TestServer, api: &ApiClient, clients: &[Device]) {
    server.clock.advance(Duration::from_hours(1));
    let all = all_deployments(api).await;
    let last = all.iter().find(|one| one.device == "press-3").unwrap();
    report(&clients[2], &last.id, last.target_version, "installed").await;
    eventually("it is written down who was heard of", async || {
        let silent = all_deployments(api).await.iter().filter(|one| one.convergence == Convergence::NotHeardOf).count();
        let change = api.change(&last.change).await.unwrap().deployments.unwrap();
        (silent == 2 && change.of(Convergence::NotHeardOf) == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_was_deployed_is_removed_where_nobody_is_heard_of() {
    let server = TestServer::start().await;
    let (api, browser, clients) = three(&server).await;
    one_is_left(&server, &api, &clients).await;
    let first = all_deployments(&api).await[0].change.clone();
    let page = text(&browser, &format!("/changes/{first}")).await;
    assert!(page.contains("Call it off on the 2 that do not call"), "{page}");
    let page = text(&browser, &format!("/changes/{first}?ask=call-off")).await;
    assert!(
        page.contains("Call Press vision 1.0.0 off on 2 devices?") && page.contains("This touches 2 devices."),
        "{page}"
    );
    let form = [("key", "k"), ("action", "call-off"), ("reason", "the line is being rebuilt")];
    let told = place(&browser.post(&format!("/changes/{first}"), &form).await);
    let change = finished(&api, &api.change(told.trim_start_matches("/changes/")).await.unwrap()).await;
    assert_eq!((change.kind, change.total), (ChangeKind::Remove, 2));
    assert_eq!(change.reason.as_deref(), Some("the line is being rebuilt"));
    let left: Vec<_> = all_deployments(&api).await.into_iter().map(|one| one.device).collect();
    assert_eq!(left, ["press-3"], "who has it keeps it");
    server.clock.advance(Duration::from_mins(1));
    let state: serde_json::Value = clients[0].get("/api/v1/deployments").await.json().await.unwrap();
    assert_eq!(state["deployments"], json!([]), "what it finds when it comes back");

    eventually("what was never begun is gone once the device has called", async || {
        let done = api.change(&change.id).await.unwrap().deployments.unwrap();
        (done.of(Convergence::Converged) == 1 && done.of(Convergence::NotHeardOf) == 1).then_some(())
    })
    .await;

    assert_eq!(place(&browser.post(&format!("/changes/{first}"), &form).await), told, "sent twice, done once");
    assert_eq!(refused(api.call_off_change(&first, &CallOffChange::default()).await).0, "unchanged");
    assert_eq!(refused(api.call_off_change(&change.id, &CallOffChange::default()).await).0, "invalid", "a removal");
    assert_eq!(refused(api.call_off_change("nothing", &CallOffChange::default()).await).0, "not-found");
}

#[tokio::test]
async fn what_was_changed_goes_back_to_what_each_device_had() {
    let server = TestServer::start().await;
    let (api, _browser, clients) = three(&server).await;
    let own = CreateChange {
        kind: ChangeKind::Reconfigure,
        version: None,
        answers: indexmap::IndexMap::from([("interval".to_owned(), json!(90))]),
        ..create("1.0.0", on(&["press-1"]))
    };
    finished(&api, &api.create_change(&own).await.unwrap()).await;
    let upgrade = CreateChange {
        kind: ChangeKind::Upgrade,
        answers: indexmap::IndexMap::from([("interval".to_owned(), json!(30))]),
        ..create("1.1.0", selected(""))
    };
    let upgrade = finished(&api, &api.create_change(&upgrade).await.unwrap()).await;
    one_is_left(&server, &api, &clients).await;

    let body = CallOffChange { reason: Some("not this week".to_owned()) };
    let made = api.call_off_change(&upgrade.id, &body).await.unwrap().changes;
    assert_eq!(made.len(), 2, "they had different answers");
    for change in &made {
        assert_eq!((change.total, change.reason.as_deref()), (1, Some("not this week")));
        finished(&api, change).await;
    }
    let all = all_deployments(&api).await;
    let had = |name: &str| {
        let one = all.iter().find(|one| one.device == name).unwrap();
        (one.version.as_str(), one.values["interval"].clone())
    };
    assert_eq!(had("press-1"), ("1.0.0", json!(90)));
    assert_eq!(had("press-2"), ("1.0.0", json!(60)));
    assert_eq!(had("press-3"), ("1.1.0", json!(30)), "who has it keeps it");
}
