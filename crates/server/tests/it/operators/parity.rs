//! The API can do what the pages can: cancel, retry, roll back, withdraw, search.

use super::packages::{ID, upload};
use super::{Kind, api, deployed, finished, press, problem, report};
use crate::support::{TestServer, actor, client_id, eventually};
use margo::ids::DeploymentId;
use margrave_api::client::{AuditQuery, DeviceQuery, PageQuery};
use margrave_api::clients::{ClientState, CreateEnrollmentToken, EnrollmentTokenState};
use margrave_api::deployments::{DeploymentState, RetryDeployment, RollbackDeployment, UpdateDeployment};
use margrave_api::policies::{OnFailure, PolicyPatch};
use margrave_api::rollouts::{CancelRollout, DiffSign};
use margrave_core::model::{Rollout, RolloutKind, RolloutTarget};
use margrave_core::policy::PolicyUpdate;
use margrave_core::time::Clock as _;
use serde_json::json;
use std::time::Duration;
use uuid::Uuid;

/// Recorded without waking the publisher.
async fn recorded(server: &TestServer) -> Uuid {
    let target = RolloutTarget {
        deployment: DeploymentId(Uuid::new_v4()),
        client: client_id("press"),
        target: "press".parse().unwrap(),
        profile: "small".to_owned(),
        expected_revision: Some(1),
    };
    let rollout = Rollout {
        id: Uuid::new_v4(),
        kind: RolloutKind::Remove,
        application: ID.parse().unwrap(),
        version: "1.0.0".to_owned(),
        values: indexmap::IndexMap::new(),
        sensitive: false,
        policy: PolicyUpdate::default(),
        targets: vec![target],
        done: 0,
        skipped: vec![],
        actor: actor(),
        created_at: server.clock.now(),
        finished_at: None,
        rollback_to: None,
    };
    server.state().store.rollout_create(&rollout).await.unwrap();
    rollout.id
}

#[tokio::test]
async fn cancels_the_rest_of_a_rollout_with_a_comment() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    deployed(&server, "press").await;
    let body = CancelRollout { comment: Some("wrong version".to_owned()) };
    // The publisher rechecks from time to time, and may be faster.
    let cancelled = eventually("a rollout is cancelled before it is carried out", async || {
        let id = recorded(&server).await.to_string();
        let cancelled = api.cancel_rollout(&id, &body).await.unwrap();
        (cancelled.left > 0).then_some(cancelled)
    })
    .await;
    assert_eq!((cancelled.left, cancelled.rollout.published, cancelled.rollout.finished), (1, 0, true));
    let subject = format!("rollout/{}", cancelled.rollout.id);
    let records = api.audit(Some(&subject), &PageQuery::default()).await.unwrap().items;
    assert_eq!((records[0].action.as_str(), records[0].comment.as_deref()), ("rollout.cancel", Some("wrong version")));
    let again = api.cancel_rollout(&cancelled.rollout.id, &body).await.unwrap();
    assert_eq!(again.left, 0, "nothing is left");
    assert_eq!(problem(api.cancel_rollout("nothing", &body).await).code, "not-found");
}

#[tokio::test]
async fn retries_a_failed_deployment_at_once() {
    let server = TestServer::start().await;
    let api = api(&server);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let body = RetryDeployment { comment: Some("the disk is free again".to_owned()) };
    let early = problem(api.retry_deployment(&deployment.id, &body).await);
    assert_eq!(early.code, "unchanged", "it has not failed");
    report(&client, &deployment.id, 2, "failed").await;
    assert_eq!(api.deployment(&deployment.id).await.unwrap().state, DeploymentState::Failed);
    let version = api.client("press").await.unwrap().manifest_version;
    let told = api.retry_deployment(&deployment.id, &body).await.unwrap();
    assert_eq!(told.id, deployment.id);
    assert!(api.client("press").await.unwrap().manifest_version > version, "the desired state is republished");
    let query = AuditQuery { action: Some("manifest.republish".to_owned()), ..AuditQuery::default() };
    let records = api.search_audit(&query, &PageQuery::default()).await.unwrap().items;
    assert_eq!(records[0].comment.as_deref(), Some("the disk is free again"));
}

#[tokio::test]
async fn previews_and_performs_a_rollback() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    let first = deployed(&server, "press").await;
    upload(&api, "2.0.0").await;
    let upgrade = UpdateDeployment {
        version: Some("2.0.0".to_owned()),
        values: indexmap::IndexMap::new(),
        policy: PolicyPatch::default(),
        comment: None,
    };
    finished(&api, &api.update_deployment(&first.id, &upgrade, None).await.unwrap()).await;
    assert_eq!(api.deployment(&first.id).await.unwrap().version, "2.0.0");
    let back = RollbackDeployment { revision: 1, comment: Some("2.0.0 is too slow".to_owned()) };
    let plan = api.plan_revert(&first.id, &back).await.unwrap();
    let added: Vec<_> = plan.targets[0].diff.iter().filter(|line| line.sign == DiffSign::Added).collect();
    assert!(added.iter().any(|line| line.text.contains("vision:1")), "{added:?}");
    assert_eq!(api.deployment(&first.id).await.unwrap().version, "2.0.0", "a dry run changes nothing");
    finished(&api, &api.rollback_deployment(&first.id, &back).await.unwrap()).await;
    let now = api.deployment(&first.id).await.unwrap();
    assert_eq!((now.version.as_str(), now.revision, &now.values), ("1.0.0", 3, &first.values));
    let rollbacks: Vec<_> =
        api.deployment_revisions(&first.id).await.unwrap().items.into_iter().map(|one| one.rollback_to).collect();
    assert_eq!(rollbacks, [Some(1), None, None]);
    assert_eq!(api.rollout(&now.rollout).await.unwrap().rollback_to, Some(1));
    let browser = super::pages::Browser::signed_in(&server).await;
    let page = super::lists::text(&browser, &format!("/deployments/{}", first.id)).await;
    let row = page.split("rolled back to revision 1, version 1.0.0").nth(1).unwrap().split("</tr>").next().unwrap();
    let dropped = "Mode: <del>normal</del> <ins>not set</ins>";
    assert!(row.contains(dropped), "a parameter of the newer version alone is named as well: {row}");
    let policy = PolicyPatch { on_failure: Some(OnFailure::Stop), ..PolicyPatch::default() };
    let held = UpdateDeployment { version: None, values: indexmap::IndexMap::new(), policy, comment: None };
    finished(&api, &api.update_deployment(&first.id, &held, None).await.unwrap()).await;
    let back = RollbackDeployment { revision: 3, comment: None };
    finished(&api, &api.rollback_deployment(&first.id, &back).await.unwrap()).await;
    let now = api.deployment(&first.id).await.unwrap();
    assert_eq!((now.revision, now.policy), (5, first.policy), "the policies are rolled back as well");
    let unknown = RollbackDeployment { revision: 9, comment: None };
    assert_eq!(problem(api.rollback_deployment(&first.id, &unknown).await).code, "not-found");
}

