//! Reports of devices and published revisions, with times, on pages and in lists.

use super::lists::{counted_anew, has, lacks, text};
use super::pages::Browser;
use super::*;
use crate::support::client_id;
use margrave_api::client::{AuditQuery, EventQuery};
use margrave_api::deployments::{DeploymentState, RetryDeployment, UpdateDeployment};
use margrave_api::devices::PutGroup;
use margrave_api::policies::OnRemoval;
use margrave_core::time::Clock as _;
use margrave_store::SeenAt;
use std::time::Duration;

#[tokio::test]
async fn distinguishes_desired_from_reported_state() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let page = text(&browser, "/devices/press/press").await;
    let unknown = "data-state=\"unknown\"";
    has(&page, &["<dd>1</dd>", ">0/1 ", unknown]);
    has(&page, &["version 1.0.0, revision 1"]);
    lacks(&page, &[">1 application<", "1 running</span></span>"]);
    has(&text(&browser, "/devices").await, &[">0/1 "]);

    report(&client, &deployment.id, deployment.target_version, "installed").await;
    let page = text(&browser, "/devices/press/press").await;
    has(&page, &["<span class=\"soft\">1/1 ", "<dd>1</dd>", "data-state=\"installed\""]);
    lacks(&page, &[unknown]);
    has(&text(&browser, "/devices").await, &[">1/1 "]);

    let removal = api.remove_deployment(&deployment.id, None, None).await.unwrap();
    finished(&api, &removal).await;
    let page = text(&browser, "/devices/press/press").await;
    has(&page, &["<dt>Applications (desired)</dt> <dd>0</dd>", "<dt>Removing</dt> <dd>1</dd>", "<dd>removed</dd>"]);
}

#[tokio::test]
async fn a_retry_of_a_later_revision_is_pending_in_every_list() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let first = deployed(&server, "press").await;
    let id = &first.id;
    report(&client, id, first.target_version, "installed").await;
    let wish = PolicyPatch { on_removal: Some(OnRemoval::Purge), ..PolicyPatch::default() };
    let body = UpdateDeployment { policy: wish, ..UpdateDeployment::default() };
    finished(&api, &api.update_deployment(id, &body, None).await.unwrap()).await;
    let second = api.deployment(id).await.unwrap();
    assert_eq!(api.deployment(id).await.unwrap().state, DeploymentState::Outdated, "it runs the previous revision");
    report(&client, id, second.target_version, "failed").await;
    api.retry_deployment(id, &RetryDeployment { comment: None }).await.unwrap();

    let told = api.deployment(id).await.unwrap();
    assert_eq!((told.revision, told.state), (2, DeploymentState::Pending));
    assert!(told.target_version > second.target_version);
    assert!(told.explanation.contains("a retry of revision 2 (1.0.0) was requested"), "{}", told.explanation);
    let explained = api.explain_deployment(id).await.unwrap();
    assert_eq!((explained.state.as_str(), explained.summary), ("pending", told.explanation.clone()));
    // Written to the database from time to time; filters and counts read it there.
    let seen = SeenAt { client: client_id("press"), at: server.state().now() };
    server.state().store.seen_write(&[seen]).await.unwrap();
    let waiting = DeploymentQuery { state: Some(DeploymentState::Pending), ..DeploymentQuery::default() };
    let older = DeploymentQuery { state: Some(DeploymentState::Outdated), ..DeploymentQuery::default() };
    assert_eq!(api.deployments(&waiting, &PageQuery::default()).await.unwrap().items.len(), 1);
    assert_eq!(api.deployments(&older, &PageQuery::default()).await.unwrap().items.len(), 0);
    let counts = api.rollout(&told.rollout).await.unwrap().deployments.unwrap();
    assert_eq!((counts.of(DeploymentState::Pending), counts.of(DeploymentState::Outdated)), (1, 0));
    let (rollout, deployment) = (format!("/rollouts/{}", told.rollout), format!("/deployments/{id}"));
    for path in ["/deployments", "/devices/press/press", &rollout, &deployment] {
        let page = text(&browser, path).await;
        has(&page, &["data-state=\"pending\""]);
        lacks(&page, &["data-state=\"outdated\""]);
    }
}

