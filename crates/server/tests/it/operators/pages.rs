//! The web pages over plain HTTP: access, headers, fragments.

use super::wizard::{ANSWERS, started};
use super::*;
use margrave_api::clients::{ClientState, CreateClient};
use margrave_api::deployments::UpdateDeployment;
use margrave_api::policies::{Drift, OnFailure};
use reqwest::header::{ACCEPT, COOKIE, LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};

/// A minimal browser.
pub(super) struct Browser {
    http: Client,
    base: String,
    cookie: String,
}

impl Browser {
    pub(super) fn new(server: &TestServer) -> Self {
        let http = Client::builder().redirect(Policy::none()).build().unwrap();
        Self { http, base: server.operators_url(""), cookie: String::new() }
    }

    pub(super) async fn signed_in(server: &TestServer) -> Self {
        let mut browser = Self::new(server);
        browser.sign_in(&[("token", server.admin_token().as_str())]).await;
        browser
    }

    /// With any login.
    pub(super) async fn sign_in(&mut self, form: &[(&str, &str)]) {
        let answer = self.post("/sign-in", form).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        let cookie = answer.headers()[SET_COOKIE].to_str().unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        cookie.split(';').next().unwrap().clone_into(&mut self.cookie);
    }

    pub(super) fn cookie(&self) -> &str {
        &self.cookie
    }

    pub(super) async fn get(&self, path: &str) -> Response {
        let request = self.http.get(format!("{}{path}", self.base)).header(ACCEPT, "text/html,*/*;q=0.8");
        request.header(COOKIE, &self.cookie).send().await.unwrap()
    }

    /// As [`Browser::post`], from a named page.
    pub(super) async fn post_from(&self, path: &str, form: &[(&str, &str)], page: &str) -> Response {
        self.sending(path, form).header(reqwest::header::REFERER, page).send().await.unwrap()
    }

    pub(super) async fn post(&self, path: &str, form: &[(&str, &str)]) -> Response {
        self.sending(path, form).send().await.unwrap()
    }

    fn sending(&self, path: &str, form: &[(&str, &str)]) -> reqwest::RequestBuilder {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        let body = body.extend_pairs(form).finish();
        self.http
            .post(format!("{}{path}", self.base))
            .header(COOKIE, &self.cookie)
            .header("sec-fetch-site", "same-origin")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body)
    }
}

#[tokio::test]
async fn pages_require_sign_in() {
    let server = TestServer::start().await;
    let http = Client::builder().redirect(Policy::none()).build().unwrap();
    for path in ["/", "/devices", "/catalog", "/deployments", "/events", "/settings/tokens", "/devices/a/b"] {
        let answer = http.get(server.operators_url(path)).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{path}");
        assert!(answer.headers()[LOCATION].to_str().unwrap().starts_with("/sign-in"), "{path}");
        let answer = http.get(server.operators_url(path)).header("x-fragment", "live").send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path}: a fragment is never another page");
    }
    let elsewhere = http.get(server.operators_url("/devices?q=a")).header("sec-fetch-site", "cross-site");
    let answer = elsewhere.send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let text = answer.text().await.unwrap();
    assert!(text.contains("http-equiv=\"refresh\"") && text.contains("/devices?q=a"), "continues on our own origin");
}

#[tokio::test]
async fn a_fragment_is_the_live_part() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    let whole = browser.get("/devices").await;
    assert_eq!(whole.headers()["vary"], "X-Fragment");
    let whole = whole.text().await.unwrap();
    assert!(whole.starts_with("<!doctype html>"));
    let url = format!("{}/devices", browser.base);
    let part = browser.http.get(url).header(COOKIE, &browser.cookie).header("x-fragment", "live").send().await.unwrap();
    let part = part.text().await.unwrap();
    assert!(part.trim_start().starts_with("<nav id=\"nav\"") && part.contains("<div id=\"live\""), "{part}");
    assert!(!part.contains("<html") && part.len() < whole.len());
}

