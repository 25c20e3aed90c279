//! What the pages can do, programs can: cancel, try again, go back, withdraw, search.

use super::packages::{ID, upload};
use super::{Kind, api, deployed, finished, press, problem, report};
use crate::support::{TestServer, actor, client_id, eventually};
use margo::ids::DeploymentId;
use margrave_api::changes::{CancelChange, DiffSign};
use margrave_api::client::{AuditQuery, DeviceQuery, PageQuery};
use margrave_api::clients::{ClientState, CreateEnrolmentToken, InvitationState};
use margrave_api::deployments::{Convergence, RetryDeployment, RevertDeployment, UpdateDeployment};
use margrave_api::policies::{OnFailure, PolicyWish};
use margrave_core::model::{Change, ChangeKind, ChangeTarget};
use margrave_core::policy::Wish;
use margrave_core::time::Clock as _;
use serde_json::json;
use std::time::Duration;
use uuid::Uuid;

/// Recorded without waking the publisher.
async fn recorded(server: &TestServer) -> Uuid {
    let target = ChangeTarget {
        deployment: DeploymentId(Uuid::new_v4()),
        client: client_id("press"),
        target: "press".parse().unwrap(),
        profile: "small".to_owned(),
        expected_revision: Some(1),
    };
    let change = Change {
        id: Uuid::new_v4(),
        kind: ChangeKind::Remove,
        application: ID.parse().unwrap(),
        version: "1.0.0".to_owned(),
        answers: indexmap::IndexMap::new(),
        sensitive: false,
        policy: Wish::default(),
        targets: vec![target],
        done: 0,
        skipped: vec![],
        actor: actor(),
        created_at: server.clock.now(),
        finished_at: None,
    };
    server.state().store.change_create(&change).await.unwrap();
    change.id
}

#[tokio::test]
async fn the_rest_of_a_change_is_cancelled_with_a_reason() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    deployed(&server, "press").await;
    let body = CancelChange { reason: Some("wrong version".to_owned()) };
    // The publisher looks by itself now and then, and may be faster.
    let cancelled = eventually("a change is cancelled before it is carried out", async || {
        let id = recorded(&server).await.to_string();
        let cancelled = api.cancel_change(&id, &body).await.unwrap();
        (cancelled.left > 0).then_some(cancelled)
    })
    .await;
    assert_eq!((cancelled.left, cancelled.change.published, cancelled.change.finished), (1, 0, true));
    let subject = format!("change/{}", cancelled.change.id);
    let records = api.audit(Some(&subject), &PageQuery::default()).await.unwrap().items;
    assert_eq!((records[0].action.as_str(), records[0].reason.as_deref()), ("change.cancel", Some("wrong version")));
    let again = api.cancel_change(&cancelled.change.id, &body).await.unwrap();
    assert_eq!(again.left, 0, "nothing is left");
    assert_eq!(problem(api.cancel_change("nothing", &body).await).code, "not-found");
}

#[tokio::test]
async fn what_failed_is_tried_again_at_once() {
    let server = TestServer::start().await;
    let api = api(&server);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let body = RetryDeployment { reason: Some("the disk is free again".to_owned()) };
    let early = problem(api.retry_deployment(&deployment.id, &body).await);
    assert_eq!(early.code, "unchanged", "it has not failed");
    report(&client, &deployment.id, 2, "failed").await;
    assert_eq!(api.deployment(&deployment.id).await.unwrap().convergence, Convergence::Failed);
    let version = api.client("press").await.unwrap().manifest_version;
    let told = api.retry_deployment(&deployment.id, &body).await.unwrap();
    assert_eq!(told.id, deployment.id);
    assert!(api.client("press").await.unwrap().manifest_version > version, "the device is told once more");
    let query = AuditQuery { action: Some("manifest.renew".to_owned()), ..AuditQuery::default() };
    let records = api.search_audit(&query, &PageQuery::default()).await.unwrap().items;
    assert_eq!(records[0].reason.as_deref(), Some("the disk is free again"));
}

#[tokio::test]
async fn a_deployment_goes_back_to_an_earlier_revision_and_shows_it_first() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    let first = deployed(&server, "press").await;
    upload(&api, "2.0.0").await;
    let upgrade = UpdateDeployment {
        version: Some("2.0.0".to_owned()),
        answers: indexmap::IndexMap::new(),
        policy: PolicyWish::default(),
        reason: None,
    };
    finished(&api, &api.update_deployment(&first.id, &upgrade, None).await.unwrap()).await;
    assert_eq!(api.deployment(&first.id).await.unwrap().version, "2.0.0");
    let back = RevertDeployment { revision: 1, reason: Some("2.0.0 is too slow".to_owned()) };
    let plan = api.plan_revert(&first.id, &back).await.unwrap();
    let added: Vec<_> = plan.targets[0].diff.iter().filter(|line| line.sign == DiffSign::Added).collect();
    assert!(added.iter().any(|line| line.text.contains("vision:1")), "{added:?}");
    assert_eq!(api.deployment(&first.id).await.unwrap().version, "2.0.0", "a dry run changes nothing");
    finished(&api, &api.revert_deployment(&first.id, &back).await.unwrap()).await;
    let now = api.deployment(&first.id).await.unwrap();
    assert_eq!((now.version.as_str(), now.revision, &now.values), ("1.0.0", 3, &first.values));
    let policy = PolicyWish { on_failure: Some(OnFailure::Hold), ..PolicyWish::default() };
    let held = UpdateDeployment { version: None, answers: indexmap::IndexMap::new(), policy, reason: None };
    finished(&api, &api.update_deployment(&first.id, &held, None).await.unwrap()).await;
    let back = RevertDeployment { revision: 3, reason: None };
    finished(&api, &api.revert_deployment(&first.id, &back).await.unwrap()).await;
    let now = api.deployment(&first.id).await.unwrap();
    assert_eq!((now.revision, now.policy), (5, first.policy), "what the device does by itself goes back as well");
    let unknown = RevertDeployment { revision: 9, reason: None };
    assert_eq!(problem(api.revert_deployment(&first.id, &unknown).await).code, "not-found");
}

