//! Changing deployments on selected devices, and retrying failed ones together.

use super::pages::Browser;
use super::wizard::text;
use super::*;
use margrave_api::deployments::DeploymentState;
use margrave_api::rollouts::RetryRollout;
use reqwest::header::LOCATION;

pub(super) fn place(answer: &reqwest::Response) -> String {
    answer.headers()[LOCATION].to_str().unwrap().to_owned()
}

/// Three presses with the sample application, one of them at another site.
pub(super) async fn three(server: &TestServer) -> (ApiClient, Browser, Vec<Device>) {
    let api = api(server);
    let mut clients = Vec::new();
    for (name, site) in [("press-1", "nord"), ("press-2", "nord"), ("press-3", "nord")] {
        let labels = json!({ "site": site, "line": name });
        clients.push(press(server, name, &Kind { labels, ..Kind::default() }).await);
    }
    for version in ["1.0.0", "1.1.0"] {
        packages::upload(&api, version).await;
    }
    let rollout = api.create_deployments(&create("1.0.0", selected(""))).await.unwrap();
    finished(&api, &rollout).await;
    (api, Browser::signed_in(server).await, clients)
}

/// Starts a draft for all devices that run it; returns its address.
async fn begin(browser: &Browser, kind: &str, version: &str) -> String {
    let form = [("kind", kind), ("application", packages::ID), ("version", version)];
    let started = place(&browser.post("/deploy", &form).await);
    started.rsplit_once('/').unwrap().0.to_owned()
}

/// Submits the review; returns the rollout, published.
async fn sent(api: &ApiClient, browser: &Browser, draft: &str) -> Rollout {
    let form = [("key", draft), ("go", "deploy"), ("comment", "pilot")];
    let made = browser.post(&format!("{draft}/review"), &form).await;
    let id = place(&made).trim_start_matches("/rollouts/").to_owned();
    finished(api, &api.rollout(&id).await.unwrap()).await
}

/// The hook of the number of selected devices.
pub(super) fn selected_count(count: u64) -> String {
    format!("<span class=\"strong\" data-count=\"{count}\"")
}

async fn id_of(api: &ApiClient, name: &str) -> String {
    all_deployments(api).await.into_iter().find(|one| one.device == name).unwrap().id
}

async fn versions(api: &ApiClient) -> Vec<(String, String)> {
    let mut all: Vec<_> = all_deployments(api).await.into_iter().map(|one| (one.device, one.version)).collect();
    all.sort();
    all
}

#[tokio::test]
async fn upgrades_a_pilot_first_and_rolls_it_back() {
    let server = TestServer::start().await;
    let (api, browser, _clients) = three(&server).await;
    let page = text(&browser, "/catalog/press-vision?version=1.1.0").await;
    assert!(page.contains("data-action=\"upgrade\" data-count=\"3\""), "{page}");
    let draft = begin(&browser, "upgrade", "1.1.0").await;
    let page = text(&browser, &format!("{draft}/version")).await;
    assert!(page.contains("data-reason=\"affected\"") && page.contains("3 devices"), "{page}");
    let all = browser.post(&format!("{draft}/version"), &[("version", "1.1.0")]).await;
    assert_eq!(place(&all), format!("{draft}/devices"), "device selection is a separate step");
    let page = text(&browser, &format!("{draft}/devices")).await;
    assert!(page.contains("data-reason=\"all-selected\" data-count=\"3\""), "{page}");

    browser.post(&format!("{draft}/devices"), &[("go", "named")]).await;
    let page = text(&browser, &format!("{draft}/devices?labels=line%3Dpress-2")).await;
    assert!(
        page.contains(&format!("value=\"{}\" id=", id_of(&api, "press-2").await))
            && page.matches("name=\"shown\"").count() == 1,
        "{page}"
    );
    let pilot = id_of(&api, "press-2").await;
    let ticked = [("go", "continue"), ("shown", pilot.as_str()), ("device", pilot.as_str())];
    assert_eq!(place(&browser.post(&format!("{draft}/devices"), &ticked).await), format!("{draft}/configuration"));
    let page = text(&browser, &format!("{draft}/configuration")).await;
    assert!(page.contains("name=\"p:interval\" value=\"\""), "{page}");
    browser.post(&format!("{draft}/configuration"), &[("go", "continue")]).await;
    let page = text(&browser, &format!("{draft}/review")).await;
    assert!(
        page.contains("data-reason=\"update\" data-count=\"1\"") && page.contains("data-action=\"upgrade\""),
        "{page}"
    );
    assert_eq!(sent(&api, &browser, &draft).await.total, 1);
    let of = |one: &str, two: &str, three: &str| {
        [("press-1", one), ("press-2", two), ("press-3", three)]
            .map(|(name, version)| (name.to_owned(), version.to_owned()))
    };
    assert_eq!(versions(&api).await, of("1.0.0", "1.1.0", "1.0.0"));

    // The rest follows, by a common label; the pilot already has it.
    let draft = begin(&browser, "upgrade", "1.1.0").await;
    browser.post(&format!("{draft}/devices"), &[("go", "all"), ("site", "nord")]).await;
    browser.post(&format!("{draft}/configuration"), &[("go", "continue")]).await;
    assert_eq!(sent(&api, &browser, &draft).await.total, 2);
    assert_eq!(versions(&api).await, of("1.1.0", "1.1.0", "1.1.0"));

    // An older version is called a downgrade.
    let page = text(&browser, "/catalog/press-vision?version=1.0.0").await;
    assert!(page.contains("data-action=\"downgrade\" data-count=\"3\""), "{page}");
    let draft = begin(&browser, "upgrade", "1.0.0").await;
    // By part of a name, all at once.
    browser.post(&format!("{draft}/devices"), &[("go", "named")]).await;
    let chosen = browser.post(&format!("{draft}/devices"), &[("go", "all"), ("q", "s-3")]).await;
    assert!(text(&browser, &place(&chosen)).await.contains(&selected_count(1)));
    browser.post(&format!("{draft}/configuration"), &[("go", "continue")]).await;
    let page = text(&browser, &format!("{draft}/review")).await;
    assert!(
        page.contains("data-action=\"downgrade\"") && page.contains("data-reason=\"update\" data-count=\"1\""),
        "{page}"
    );
    sent(&api, &browser, &draft).await;
    assert_eq!(versions(&api).await, of("1.1.0", "1.1.0", "1.0.0"));
}