#[tokio::test]
async fn lists_enrollment_tokens_without_secrets_and_revokes_them() {
    let server = TestServer::start().await;
    let api = api(&server);
    let made = api.create_enrollment_token("press", &CreateEnrollmentToken::default()).await.unwrap();
    let short = CreateEnrollmentToken { valid_for_seconds: Some(60), ..CreateEnrollmentToken::default() };
    api.create_enrollment_token("lathe", &short).await.unwrap();
    server.clock.advance(Duration::from_secs(61));
    let listed = api.enrollment_tokens().await.unwrap().items;
    let state = |client: &str| listed.iter().find(|one| one.client == client).map(|one| one.state);
    assert_eq!(
        (state("press"), state("lathe")),
        (Some(EnrollmentTokenState::Active), Some(EnrollmentTokenState::Expired))
    );
    assert!(!serde_json::to_string(&listed).unwrap().contains(&made.token));
    assert_eq!(api.revoke_enrollment_tokens("press", Some("wrong plant")).await.unwrap().tokens, 1);
    assert_eq!(api.revoke_enrollment_tokens("press", None).await.unwrap().tokens, 0);
    assert!(api.enrollment_tokens().await.unwrap().items.iter().all(|one| one.client != "press"));
}

#[tokio::test]
async fn searches_the_audit_by_actor_action_target_and_time() {
    let server = TestServer::start().await;
    let api = api(&server);
    let begin = server.clock.now().to_string();
    server.clock.advance(Duration::from_hours(1));
    press(&server, "press-07", &Kind::default()).await;
    let middle = server.clock.now().to_string();
    server.clock.advance(Duration::from_hours(1));
    api.decommission_client("press-07", Some("scrapped")).await.unwrap();
    let found = async |query: AuditQuery| {
        let page = PageQuery { limit: Some(2), after: None };
        let found = api.search_audit(&query, &page).await.unwrap().items;
        found.into_iter().map(|record| record.action).collect::<Vec<_>>()
    };
    let all = AuditQuery::default();
    assert_eq!(
        found(AuditQuery { actor: Some("token:admin".to_owned()), ..all.clone() }).await,
        ["client.decommission"]
    );
    assert_eq!(found(AuditQuery { action: Some("token".to_owned()), ..all.clone() }).await, ["token.create"]);
    let about = AuditQuery { about: Some("PRESS".to_owned()), ..all.clone() };
    assert_eq!(found(about.clone()).await, ["client.decommission", "device.report"], "newest first, two on a page");
    assert_eq!(found(AuditQuery { until: Some(middle), ..about.clone() }).await.len(), 0, "what was done before then");
    assert_eq!(found(AuditQuery { until: Some(begin), ..all.clone() }).await.len(), 0);
    let exact =
        AuditQuery { subject: Some("client/press-07".to_owned()), action: Some("client".to_owned()), ..all.clone() };
    assert_eq!(found(exact).await, ["client.decommission", "client.create"]);
    let wrong =
        api.search_audit(&AuditQuery { since: Some("yesterday".to_owned()), ..all }, &PageQuery::default()).await;
    let wrong = problem(wrong);
    assert_eq!((wrong.code.as_str(), wrong.errors[0].field.as_str()), ("invalid", "since"));
}

#[tokio::test]
async fn finds_devices_and_clients_by_state() {
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
        ..DeviceQuery::default()
    };
    assert_eq!(found(by(Some("failed"), None)).await.unwrap(), ["press"]);
    assert_eq!(found(by(Some("failed"), Some("lathe"))).await.unwrap(), [] as [&str; 0], "both must match");
    assert_eq!(found(by(None, Some("LAT"))).await.unwrap(), ["lathe"]);
    let elsewhere = DeviceQuery { selector: Some("site=sued".to_owned()), ..by(Some("failed"), None) };
    assert!(found(elsewhere).await.unwrap().is_empty());
    let wrong = problem(found(by(Some("good"), None)).await);
    assert!(wrong.detail.contains("`blocked`"), "{}", wrong.detail);
    let pending = api.clients_in(ClientState::Pending, &PageQuery::default()).await.unwrap().items;
    assert_eq!(pending.iter().map(|client| client.id.as_str()).collect::<Vec<_>>(), ["new"]);
}