#[tokio::test]
async fn invitations_are_listed_without_their_tokens_and_withdrawn() {
    let server = TestServer::start().await;
    let api = api(&server);
    let made = api.create_enrolment_token("press", &CreateEnrolmentToken::default()).await.unwrap();
    let short = CreateEnrolmentToken { valid_for_seconds: Some(60), ..CreateEnrolmentToken::default() };
    api.create_enrolment_token("lathe", &short).await.unwrap();
    server.clock.advance(Duration::from_secs(61));
    let listed = api.invitations().await.unwrap().items;
    let state = |client: &str| listed.iter().find(|one| one.client == client).map(|one| one.state);
    assert_eq!((state("press"), state("lathe")), (Some(InvitationState::Open), Some(InvitationState::Expired)));
    assert!(!serde_json::to_string(&listed).unwrap().contains(&made.token));
    assert_eq!(api.withdraw_invitations("press", Some("wrong plant")).await.unwrap().tokens, 1);
    assert_eq!(api.withdraw_invitations("press", None).await.unwrap().tokens, 0);
    assert!(api.invitations().await.unwrap().items.iter().all(|one| one.client != "press"));
}

#[tokio::test]
async fn the_audit_is_searched_by_who_what_about_and_when() {
    let server = TestServer::start().await;
    let api = api(&server);
    let begin = server.clock.now().to_string();
    server.clock.advance(Duration::from_hours(1));
    press(&server, "press-07", &Kind::default()).await;
    let middle = server.clock.now().to_string();
    server.clock.advance(Duration::from_hours(1));
    api.retire_client("press-07", Some("scrapped")).await.unwrap();
    let found = async |query: AuditQuery| {
        let page = PageQuery { limit: Some(2), after: None };
        let found = api.search_audit(&query, &page).await.unwrap().items;
        found.into_iter().map(|record| record.action).collect::<Vec<_>>()
    };
    let all = AuditQuery::default();
    assert_eq!(found(AuditQuery { actor: Some("token:admin".to_owned()), ..all.clone() }).await, ["client.retire"]);
    assert_eq!(found(AuditQuery { action: Some("token".to_owned()), ..all.clone() }).await, ["token.create"]);
    let about = AuditQuery { about: Some("PRESS".to_owned()), ..all.clone() };
    assert_eq!(found(about.clone()).await, ["client.retire", "device.report"], "newest first, two on a page");
    assert_eq!(found(AuditQuery { until: Some(middle), ..about.clone() }).await.len(), 0, "what was done before then");
    assert_eq!(found(AuditQuery { until: Some(begin), ..all.clone() }).await.len(), 0);
    let exact =
        AuditQuery { subject: Some("client/press-07".to_owned()), action: Some("client".to_owned()), ..all.clone() };
    assert_eq!(found(exact).await, ["client.retire", "client.create"]);
    let wrong =
        api.search_audit(&AuditQuery { since: Some("yesterday".to_owned()), ..all }, &PageQuery::default()).await;
    let wrong = problem(wrong);
    assert_eq!((wrong.code.as_str(), wrong.errors[0].field.as_str()), ("invalid", "since"));
}

#[tokio::test]
async fn devices_and_clients_are_found_by_how_they_do() {
    let server = TestServer::start().await;
    let api = api(&server);
    let client = press(&server, "press", &Kind::default()).await;
    press(&server, "lathe", &Kind { labels: json!({ "site": "sued" }), ..Kind::default() }).await;
    server.create("new", margrave_core::model::ClientState::Pending).await;
    let deployment = deployed(&server, "press").await;
    report(&client, &deployment.id, 2, "failed").await;
    let found = async |query: DeviceQuery| {
        let page = api.find_devices(&query, &PageQuery::default()).await?;
        Ok::<_, margrave_api::client::ClientError>(page.items.into_iter().map(|one| one.device).collect::<Vec<_>>())
    };
    let by = |state: Option<&str>, text: Option<&str>| DeviceQuery {
        state: state.map(str::to_owned),
        text: text.map(str::to_owned),
        selector: None,
    };
    assert_eq!(found(by(Some("failing"), None)).await.unwrap(), ["press"]);
    assert_eq!(found(by(Some("failing"), Some("lathe"))).await.unwrap(), [] as [&str; 0], "both must hold");
    assert_eq!(found(by(None, Some("LAT"))).await.unwrap(), ["lathe"]);
    let elsewhere = DeviceQuery { selector: Some("site=sued".to_owned()), ..by(Some("failing"), None) };
    assert!(found(elsewhere).await.unwrap().is_empty());
    let wrong = problem(found(by(Some("good"), None)).await);
    assert!(wrong.detail.contains("`shut-out`"), "{}", wrong.detail);
    let pending = api.clients_in(ClientState::Pending, &PageQuery::default()).await.unwrap().items;
    assert_eq!(pending.iter().map(|client| client.id.as_str()).collect::<Vec<_>>(), ["new"]);
}
