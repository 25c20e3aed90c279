//! Clients and their identities.

use super::{api, problem, refused};
use crate::support::{TestServer, client_id, eventually, pki};
use futures_util::poll;
use margrave_api::client::PageQuery;
use margrave_api::clients::{ClientState, CreateClient, CreateEnrollmentToken, IssueSvid, UpdateClient};
use margrave_core::model;
use margrave_server::app::access::Caller;
use margrave_server::app::clients;
use sqlx::Connection as _;

fn body(id: &str) -> CreateClient {
    CreateClient { id: id.to_owned(), state: None, note: Some("hall 3".to_owned()), comment: None }
}

#[tokio::test]
async fn creates_accepts_decommissions_and_accepts_a_client_again() {
    let server = TestServer::start().await;
    let api = api(&server);
    let client = api.create_client(&body("press")).await.unwrap();
    assert_eq!((client.state, client.manifest_version), (ClientState::Accepted, 1));
    assert!(client.spiffe_id.ends_with("/client/press"), "{}", client.spiffe_id);
    let device = server.device("press");
    assert_eq!(device.get("/api/v1/deployments").await.status(), 200);
    api.decommission_client("press", Some("scrapped")).await.unwrap();
    assert_eq!(device.get("/api/v1/deployments").await.status(), 403);
    assert_eq!(api.accept_client("press", None).await.unwrap().state, ClientState::Accepted);
    assert_eq!(device.get("/api/v1/deployments").await.status(), 200);
}

#[tokio::test]
async fn rejects_invalid_clients() {
    let server = TestServer::start().await;
    let api = api(&server);
    api.create_client(&body("press")).await.unwrap();
    assert_eq!(problem(api.create_client(&body("press")).await).code, "exists");
    assert_eq!(refused(api.create_client(&body("a/b")).await), ("invalid".to_owned(), vec!["id".to_owned()]));
    assert_eq!(problem(api.client("absent").await).code, "not-found");
    assert_eq!(problem(api.accept_client("absent", None).await).code, "not-found");
    let pending = UpdateClient { state: ClientState::Pending, comment: None };
    assert_eq!(problem(api.update_client("press", &pending, None).await).code, "invalid");
}

#[tokio::test]
async fn rejects_an_update_for_an_older_revision() {
    let server = TestServer::start().await;
    let api = api(&server);
    let seen = api.create_client(&body("press")).await.unwrap().revision;
    let decommission = UpdateClient { state: ClientState::Decommissioned, comment: None };
    let now = api.update_client("press", &decommission, Some(seen)).await.unwrap().revision;
    assert!(now > seen);
    let late = problem(api.update_client("press", &decommission, Some(seen)).await);
    assert_eq!((late.status, late.code.as_str()), (412, "conflict"));
    assert!(late.detail.contains("read it again"), "{}", late.detail);
}

#[tokio::test]
async fn the_etag_is_the_quoted_revision() {
    let server = TestServer::start().await;
    let client = api(&server).create_client(&body("press")).await.unwrap();
    let response = crate::support::client::plain()
        .get(server.operators_url("/api/clients/press"))
        .bearer_auth(server.admin_token())
        .send()
        .await
        .unwrap();
    assert_eq!(response.headers()["etag"].to_str().unwrap(), format!("\"{}\"", client.revision));
}

