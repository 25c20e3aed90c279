//! What devices say, what they were told, and when: on pages and in lists.

use super::pages::Browser;
use super::places::{counted_anew, has, lacks, text};
use super::*;
use crate::support::client_id;
use margrave_api::client::{AuditQuery, EventQuery};
use margrave_api::deployments::{Convergence, RetryDeployment, UpdateDeployment};
use margrave_api::devices::PutGroup;
use margrave_api::policies::OnRemoval;
use margrave_core::time::Clock as _;
use margrave_store::SeenAt;
use std::time::Duration;

#[tokio::test]
async fn what_should_run_is_told_apart_from_what_the_device_says_runs() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let page = text(&browser, "/devices/press/press").await;
    let unknown = "Unknown: nothing reported yet</span>";
    has(&page, &["<dt>Should run</dt> <dd>1</dd>", ">not reported running</span>", unknown]);
    has(&page, &["1 unknown: nothing reported yet</span>", "run version 1.0.0, revision 1"]);
    lacks(&page, &[">1 application<", "reported running</span></span>"]);
    has(&text(&browser, "/devices").await, &[">Should run</th>", ">not reported running</div>"]);

    report(&client, &deployment.id, deployment.target_version, "installed").await;
    let page = text(&browser, "/devices/press/press").await;
    has(&page, &["<span class=\"soft\">reported running</span>", "<dt>Should run</dt> <dd>1</dd>", "Installed</span>"]);
    lacks(&page, &[unknown]);
    has(&text(&browser, "/devices").await, &[">reported running</div>"]);

    let removal = api.remove_deployment(&deployment.id, None, None).await.unwrap();
    finished(&api, &removal).await;
    let page = text(&browser, "/devices/press/press").await;
    has(&page, &["<dt>Should run</dt> <dd>0</dd>", "<dt>To be removed</dt> <dd>1</dd>", "<dd>be removed</dd>"]);
}

#[tokio::test]
async fn a_later_revision_that_is_tried_again_waits_in_every_list() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let first = deployed(&server, "press").await;
    let id = &first.id;
    report(&client, id, first.target_version, "installed").await;
    let wish = PolicyWish { on_removal: Some(OnRemoval::Purge), ..PolicyWish::default() };
    let body = UpdateDeployment { policy: wish, ..UpdateDeployment::default() };
    finished(&api, &api.update_deployment(id, &body, None).await.unwrap()).await;
    let second = api.deployment(id).await.unwrap();
    assert_eq!(api.deployment(id).await.unwrap().convergence, Convergence::OlderRevision, "it has the one before");
    report(&client, id, second.target_version, "failed").await;
    api.retry_deployment(id, &RetryDeployment { reason: None }).await.unwrap();

    let told = api.deployment(id).await.unwrap();
    assert_eq!((told.revision, told.convergence), (2, Convergence::Waiting));
    assert!(told.target_version > second.target_version);
    assert!(told.explanation.contains("was told revision 2 (1.0.0) once more"), "{}", told.explanation);
    let explained = api.explain_deployment(id).await.unwrap();
    assert_eq!((explained.state.as_str(), explained.summary), ("waiting", told.explanation.clone()));
    // Kept in the database now and then; filters and counts read it there.
    let seen = SeenAt { client: client_id("press"), at: server.state().now() };
    server.state().store.seen_write(&[seen]).await.unwrap();
    let waiting = DeploymentQuery { convergence: Some(Convergence::Waiting), ..DeploymentQuery::default() };
    let older = DeploymentQuery { convergence: Some(Convergence::OlderRevision), ..DeploymentQuery::default() };
    assert_eq!(api.deployments(&waiting, &PageQuery::default()).await.unwrap().items.len(), 1);
    assert_eq!(api.deployments(&older, &PageQuery::default()).await.unwrap().items.len(), 0);
    let counts = api.change(&told.change).await.unwrap().deployments.unwrap();
    assert_eq!((counts.of(Convergence::Waiting), counts.of(Convergence::OlderRevision)), (1, 0));
    // A list has the state once, as the tile that counts none.
    let (change, deployment) = (format!("/changes/{}", told.change), format!("/deployments/{id}"));
    let pages = [("/deployments", 1), ("/devices/press/press", 0), (change.as_str(), 1), (deployment.as_str(), 0)];
    for (path, tiles) in pages {
        let page = text(&browser, path).await;
        has(&page, &["Waiting for the device", "once more and has not answered yet"]);
        lacks(&page, &["is on an older revision"]);
        assert_eq!(page.matches("older revision</span>").count(), tiles, "{path}");
    }
}

