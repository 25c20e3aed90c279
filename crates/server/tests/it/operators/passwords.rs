//! Signing in with a name and a password, and changing it.

use super::pages::Browser;
use super::{api, problem};
use crate::support::TestServer;
use margrave_api::access::SetPassword;
use margrave_api::client::{AuditQuery, PageQuery};
use reqwest::StatusCode;
use reqwest::header::RETRY_AFTER;
use std::time::Duration;

const NEW: &str = "three small words";

async fn attempt(server: &TestServer, name: &str, password: &str) -> (StatusCode, Option<u64>, String) {
    let answer = Browser::new(server).post("/sign-in", &[("name", name), ("password", password)]).await;
    let wait = answer.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap().parse().unwrap());
    (answer.status(), wait, answer.text().await.unwrap())
}

async fn admin(server: &TestServer, password: &str) -> Browser {
    let mut browser = Browser::new(server);
    browser.sign_in(&[("name", "admin"), ("password", password)]).await;
    browser
}

async fn audited(server: &TestServer, action: &str) -> Vec<margrave_api::access::AuditRecord> {
    let query = AuditQuery { action: Some(action.to_owned()), ..AuditQuery::default() };
    api(server).search_audit(&query, &PageQuery::default()).await.unwrap().items
}

#[tokio::test]
async fn the_admin_signs_in_with_the_initial_password_and_is_recorded() {
    let server = TestServer::start().await;
    let browser = admin(&server, &server.admin_password()).await;
    let page = browser.get("/settings/sessions").await.text().await.unwrap();
    assert!(page.contains("Signed in as <b>admin</b>"), "{page}");
    let answer = browser.post("/groups/new", &[("name", "graz"), ("selector", "site=graz")]).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    assert_eq!(audited(&server, "group.create").await[0].actor, "operator:admin");
    let opened = audited(&server, "session.create").await;
    assert_eq!(
        (opened[0].actor.as_str(), &opened[0].after.as_ref().unwrap()["name"]),
        ("operator:admin", &"admin".into())
    );
    // As phones capitalize it.
    let mut other = Browser::new(&server);
    other.sign_in(&[("name", " Admin "), ("password", &server.admin_password())]).await;
    let sessions = api(&server).sessions().await.unwrap().items;
    assert_eq!(sessions.iter().filter(|session| session.actor == "operator:admin").count(), 2);
    assert!(sessions.iter().all(|session| session.address == "127.0.0.1"));
}