#[tokio::test]
async fn foreign_text_is_always_escaped() {
    let server = TestServer::start().await;
    let hostile = "<script>alert(1)</script>";
    let client = CreateClient {
        id: "press-07".to_owned(),
        state: Some(ClientState::Pending),
        note: Some(hostile.to_owned()),
        comment: None,
    };
    api(&server).create_client(&client).await.unwrap();
    let browser = Browser::signed_in(&server).await;
    for path in
        ["/settings/identities", "/devices?q=%3Cscript%3E", "/devices?labels=%3Cscript%3E", "/catalog?q=%3Cscript%3E"]
    {
        let text = browser.get(path).await.text().await.unwrap();
        assert!(!text.contains("<script>"), "{path}");
    }
}

#[tokio::test]
async fn an_ended_session_cannot_be_used() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    assert_eq!(browser.get("/devices").await.status(), StatusCode::OK);
    let answer = browser.post("/sign-out", &[]).await;
    assert!(answer.headers()[SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(browser.get("/devices").await.status(), StatusCode::SEE_OTHER, "the cookie is no longer valid");
}

#[tokio::test]
async fn a_form_with_the_same_key_has_one_effect() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    let form = [("key", "k-1"), ("name", "graz"), ("selector", "site=graz"), ("description", ""), ("comment", "")];
    for _ in 0..2 {
        let answer = browser.post("/groups/new", &form).await;
        assert_eq!(
            (answer.status(), answer.headers()[LOCATION].to_str().unwrap()),
            (StatusCode::SEE_OTHER, "/groups/graz")
        );
    }
    let answer = browser.post("/groups/new", &[("key", "k-2"), ("name", "graz"), ("selector", "site=graz")]).await;
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY, "another form with the same name is rejected");
    assert!(answer.text().await.unwrap().contains("data-reason=\"exists\""));
}

#[tokio::test]
async fn every_page_responds_and_shows_its_location() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    for path in [
        "/",
        "/devices",
        "/devices/add",
        "/groups",
        "/groups/new",
        "/catalog",
        "/catalog/add",
        "/deployments",
        "/rollouts",
        "/events",
        "/audit",
        "/settings/tokens",
        "/settings/password",
        "/settings/sessions",
        "/settings/identities",
        "/settings/enrollment-tokens",
        "/settings/registries",
        "/settings/registries/add",
        "/settings/certificates",
    ] {
        let answer = browser.get(path).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        assert_eq!(answer.headers()["cache-control"], "no-store", "{path}");
        let text = answer.text().await.unwrap();
        assert_eq!(text.matches("<h1").count(), 1, "{path} has one heading");
        assert!(text.contains("- Margrave</title>"), "{path}");
    }
    for path in ["/rollouts/nothing", "/deployments/nothing", "/catalog/nothing", "/deploy/nothing/version", "/nothing"]
    {
        let answer = browser.get(path).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
        assert!(answer.text().await.unwrap().contains("Request ID"), "{path}");
    }
}

#[tokio::test]
async fn a_retry_publishes_a_new_revision_of_the_same_content() {
    for (policy, further) in [(OnFailure::KeepPartial, 0), (OnFailure::Stop, 1), (OnFailure::Rollback, 1)] {
        let server = TestServer::start().await;
        let (api, browser) = (api(&server), Browser::signed_in(&server).await);
        let client = press(&server, "plain", &Kind::default()).await;
        let before = deployed(&server, "plain").await;
        let wish = PolicyPatch { on_failure: Some(policy), drift: Some(Drift::Report), on_removal: None };
        let body = UpdateDeployment { policy: wish, ..UpdateDeployment::default() };
        finished(&api, &api.update_deployment(&before.id, &body, None).await.unwrap()).await;
        let held = api.deployment(&before.id).await.unwrap();
        let id = &before.id;
        report(&client, id, held.target_version, "failed").await;
        let answer =
            browser.post(&format!("/deployments/{id}"), &[("action", "retry"), ("comment", "made room")]).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        let after = eventually("the device has a new manifest", async || {
            let now = api.deployment(&before.id).await.unwrap();
            (now.target_version > held.target_version).then_some(now)
        })
        .await;
        assert_eq!(after.revision, held.revision + further, "{policy:?}");
        assert_eq!((after.values, after.policy), (held.values, held.policy), "{policy:?}");
        let same = api.deployment_document(&before.id, None).await.unwrap()
            == api.deployment_document(&before.id, Some(held.revision)).await.unwrap();
        assert_eq!(same, further == 0, "a changed document makes a stopped device retry");
        let answer = browser.post(&format!("/deployments/{id}"), &[("action", "retry")]).await;
        assert_ne!(answer.status(), StatusCode::SEE_OTHER, "it is no longer failed");
    }
}

