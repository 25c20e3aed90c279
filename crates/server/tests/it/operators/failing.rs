//! Since when and how often a deployment fails, on the pages of events.

use super::lists::{has, lacks, text};
use super::pages::Browser;
use super::*;
use margrave_core::time::Clock as _;
use std::time::Duration;

/// The entries of a page of events, newest first.
fn entries(page: &str) -> Vec<&str> {
    page.split("<li id=\"e-").skip(1).map(|entry| entry.split("</li>").next().unwrap()).collect()
}

#[tokio::test]
async fn an_event_of_a_resolved_failure_has_no_counts_of_the_present_one() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let say = async |state: &str| {
        server.clock.advance(Duration::from_mins(1));
        report(&client, &deployment.id, deployment.target_version, state).await;
    };
    for state in ["failed", "installed"] {
        say(state).await;
    }
    server.clock.advance(Duration::from_mins(1));
    let between = server.clock.now().to_string();
    for state in ["failed", "installing", "failed"] {
        say(state).await;
    }
    let failing = api.deployment(&deployment.id).await.unwrap().failing.unwrap();
    assert_eq!(failing.attempts, 2);

    let page = text(&browser, "/events?kind=deployment.failed").await;
    let all = entries(&page);
    assert_eq!(all.len(), 2, "{page}");
    has(all[0], &["Failing since", &format!("datetime=\"{}\"", failing.since), "2 attempts"]);
    lacks(all[1], &["Failing since"]);
    let page = text(&browser, &format!("/events?kind=deployment.failed&until={between}")).await;
    let old = entries(&page);
    assert_eq!(old.len(), 1, "{page}");
    lacks(old[0], &["Failing since"]);

    let page = text(&browser, "/devices/press/press").await;
    let happened = page.split("id=\"happened\"").nth(1).unwrap().split("</section>").next().unwrap();
    assert_eq!(happened.matches("Failing since").count(), 1, "{happened}");
    has(happened, &["2 attempts"]);
}