#[tokio::test]
async fn issues_an_svid_for_the_callers_key_but_not_for_a_decommissioned_client() {
    let server = TestServer::start().await;
    let api = api(&server);
    api.create_client(&body("press")).await.unwrap();
    let request = IssueSvid { csr: pki::csr(&pki::key()), valid_for_seconds: Some(3600) };
    let issued = api.issue_svid("press", &request).await.unwrap();
    assert!(issued.spiffe_id.ends_with("/client/press"));
    assert!(issued.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
    assert!(issued.wfm_url.starts_with("https://"), "{}", issued.wfm_url);
    let bad = IssueSvid { csr: "hello".to_owned(), valid_for_seconds: None };
    assert_eq!(refused(api.issue_svid("press", &bad).await), ("invalid".to_owned(), vec!["csr".to_owned()]));
    assert_eq!(problem(api.issue_svid("absent", &request).await).code, "not-found");
    api.decommission_client("press", None).await.unwrap();
    assert_eq!(problem(api.issue_svid("press", &request).await).code, "invalid");
}

#[tokio::test]
async fn an_enrollment_token_names_the_server_and_its_trust() {
    let server = TestServer::start().await;
    let api = api(&server);
    let token = api.create_enrollment_token("lathe", &CreateEnrollmentToken::default()).await.unwrap();
    let trust = api.trust().await.unwrap();
    assert_eq!((&token.trust_url, &token.pin), (&trust.trust_url, &trust.pin));
    assert!(trust.wfm_spiffe_id.starts_with(&format!("spiffe://{}/", trust.trust_domain)));
    assert!(trust.trust_bundle.contains("BEGIN CERTIFICATE") && trust.https_ca.contains("BEGIN CERTIFICATE"));
    let endless = CreateEnrollmentToken { valid_for_seconds: Some(u64::MAX), ..CreateEnrollmentToken::default() };
    assert_eq!(problem(api.create_enrollment_token("lathe", &endless).await).code, "invalid");
    let records = api.audit(None, &PageQuery::default()).await.unwrap().items;
    let told = serde_json::to_string(&records).unwrap();
    assert!(!told.contains(&token.token), "the secret is nowhere in the audit");
}

#[tokio::test]
async fn an_aborted_call_keeps_the_row_and_the_cache_consistent() {
    let server = TestServer::start().await;
    let api = api(&server);
    api.create_client(&body("press")).await.unwrap();
    let state = server.state();
    let mut other_writer = sqlx::SqliteConnection::connect(&state.config.store_url()).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other_writer).await.unwrap();
    {
        let caller = Caller { id: uuid::Uuid::nil(), name: "token:test".to_owned(), request_id: None, call: None };
        let decommission = UpdateClient { state: ClientState::Decommissioned, comment: None };
        let mut request = std::pin::pin!(clients::update(state, &caller, "press", decommission, None));
        assert!(poll!(request.as_mut()).is_pending());
        // What happens to a handler when its connection breaks: it is dropped in the middle of the write.
    }
    sqlx::query("ROLLBACK").execute(&mut other_writer).await.unwrap();
    eventually("the client is blocked", async || {
        let head = state.heads.get(&client_id("press")).unwrap();
        (head.state == model::ClientState::Decommissioned).then_some(())
    })
    .await;
    assert_eq!(api.client("press").await.unwrap().state, ClientState::Decommissioned);
}

#[tokio::test]
async fn requires_confirmation_for_a_token_of_a_known_device() {
    let server = TestServer::start().await;
    let api = api(&server);
    // Pre-approved clients may always get a token.
    let expected = CreateClient { id: "lathe".to_owned(), state: None, note: None, comment: None };
    api.create_client(&expected).await.unwrap();
    api.create_enrollment_token("lathe", &CreateEnrollmentToken::default()).await.unwrap();

    super::press(&server, "press", &super::Kind::default()).await;
    let refused = super::problem(api.create_enrollment_token("press", &CreateEnrollmentToken::default()).await);
    assert_eq!((refused.code.as_str(), refused.status), ("in-use", 409));
    assert!(refused.detail.contains("a device enrolled with another token replaces `press`"), "{refused:?}");
    let again = CreateEnrollmentToken { again: true, ..CreateEnrollmentToken::default() };
    assert!(!api.create_enrollment_token("press", &again).await.unwrap().token.is_empty());

    let stranger = server.device("stranger");
    crate::support::client::refused(stranger.get("/api/v1/deployments").await, 403, Some("not-authorized")).await;
    let id = crate::support::client_id("stranger");
    crate::support::eventually("it is recorded", async || server.state().heads.get(&id)).await;
    let refused = super::problem(api.create_enrollment_token("stranger", &CreateEnrollmentToken::default()).await);
    assert!(refused.code == "in-use" && refused.detail.contains("accept it instead"), "{refused:?}");
}