#[tokio::test]
async fn computes_the_review_of_many_devices_in_the_background() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    let (large, small) = (Kind::default(), Kind { memory: "512Mi", types: &["compose"], ..Kind::default() });
    for number in 0..203 {
        press(&server, &format!("press-{number:03}"), if number < 3 { &small } else { &large }).await;
    }
    let draft = started(&browser).await;
    browser.post(&format!("{draft}/devices"), &[("go", "all")]).await;
    let answers = [ANSWERS.as_slice(), &[("p:password", "s3cret-value")]].concat();
    let kept = browser.post(&format!("{draft}/configuration"), &answers).await;
    assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/review"));
    let text = eventually("it is computed", async || {
        let text = browser.get(&format!("{draft}/review")).await.text().await.unwrap();
        let in_progress = text.contains("data-reason=\"in-progress\"");
        assert!(in_progress || text.contains("data-reason=\"update\" data-count=\"200\""), "{text}");
        (!in_progress).then_some(text)
    })
    .await;
    assert!(text.contains("<section class=\"panel\" data-count=\"200\"") && text.contains("188"), "{text}");
    assert!(text.contains("\" data-count=\"3\"><span") && text.contains("press-000, press-001, press-002"), "{text}");
    assert!(text.contains("data-action=\"deploy\"") && !text.contains("s3cret-value"), "{text}");
    let answer = browser.post(&format!("{draft}/review"), &[("key", "k"), ("comment", "all of them")]).await;
    let rollout = answer.headers()[LOCATION].to_str().unwrap().trim_start_matches("/rollouts/").to_owned();
    assert_eq!(api.rollout(&rollout).await.unwrap().total, 200);
}

#[tokio::test]
async fn a_page_links_to_actions_and_shows_no_command() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "plain", &Kind::default()).await;
    let deployment = deployed(&server, "plain").await;
    report(&client, &deployment.id, deployment.target_version, "failed").await;
    let deployment_page = format!("/deployments/{}", deployment.id);
    let could = format!("/catalog/{}/compatibility", packages::ID);
    let check = async |path: &str, link: String| {
        let text = browser.get(path).await.text().await.unwrap();
        assert!(text.contains(&format!("<a class=\"way\" href=\"{link}\"")), "{path} does not lead to {link}: {text}");
        assert!(!text.contains("<code>margrave "), "{path} names a command: {text}");
    };
    check(&deployment_page, format!("{deployment_page}?ask=retry")).await;
    check("/devices/plain/plain", deployment_page.clone()).await;
    check(&could, deployment_page.clone()).await;
    server.set_state("plain", margrave_core::model::ClientState::Decommissioned).await;
    check("/devices/plain/plain", "/clients/plain?ask=accept".to_owned()).await;
    // The CLI shows the command next to the same sentence.
    let explained = api.explain_device("plain", "plain").await.unwrap();
    let accept = explained.next_steps.iter().find(|fact| fact.code == "accept-client").unwrap();
    assert_eq!(accept.command.as_deref(), Some("margrave client accept plain"));
}