#[tokio::test]
async fn a_retrying_device_stays_failed_until_it_succeeds() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let (id, version) = (&deployment.id, deployment.target_version);
    report(&client, id, version, "failed").await;
    report(&client, id, version, "installing").await;

    let tried = api.deployment(id).await.unwrap();
    assert_eq!(tried.state, DeploymentState::Failed);
    assert_eq!(tried.reported.unwrap().state, "installing");
    assert_eq!(tried.failed_with.unwrap().state, "failed");
    assert!(tried.explanation.ends_with("; the device is retrying"), "{}", tried.explanation);
    let explained = api.explain_deployment(id).await.unwrap();
    assert_eq!((explained.state.as_str(), &explained.summary), ("failed", &tried.explanation));
    let failed = DeploymentQuery { state: Some(DeploymentState::Failed), ..DeploymentQuery::default() };
    assert_eq!(api.deployments(&failed, &PageQuery::default()).await.unwrap().items.len(), 1);
    assert_eq!(api.summary().await.unwrap().deployments.of(DeploymentState::Failed), 1);
    let again = api.rollout(&tried.rollout).await.unwrap();
    assert_eq!(again.deployments.unwrap().of(DeploymentState::Failed), 1);
    counted_anew(&server);
    has(&text(&browser, "/").await, &["data-reason=\"failing\"", "data-reason=\"retrying\"", "<title>1 "]);
    let rollout = format!("/rollouts/{}", tried.rollout);
    for path in ["/deployments?state=failed", "/devices/press/press", &rollout] {
        let page = text(&browser, path).await;
        has(&page, &["data-state=\"failed\""]);
        lacks(&page, &["data-state=\"updating\""]);
    }
    has(&text(&browser, "/devices?state=failed").await, &["press"]);

    report(&client, id, version, "installed").await;
    let done = api.deployment(id).await.unwrap();
    assert_eq!((done.state, done.failed_with), (DeploymentState::UpToDate, None));
    counted_anew(&server);
    lacks(&text(&browser, "/").await, &["data-reason=\"failing\"", "data-reason=\"retrying\""]);
    let told: Vec<String> = api
        .events(&EventQuery { kind: Some("deployment".into()), ..EventQuery::default() }, false, &PageQuery::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|event| event.message)
        .collect();
    assert_eq!(told.iter().filter(|message| message.contains("on `press` failed")).count(), 1, "{told:?}");
}

#[tokio::test]
async fn the_rollout_page_refreshes_without_script_while_in_progress() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let (rollout, page_of_it) =
        (format!("/rollouts/{}", deployment.rollout), format!("/deployments/{}", deployment.id));
    let again = "<noscript><meta http-equiv=\"refresh\"";
    let page = text(&browser, &rollout).await;
    has(&page, &[again]);
    lacks(&page, &["data-state=\"failed\""]);
    // Whether its client counts as online yet depends on when that was last written.
    has(&page, &["role=\"status\" data-state=\"in-progress\""]);
    has(&text(&browser, &page_of_it).await, &[again]);
    report(&client, &deployment.id, deployment.target_version, "installed").await;
    for path in [&rollout, &page_of_it] {
        lacks(&text(&browser, path).await, &[again]);
    }
    has(&text(&browser, &rollout).await, &["data-state=\"completed\"", "data-state=\"up-to-date\""]);

    let at = "data-exact>20";
    has(&text(&browser, "/audit").await, &[at]);
    let page = text(&browser, "/devices/press/press").await;
    has(&page, &[at, "</i>Online</span>", "<span>now</span>", "data-state=\"installed\""]);
    let page = text(&browser, "/deployments").await;
    has(&page, &["<span class=\"unseen\"> on press</span></a>"]);
    let row = |page: &str| {
        page.split("data-event=\"deployment.installed\">").nth(1).unwrap().split("</li>").next().unwrap().to_owned()
    };
    let row = row(&text(&browser, "/events?kind=deployment.installed").await);
    assert!(row.contains(" on press</a>") && !row.contains("is installed") && !row.contains(" by "), "{row}");
}