#[tokio::test]
async fn offers_an_upgrade_for_devices_on_another_version_and_keeps_the_selection() {
    let server = TestServer::start().await;
    let (api, browser, _clients) = three(&server).await;
    press(&server, "press-4", &Kind::default()).await;
    let draft = begin(&browser, "create", "1.1.0").await;
    let page = text(&browser, &format!("{draft}/devices")).await;
    let id = id_of(&api, "press-1").await;
    assert!(page.contains("data-state=\"installed\"") && page.contains(&format!("value=\"move:{id}\"")), "{page}");
    let go = format!("move:{id}");
    let form = [("go", go.as_str()), ("shown", "press-4/press-4"), ("device", "press-4/press-4")];
    let moving = place(&browser.post(&format!("{draft}/devices"), &form).await);
    assert!(text(&browser, &moving).await.contains("<p class=\"note\" data-reason=\"affected\">"));
    assert!(text(&browser, &format!("{draft}/devices")).await.contains(&selected_count(1)));
}

#[tokio::test]
async fn selects_all_devices_that_match_a_name_or_state() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    for name in ["press-1", "press-2", "pump-1"] {
        press(&server, name, &Kind::default()).await;
    }
    press(&server, "press-small", &Kind { memory: "512Mi", types: &["compose"], ..Kind::default() }).await;
    let draft = begin(&browser, "create", "1.0.0").await;
    let page = text(&browser, &format!("{draft}/devices?q=press")).await;
    assert!(
        page.contains("data-action=\"select-all\" data-count=\"2\"") && page.matches("name=\"shown\"").count() == 3,
        "{page}"
    );
    assert!(page.contains("value=\"press-small/press-small\""), "{page}");
    let fitting =
        browser.post(&format!("{draft}/devices"), &[("go", "filter"), ("q", "press"), ("compatible", "yes")]).await;
    assert_eq!(place(&fitting), format!("{draft}/devices?q=press&compatible=yes"));
    let page = text(&browser, &place(&fitting)).await;
    assert!(
        page.contains("value=\"press-2/press-2\"") && !page.contains("press-small"),
        "only compatible ones: {page}"
    );
    let chosen = browser.post(&format!("{draft}/devices"), &[("go", "all"), ("q", "press")]).await;
    let page = text(&browser, &place(&chosen)).await;
    assert!(page.contains(&selected_count(2)), "compatible ones: {page}");
    let fine = margrave_api::client::DeviceQuery { state: Some("online".to_owned()), ..Default::default() };
    eventually("their last-seen times are written", async || {
        (api.find_devices(&fine, &PageQuery::default()).await.unwrap().items.len() == 4).then_some(())
    })
    .await;
    browser.post(&format!("{draft}/devices"), &[("go", "all"), ("state", "online")]).await;
    let page = text(&browser, &format!("{draft}/devices")).await;
    assert!(page.contains(&selected_count(3)), "each once: {page}");
}