#[tokio::test]
async fn a_device_that_tries_again_by_itself_has_failed_until_it_succeeds() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let (id, version) = (&deployment.id, deployment.target_version);
    report(&client, id, version, "failed").await;
    report(&client, id, version, "installing").await;

    let tried = api.deployment(id).await.unwrap();
    assert_eq!(tried.convergence, Convergence::Failed);
    assert_eq!(tried.status.unwrap().state, "installing");
    assert_eq!(tried.failed_with.unwrap().state, "failed");
    assert!(tried.explanation.ends_with("; the device is trying again now"), "{}", tried.explanation);
    let explained = api.explain_deployment(id).await.unwrap();
    assert_eq!((explained.state.as_str(), &explained.summary), ("failed", &tried.explanation));
    let failed = DeploymentQuery { convergence: Some(Convergence::Failed), ..DeploymentQuery::default() };
    assert_eq!(api.deployments(&failed, &PageQuery::default()).await.unwrap().items.len(), 1);
    assert_eq!(api.summary().await.unwrap().deployments.of(Convergence::Failed), 1);
    let again = api.change(&tried.change).await.unwrap();
    assert_eq!(again.deployments.unwrap().of(Convergence::Failed), 1);
    counted_anew(&server);
    has(&text(&browser, "/").await, &["failed on 1 device", "trying again now", "1 failed - Overview"]);
    let change = format!("/changes/{}", tried.change);
    for (path, tiles) in [("/deployments?state=failed", 1), ("/devices/press/press", 0), (change.as_str(), 1)] {
        let page = text(&browser, path).await;
        has(&page, &["Failed</span>", "rying again now"]);
        assert_eq!(page.matches("Applying</span>").count(), tiles, "{path}");
    }
    has(&text(&browser, "/devices?state=failing").await, &["press"]);

    report(&client, id, version, "installed").await;
    let done = api.deployment(id).await.unwrap();
    assert_eq!((done.convergence, done.failed_with), (Convergence::Converged, None));
    counted_anew(&server);
    lacks(&text(&browser, "/").await, &["failed on 1 device", "trying again now"]);
    let told: Vec<String> = api
        .events(&EventQuery { kind: Some("deployment".into()), ..EventQuery::default() }, false, &PageQuery::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|event| event.message)
        .collect();
    assert!(told.iter().any(|message| message.ends_with("on `press` is tried again")), "{told:?}");
}

#[tokio::test]
async fn what_is_watched_goes_on_without_script_and_keeps_a_place_for_every_state() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let (change, page_of_it) = (format!("/changes/{}", deployment.change), format!("/deployments/{}", deployment.id));
    let again = "<noscript><meta http-equiv=\"refresh\"";
    let page = text(&browser, &change).await;
    has(&page, &[again, "<b>0</b> <span class=\"state tone-bad\">"]);
    // Whether its client counts as heard of yet depends on when that was last written down.
    let said = ["Told; waiting for the device to finish.", "1 device does not call; it waits until it does."];
    assert!(said.iter().any(|said| page.contains(&format!("role=\"status\">{said}<"))), "{page}");
    has(&text(&browser, &page_of_it).await, &[again]);
    report(&client, &deployment.id, deployment.target_version, "installed").await;
    for path in [&change, &page_of_it] {
        lacks(&text(&browser, path).await, &[again]);
    }
    has(
        &text(&browser, &change).await,
        &["Finished: done everywhere.", "Applying</span>", "Device not heard of</span>"],
    );

    let at = "data-exact>20";
    has(&text(&browser, "/activity/audit").await, &[at]);
    let page = text(&browser, "/devices/press/press").await;
    has(&page, &[at, "Heard of</span>", "<span>now</span>", "Installed</span>"]);
    let page = text(&browser, "/deployments").await;
    has(&page, &["<span class=\"unseen\"> on press</span></a>"]);
    let row = |page: &str| {
        page.split("title=\"deployment.installed\">").nth(1).unwrap().split("</li>").next().unwrap().to_owned()
    };
    let row = row(&text(&browser, "/activity?kind=deployment.installed").await);
    assert!(row.contains(" on press</a>") && !row.contains("is installed") && !row.contains(" by "), "{row}");
}

