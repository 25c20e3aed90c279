//! Withdrawing a rollout on offline devices.

use super::selected_devices::{place, three};
use super::wizard::text;
use super::*;
use margrave_api::deployments::DeploymentState;
use margrave_api::rollouts::WithdrawRollout;
use std::time::Duration;

/// All are offline except the last, which is up to date.
async fn all_but_one_go_offline(server: &TestServer, api: &ApiClient, clients: &[Device]) {
    server.clock.advance(Duration::from_hours(1));
    let all = all_deployments(api).await;
    let last = all.iter().find(|one| one.device == "press-3").unwrap();
    report(&clients[2], &last.id, last.target_version, "installed").await;
    eventually("the last-seen times are written", async || {
        let offline =
            all_deployments(api).await.iter().filter(|one| one.state == DeploymentState::DeviceOffline).count();
        let rollout = api.rollout(&last.rollout).await.unwrap().deployments.unwrap();
        (offline == 2 && rollout.of(DeploymentState::DeviceOffline) == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn withdrawing_a_deployment_removes_it_on_offline_devices() {
    let server = TestServer::start().await;
    let (api, browser, clients) = three(&server).await;
    all_but_one_go_offline(&server, &api, &clients).await;
    let first = all_deployments(&api).await[0].rollout.clone();
    let page = text(&browser, &format!("/rollouts/{first}")).await;
    assert!(page.contains("data-action=\"withdraw\" data-count=\"2\""), "{page}");
    let page = text(&browser, &format!("/rollouts/{first}?ask=withdraw")).await;
    assert!(
        page.contains("data-action=\"withdraw\"") && page.contains("data-reason=\"affected\" data-count=\"2\""),
        "{page}"
    );
    let form = [("key", "k"), ("action", "withdraw"), ("comment", "the line is being rebuilt")];
    let told = place(&browser.post(&format!("/rollouts/{first}"), &form).await);
    let rollout = finished(&api, &api.rollout(told.trim_start_matches("/rollouts/")).await.unwrap()).await;
    assert_eq!((rollout.kind, rollout.total), (RolloutKind::Remove, 2));
    assert_eq!(rollout.comment.as_deref(), Some("the line is being rebuilt"));
    let left: Vec<_> = all_deployments(&api).await.into_iter().map(|one| one.device).collect();
    assert_eq!(left, ["press-3"], "an updated device keeps it");
    server.clock.advance(Duration::from_mins(1));
    let state: serde_json::Value = clients[0].get("/api/v1/deployments").await.json().await.unwrap();
    assert_eq!(state["deployments"], json!([]), "what the device gets when it reconnects");

    eventually("a removal before installation is done after the next contact", async || {
        let done = api.rollout(&rollout.id).await.unwrap().deployments.unwrap();
        (done.of(DeploymentState::Removed) == 1 && done.of(DeploymentState::DeviceOffline) == 1).then_some(())
    })
    .await;

    assert_eq!(place(&browser.post(&format!("/rollouts/{first}"), &form).await), told, "sent twice, done once");
    assert_eq!(refused(api.withdraw_rollout(&first, &WithdrawRollout::default()).await).0, "unchanged");
    assert_eq!(refused(api.withdraw_rollout(&rollout.id, &WithdrawRollout::default()).await).0, "invalid", "a removal");
    assert_eq!(refused(api.withdraw_rollout("nothing", &WithdrawRollout::default()).await).0, "not-found");
}

#[tokio::test]
async fn withdrawing_a_change_restores_the_previous_revision_of_each_device() {
    let server = TestServer::start().await;
    let (api, _browser, clients) = three(&server).await;
    let own = CreateRollout {
        kind: RolloutKind::Reconfigure,
        version: None,
        values: indexmap::IndexMap::from([("interval".to_owned(), json!(90))]),
        ..create("1.0.0", on(&["press-1"]))
    };
    finished(&api, &api.create_rollout(&own).await.unwrap()).await;
    let upgrade = CreateRollout {
        kind: RolloutKind::Upgrade,
        values: indexmap::IndexMap::from([("interval".to_owned(), json!(30))]),
        ..create("1.1.0", selected(""))
    };
    let upgrade = finished(&api, &api.create_rollout(&upgrade).await.unwrap()).await;
    all_but_one_go_offline(&server, &api, &clients).await;

    let body = WithdrawRollout { comment: Some("not this week".to_owned()) };
    let made = api.withdraw_rollout(&upgrade.id, &body).await.unwrap().rollouts;
    assert_eq!(made.len(), 2, "they had different values");
    for rollout in &made {
        assert_eq!((rollout.total, rollout.comment.as_deref()), (1, Some("not this week")));
        finished(&api, rollout).await;
    }
    let all = all_deployments(&api).await;
    let had = |name: &str| {
        let one = all.iter().find(|one| one.device == name).unwrap();
        (one.version.as_str(), one.values["interval"].clone())
    };
    assert_eq!(had("press-1"), ("1.0.0", json!(90)));
    assert_eq!(had("press-2"), ("1.0.0", json!(60)));
    assert_eq!(had("press-3"), ("1.1.0", json!(30)), "an updated device keeps it");
}