#[tokio::test]
async fn filters_events_and_audit_by_two_dates() {
    let server = TestServer::start().await;
    let api = api(&server);
    let day = |text: String| text[..10].to_owned();
    let first = day(server.clock.now().to_string());
    let group = |name: &'static str| {
        let body = PutGroup { selector: "line=1".to_owned(), description: None, comment: None };
        let api = api.clone();
        async move { api.put_group(name, &body, None).await.unwrap() }
    };
    group("aster").await;
    server.clock.advance(Duration::from_hours(24 * 40));
    let late = day(server.clock.now().to_string());
    group("zinnia").await;
    let browser = Browser::signed_in(&server).await;
    for path in ["/events", "/audit"] {
        let page = text(&browser, &format!("{path}?until={first}")).await;
        has(
            &page,
            &["aster", "type=\"datetime-local\" value=\"2026-09-22T00:00\"", "Until (<span data-zone>UTC</span>)"],
        );
        lacks(&page, &["zinnia"]);
        let page = text(&browser, &format!("{path}?from={late}")).await;
        has(&page, &["zinnia"]);
        lacks(&page, &["aster"]);
        let page = text(&browser, &format!("{path}?from={late}T00:00&until={late}")).await;
        has(&page, &["zinnia", "type=\"datetime-local\""]);
        let page = text(&browser, &format!("{path}?from=soon&until={first}")).await;
        has(
            &page,
            &["aria-describedby=\"from-wrong\"", "role=\"alert\" data-reason=\"invalid-filter\"", "value=\"soon\""],
        );
        lacks(&page, &["aria-describedby=\"until-wrong\"", "aster"]);
        let page = text(&browser, &format!("{path}?from={late}&until={first}")).await;
        has(&page, &["aria-describedby=\"until-wrong\"", "role=\"alert\" data-reason=\"invalid-filter\""]);
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
async fn the_audit_search_finds_display_names() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press-07", &Kind::default()).await;
    press(&server, "lathe-3", &Kind::default()).await;
    let deployment = deployed(&server, "press-07").await;
    report(&client, &deployment.id, deployment.target_version, "installed").await;
    let body = PutGroup { selector: "line=1".to_owned(), description: None, comment: None };
    api.put_group("by-night", &body, None).await.unwrap();
    let application = api.application(packages::ID).await.unwrap().name;
    for (about, found, not) in [
        ("PRESS-07".to_owned(), ["deployment.create", "client.create", "device.report"].as_slice(), "group.create"),
        (format!("{application} on press"), &["deployment.create"], "client.create"),
        ("group by-night".to_owned(), &["group.create"], "client.create"),
        (format!("change of {application}"), &["rollout.create"], "deployment.create"),
        ("client lathe".to_owned(), &["client.create"], "deployment.create"),
    ] {
        let query = AuditQuery { about: Some(about.clone()), ..AuditQuery::default() };
        let records = api.search_audit(&query, &PageQuery::default()).await.unwrap().items;
        let actions: Vec<&str> = records.iter().map(|record| record.action.as_str()).collect();
        assert!(found.iter().all(|wanted| actions.contains(wanted)) && !actions.contains(&not), "{about}: {actions:?}");
        let encoded: String = url::form_urlencoded::byte_serialize(about.as_bytes()).collect();
        let page = text(&browser, &format!("/audit?subject={encoded}")).await;
        has(&page, &[&format!("data-audit=\"{}\"", found[0])]);
        lacks(&page, &[&format!("data-audit=\"{not}\"")]);
    }
}