#[tokio::test]
async fn does_not_reveal_whether_name_or_password_was_wrong() {
    let server = TestServer::start().await;
    let (known, unknown) = (attempt(&server, "admin", NEW).await, attempt(&server, "absent", NEW).await);
    assert_eq!((known.0, known.1), (StatusCode::UNPROCESSABLE_ENTITY, None));
    assert!(known.2.contains("data-reason=\"wrong-password\""), "{}", known.2);
    assert_eq!(
        known.2.replace("admin\" autocomplete", "absent\" autocomplete"),
        unknown.2,
        "the same page except for the name"
    );
    let huge = "x".repeat(10_000);
    assert_eq!(attempt(&server, "admin", &huge).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    let refused = audited(&server, "session.reject").await;
    let subjects: Vec<&str> = refused.iter().map(|record| record.subject.as_str()).collect();
    assert_eq!(subjects, ["operator/admin", "operator", "operator/admin"], "an unknown name is not recorded");
    assert_eq!(refused[0].after.as_ref().unwrap()["address"], "127.0.0.1");
    let text = serde_json::to_string(&refused).unwrap();
    assert!(!text.contains("absent") && !text.contains(NEW), "{text}");
    assert_eq!(attempt(&server, "", "").await.0, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn rate_limits_guessing_and_shows_when_to_retry() {
    let server = TestServer::start().await;
    for _ in 0..10 {
        assert_eq!(attempt(&server, "admin", NEW).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    }
    let (status, wait, text) = attempt(&server, "admin", &server.admin_password()).await;
    assert_eq!((status, wait), (StatusCode::TOO_MANY_REQUESTS, Some(30)), "even the right one waits");
    assert!(text.contains("data-reason=\"busy\"") && text.contains(" 30 "), "{text}");
    assert_eq!(audited(&server, "session.reject").await.len(), 10, "an attempt that was not checked is not recorded");
    Browser::signed_in(&server).await;
    server.clock.advance(Duration::from_secs(31));
    admin(&server, &server.admin_password()).await;
    for _ in 0..30 {
        admin(&server, &server.admin_password()).await;
    }
}

#[tokio::test]
async fn changing_the_password_requires_the_old_one_and_ends_other_sessions() {
    let server = TestServer::start().await;
    let first = server.admin_password();
    let (here, there) = (admin(&server, &first).await, admin(&server, &first).await);
    let with_token = Browser::signed_in(&server).await;
    let rollout = async |old: &str, new: &str, again: &str| {
        let answer = here.post("/settings/password", &[("old", old), ("password", new), ("again", again)]).await;
        (answer.status(), answer.text().await.unwrap())
    };
    for (old, new, again, field) in [
        ("something else", NEW, NEW, "old"),
        (first.as_str(), NEW, "three small word", "again"),
        (first.as_str(), "short", "short", "password"),
        (first.as_str(), first.as_str(), first.as_str(), "password"),
    ] {
        let (status, text) = rollout(old, new, again).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{field}");
        assert!(text.contains(&format!("data-reason=\"invalid\"><p><a href=\"#{field}\">")), "{field}: {text}");
        assert!(!text.contains(&first) && !text.contains(NEW), "what was typed is not sent back");
    }
    assert_eq!(rollout(&first, NEW, NEW).await.0, StatusCode::SEE_OTHER);
    assert_eq!(here.get("/devices").await.status(), StatusCode::OK, "this session continues");
    assert_eq!(there.get("/devices").await.status(), StatusCode::SEE_OTHER, "the other one ended");
    assert_eq!(with_token.get("/devices").await.status(), StatusCode::OK, "a token is not the operator");
    assert_eq!(attempt(&server, "admin", &first).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    admin(&server, NEW).await;
    let changed = audited(&server, "operator.password").await;
    assert_eq!((changed.len(), changed[0].actor.as_str()), (1, "operator:admin"));
    assert_eq!(changed[0].after.as_ref().unwrap()["sessionsEnded"], 1);
    let file = server.state().config.data_dir.join(margrave_server::run::ADMIN_PASSWORD_FILE);
    assert!(!file.exists(), "the file with the first password is gone");
    let page = with_token.get("/settings/password").await.text().await.unwrap();
    assert!(page.contains("data-reason=\"signed-in-with-token\""), "{page}");
    let answer = with_token.post("/settings/password", &[("old", NEW), ("password", NEW), ("again", NEW)]).await;
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_token_sets_a_password_and_ends_sessions_over_the_api() {
    let server = TestServer::start().await;
    let api = api(&server);
    let browser = admin(&server, &server.admin_password()).await;
    let body = |password: &str| SetPassword { password: password.to_owned(), comment: Some("forgotten".to_owned()) };
    assert!(!format!("{:?}", body(NEW)).contains(NEW));
    let short = problem(api.set_password("admin", &body("short")).await);
    assert_eq!((short.code.as_str(), short.errors[0].field.as_str()), ("invalid", "password"));
    assert_eq!(problem(api.set_password("absent", &body(NEW)).await).code, "not-found");
    let set = api.set_password("admin", &body(NEW)).await.unwrap();
    assert_eq!((set.name.as_str(), set.sessions_ended), ("admin", 1));
    assert_eq!(browser.get("/").await.status(), StatusCode::SEE_OTHER);
    let again = admin(&server, NEW).await;
    let listed = api.sessions().await.unwrap().items;
    assert_eq!(listed.len(), 1, "{listed:?}");
    api.end_session(&listed[0].id, Some("a shared desk")).await.unwrap();
    assert_eq!(again.get("/").await.status(), StatusCode::SEE_OTHER);
    assert_eq!(problem(api.end_session(&listed[0].id, None).await).code, "not-found");
    let operators = api.operators().await.unwrap().items;
    assert_eq!(operators.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["admin"]);
    let record = &audited(&server, "operator.password").await[0];
    assert_eq!((record.actor.as_str(), record.comment.as_deref()), ("token:admin", Some("forgotten")));
}
