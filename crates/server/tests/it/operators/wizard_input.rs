//! The deploy wizard over plain HTTP keeps everything that was typed or selected.

use super::pages::Browser;
use super::selected_devices::selected_count;
use super::wizard::{ANSWERS, started, text};
use super::*;
use reqwest::StatusCode;
use reqwest::header::LOCATION;
use std::time::Duration;

fn place(answer: &reqwest::Response) -> String {
    answer.headers()[LOCATION].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn going_back_keeps_input_and_selection_valid_or_not() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    press(&server, "press-1", &Kind::default()).await;
    press(&server, "press-2", &Kind::default()).await;
    let draft = started(&browser).await;
    let ticked = [("go", "step:version"), ("shown", "press-1/press-1"), ("device", "press-1/press-1")];
    assert_eq!(place(&browser.post(&format!("{draft}/devices"), &ticked).await), format!("{draft}/version"));
    let page = text(&browser, &format!("{draft}/devices")).await;
    assert!(page.contains(&selected_count(1)) && page.contains("data-chosen=\"0\""), "{page}");
    assert!(page.contains("value=\"step:version\""), "the steps are buttons of the form: {page}");

    // An interval that is too short, and a secret.
    let mut form = [ANSWERS.as_slice(), &[("p:password", "s3cret-value")]].concat();
    (form[0].1, form[1].1, form[2].1) = ("step:devices", "typed by me", "5");
    assert_eq!(place(&browser.post(&format!("{draft}/configuration"), &form).await), format!("{draft}/devices"));
    let page = text(&browser, &format!("{draft}/configuration")).await;
    assert!(page.contains("value=\"typed by me\"") && page.contains("value=\"5\""), "{page}");
    assert!(
        page.contains("role=\"alert\" tabindex=\"-1\" data-reason=\"invalid\"") && page.contains("A value is saved"),
        "{page}"
    );
    assert!(!page.contains("s3cret-value"), "{page}");
    (form[0].1, form[2].1) = ("continue", "60");
    assert_eq!(place(&browser.post(&format!("{draft}/configuration"), &form).await), format!("{draft}/review"));

    // The comment is typed as well.
    let form = [("key", "k"), ("go", "step:configuration"), ("comment", "line 7 is new")];
    assert_eq!(place(&browser.post(&format!("{draft}/review"), &form).await), format!("{draft}/configuration"));
    assert!(text(&browser, &format!("{draft}/review")).await.contains("value=\"line 7 is new\""));
    assert!(all_deployments(&api).await.is_empty(), "going back deploys nothing");
}

#[tokio::test]
async fn a_form_after_the_session_ended_leads_to_sign_in_and_back() {
    let server = TestServer::start().await;
    let (api, mut browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    let draft = started(&browser).await;
    browser.post("/sign-out", &[]).await;
    let from = server.operators_url(&format!("{draft}/configuration?a=b"));
    let late = browser.post_from(&format!("{draft}/configuration"), &ANSWERS, &from).await;
    let encoded: String =
        url::form_urlencoded::byte_serialize(format!("{draft}/configuration?a=b").as_bytes()).collect();
    assert_eq!(place(&late), format!("/sign-in?to={encoded}&ended=yes"));
    let page = text(&browser, &place(&late)).await;
    assert!(page.contains("data-reason=\"session-ended\""), "{page}");
    // A request cannot redirect to another site.
    let foreign = browser.post_from(&format!("{draft}/configuration"), &ANSWERS, "http://evil.example/x").await;
    assert_eq!(place(&foreign), "/sign-in?ended=yes");
    assert_eq!(browser.get("/ui/session").await.status(), StatusCode::UNAUTHORIZED, "the script requests this first");
    browser.sign_in(&[("token", server.admin_token().as_str())]).await;
    assert_eq!(browser.get("/ui/session").await.status(), StatusCode::NO_CONTENT);
    let page = text(&browser, "/").await;
    assert!(page.contains("data-reason=\"drafts\"") && page.contains(&format!("href=\"{draft}/")), "{page}");
}

#[tokio::test]
async fn the_review_lists_offline_devices() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    press(&server, "press-1", &Kind::default()).await;
    server.clock.advance(Duration::from_hours(1));
    press(&server, "press-2", &Kind::default()).await;
    let draft = started(&browser).await;
    let both = [("go", "continue"), ("device", "press-1/press-1"), ("device", "press-2/press-2")];
    browser.post(&format!("{draft}/devices"), &both).await;
    browser
        .post(&format!("{draft}/configuration"), &[ANSWERS.as_slice(), &[("p:password", "s3cret-value")]].concat())
        .await;
    let page = text(&browser, &format!("{draft}/review")).await;
    assert!(page.contains("data-reason=\"update\" data-count=\"2\" data-rollouts=\"1\" data-offline=\"1\""), "{page}");
}

#[tokio::test]
async fn the_application_page_shows_defaults_but_no_secrets() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    let page = text(&browser, &format!("/catalog/{}", packages::ID)).await;
    assert!(page.contains("Default: <code>60</code>") && page.contains("Default: <code>hello</code>"), "{page}");
}