#[tokio::test]
async fn reconfigures_and_removes_on_selected_devices() {
    let server = TestServer::start().await;
    let (api, browser, _clients) = three(&server).await;
    super::lists::counted_anew(&server);
    let page = text(&browser, "/catalog/press-vision?version=1.0.0").await;
    assert!(
        page.contains("data-action=\"reconfigure\" data-count=\"3\"")
            && page.contains("data-action=\"remove\" data-count=\"3\""),
        "{page}"
    );
    let (one, two) = (id_of(&api, "press-1").await, id_of(&api, "press-2").await);
    let draft = begin(&browser, "reconfigure", "1.0.0").await;
    browser.post(&format!("{draft}/devices"), &[("go", "named")]).await;
    let both = [("shown", one.as_str()), ("shown", two.as_str()), ("device", one.as_str()), ("device", two.as_str())];
    browser.post(&format!("{draft}/devices"), &[&[("go", "continue")], both.as_slice()].concat()).await;
    let nothing = browser.post(&format!("{draft}/configuration"), &[("go", "continue")]).await;
    assert!(nothing.text().await.unwrap().contains("href=\"#configuration\""));
    browser.post(&format!("{draft}/configuration"), &[("go", "continue"), ("p:interval", "90")]).await;
    let page = text(&browser, &format!("{draft}/review")).await;
    assert!(
        page.contains("data-reason=\"update\" data-count=\"2\"") && page.contains("data-action=\"reconfigure\""),
        "{page}"
    );
    let rollout = sent(&api, &browser, &draft).await;
    assert_eq!((rollout.kind, rollout.total), (RolloutKind::Reconfigure, 2));
    let values: Vec<_> = all_deployments(&api).await.into_iter().map(|one| (one.device, one.values)).collect();
    for (device, values) in values {
        let interval = if device == "press-3" { json!(60) } else { json!(90) };
        assert_eq!((&values["interval"], &values["greeting"]), (&interval, &json!("hello")), "{device}");
    }

    // From the page of the rollout: its devices.
    let page = text(&browser, &format!("/rollouts/{}", rollout.id)).await;
    assert!(page.contains("data-action=\"reconfigure\"") && page.contains("data-action=\"remove\""), "{page}");
    let form =
        [("kind", "remove"), ("application", packages::ID), ("version", "1.0.0"), ("rollout", rollout.id.as_str())];
    let started = place(&browser.post("/deploy", &form).await);
    let page = text(&browser, &started).await;
    assert!(page.contains(&selected_count(2)), "{page}");
    let draft = started.rsplit_once('/').unwrap().0.to_owned();
    let only = [("go", "continue"), ("shown", one.as_str()), ("shown", two.as_str()), ("device", two.as_str())];
    assert_eq!(place(&browser.post(&format!("{draft}/devices"), &only).await), format!("{draft}/review"));
    let page = text(&browser, &format!("{draft}/review")).await;
    assert!(
        page.contains("data-reason=\"remove\" data-count=\"1\"") && page.contains("data-action=\"remove\""),
        "{page}"
    );
    let rollout = sent(&api, &browser, &draft).await;
    assert_eq!((rollout.kind, rollout.total, rollout.comment.as_deref()), (RolloutKind::Remove, 1, Some("pilot")));
    let left: Vec<_> = all_deployments(&api).await.into_iter().map(|one| one.device).collect();
    assert!(!left.contains(&"press-2".to_owned()) && left.len() == 2, "{left:?}");
}

#[tokio::test]
async fn retries_failed_deployments_of_a_rollout_together() {
    let server = TestServer::start().await;
    let (api, browser, clients) = three(&server).await;
    let all = all_deployments(&api).await;
    for (client, name, state) in
        [(&clients[0], "press-1", "failed"), (&clients[1], "press-2", "failed"), (&clients[2], "press-3", "installed")]
    {
        let one = all.iter().find(|one| one.device == name).unwrap();
        report(client, &one.id, one.target_version, state).await;
    }
    let first = all[0].rollout.clone();
    let page = text(&browser, &format!("/rollouts/{first}")).await;
    assert!(page.contains("data-action=\"retry\" data-count=\"2\""), "{page}");
    let page = text(&browser, &format!("/rollouts/{first}?ask=again")).await;
    assert!(
        page.contains("data-action=\"retry\"") && page.contains("data-reason=\"affected\" data-count=\"2\""),
        "{page}"
    );
    let form = [("key", "k"), ("action", "again"), ("comment", "the disk is free again")];
    let told = place(&browser.post(&format!("/rollouts/{first}"), &form).await);
    let again = place(&browser.post(&format!("/rollouts/{first}"), &form).await);
    assert_eq!(told, again, "sent twice, done once");
    let rollout = finished(&api, &api.rollout(told.trim_start_matches("/rollouts/")).await.unwrap()).await;
    assert_eq!((rollout.total, rollout.comment.as_deref()), (2, Some("the disk is free again")));
    for one in all_deployments(&api).await {
        let expected =
            if one.device == "press-3" { (1, DeploymentState::UpToDate) } else { (2, DeploymentState::Pending) };
        assert_eq!((one.revision, one.state), expected, "{}", one.device);
    }
    let page = text(&browser, &format!("/rollouts/{first}")).await;
    assert!(!page.contains("data-action=\"retry\""), "nothing is left to retry: {page}");
    let body = RetryRollout::default();
    assert_eq!(refused(api.retry_rollout(&first, &body).await).0, "unchanged");
    assert_eq!(refused(api.retry_rollout("nothing", &body).await).0, "not-found");
    // It fails once more, and a program retries it.
    let one = api.deployment(&id_of(&api, "press-1").await).await.unwrap();
    report(&clients[0], &one.id, one.target_version, "failed").await;
    assert_eq!(api.retry_rollout(&rollout.id, &body).await.unwrap().total, 1);
}