#[tokio::test]
async fn activity_and_audit_are_narrowed_by_two_dates() {
    let server = TestServer::start().await;
    let api = api(&server);
    let day = |text: String| text[..10].to_owned();
    let first = day(server.clock.now().to_string());
    let group = |name: &'static str| {
        let body = PutGroup { selector: "line=1".to_owned(), description: None, reason: None };
        let api = api.clone();
        async move { api.put_group(name, &body, None).await.unwrap() }
    };
    group("aster").await;
    server.clock.advance(Duration::from_hours(24 * 40));
    let late = day(server.clock.now().to_string());
    group("zinnia").await;
    let browser = Browser::signed_in(&server).await;
    for path in ["/activity", "/activity/audit"] {
        let page = text(&browser, &format!("{path}?until={first}")).await;
        has(&page, &["aster", &format!("type=\"date\" value=\"{first}\""), "Until (UTC)"]);
        lacks(&page, &["zinnia"]);
        let page = text(&browser, &format!("{path}?from={late}")).await;
        has(&page, &["zinnia"]);
        lacks(&page, &["aster"]);
        let page = text(&browser, &format!("{path}?from={late}T00:00&until={late}")).await;
        has(&page, &["zinnia", "type=\"datetime-local\""]);
        let page = text(&browser, &format!("{path}?from=soon&until={first}")).await;
        has(&page, &["aria-describedby=\"from-wrong\"", "write a day such as", "value=\"soon\""]);
        lacks(&page, &["aria-describedby=\"until-wrong\"", "aster"]);
        let page = text(&browser, &format!("{path}?from={late}&until={first}")).await;
        has(&page, &["aria-describedby=\"until-wrong\"", "Until (UTC): the end is before the beginning"]);
    }
    let kinds = async |since: Option<&String>, until: Option<&String>| {
        let query = EventQuery {
            kind: Some("group".into()),
            since: since.cloned(),
            until: until.cloned(),
            ..EventQuery::default()
        };
        api.events(&query, false, &PageQuery::default()).await.unwrap().items.len()
    };
    assert_eq!((kinds(None, None).await, kinds(Some(&late), None).await, kinds(None, Some(&first)).await), (2, 1, 1));
    let backwards = EventQuery { since: Some(late.clone()), until: Some(first.clone()), ..EventQuery::default() };
    assert_eq!(refused(api.events(&backwards, false, &PageQuery::default()).await).1, ["until"]);
    let audit = AuditQuery { action: Some("group".into()), until: Some(first), ..AuditQuery::default() };
    assert_eq!(api.search_audit(&audit, &PageQuery::default()).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn the_audit_finds_anything_by_its_name() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press-07", &Kind::default()).await;
    press(&server, "lathe-3", &Kind::default()).await;
    let deployment = deployed(&server, "press-07").await;
    report(&client, &deployment.id, deployment.target_version, "installed").await;
    let body = PutGroup { selector: "line=1".to_owned(), description: None, reason: None };
    api.put_group("by-night", &body, None).await.unwrap();
    let application = api.application(packages::ID).await.unwrap().name;
    for (about, found, not) in [
        ("PRESS-07".to_owned(), ["deployment.create", "client.create", "device.report"].as_slice(), "group.create"),
        (format!("{application} on press"), &["deployment.create"], "client.create"),
        ("group by-night".to_owned(), &["group.create"], "client.create"),
        (format!("change of {application}"), &["change.create"], "deployment.create"),
        ("client lathe".to_owned(), &["client.create"], "deployment.create"),
    ] {
        let query = AuditQuery { about: Some(about.clone()), ..AuditQuery::default() };
        let records = api.search_audit(&query, &PageQuery::default()).await.unwrap().items;
        let actions: Vec<&str> = records.iter().map(|record| record.action.as_str()).collect();
        assert!(found.iter().all(|wanted| actions.contains(wanted)) && !actions.contains(&not), "{about}: {actions:?}");
        let encoded: String = url::form_urlencoded::byte_serialize(about.as_bytes()).collect();
        let page = text(&browser, &format!("/activity/audit?subject={encoded}")).await;
        has(&page, &[&format!("title=\"{}\"", found[0])]);
        lacks(&page, &[&format!("title=\"{not}\"")]);
    }
}
