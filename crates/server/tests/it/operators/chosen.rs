//! What exists is changed on the devices that are chosen, and what failed is tried again together.

use super::pages::Browser;
use super::wizard::text;
use super::*;
use margrave_api::changes::RetryChange;
use margrave_api::deployments::Convergence;
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
    let change = api.create_deployments(&create("1.0.0", selected(""))).await.unwrap();
    finished(&api, &change).await;
    (api, Browser::signed_in(server).await, clients)
}

/// Begins for all that run it; gives the address of the draft.
async fn begin(browser: &Browser, kind: &str, version: &str) -> String {
    let form = [("kind", kind), ("application", packages::ID), ("version", version)];
    let begun = place(&browser.post("/deploy", &form).await);
    begun.rsplit_once('/').unwrap().0.to_owned()
}

/// Sends the review; gives the change, published.
async fn sent(api: &ApiClient, browser: &Browser, draft: &str) -> Change {
    let form = [("key", draft), ("go", "deploy"), ("reason", "pilot")];
    let made = browser.post(&format!("{draft}/review"), &form).await;
    let id = place(&made).trim_start_matches("/changes/").to_owned();
    finished(api, &api.change(&id).await.unwrap()).await
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
async fn a_version_goes_to_the_pilot_first_and_back_again() {
    let server = TestServer::start().await;
    let (api, browser, _clients) = three(&server).await;
    let page = text(&browser, "/catalog/press-vision?version=1.1.0").await;
    assert!(page.contains("Bring 3 devices to 1.1.0"), "{page}");
    let draft = begin(&browser, "upgrade", "1.1.0").await;
    let page = text(&browser, &format!("{draft}/version")).await;
    assert!(page.contains("3 devices run another version than 1.1.0"), "{page}");
    let all = browser.post(&format!("{draft}/version"), &[("version", "1.1.0")]).await;
    assert_eq!(place(&all), format!("{draft}/devices"), "who it is for is a step of its own");
    let page = text(&browser, &format!("{draft}/devices")).await;
    assert!(page.contains("every device that runs it in another version than 1.1.0, 3 devices"), "{page}");

    browser.post(&format!("{draft}/devices"), &[("go", "named")]).await;
    let page = text(&browser, &format!("{draft}/devices?labels=line%3Dpress-2")).await;
    assert!(page.contains("on 1.0.0 now") && page.contains("1 device matches"), "{page}");
    let pilot = id_of(&api, "press-2").await;
    let ticked = [("go", "continue"), ("shown", pilot.as_str()), ("device", pilot.as_str())];
    assert_eq!(place(&browser.post(&format!("{draft}/devices"), &ticked).await), format!("{draft}/answers"));
    let page = text(&browser, &format!("{draft}/answers")).await;
    assert!(page.contains("Empty: each device keeps what it has"), "{page}");
    browser.post(&format!("{draft}/answers"), &[("go", "continue")]).await;
    let page = text(&browser, &format!("{draft}/review")).await;
    assert!(page.contains("1 device would change.") && page.contains("Change 1 device to 1.1.0"), "{page}");
    assert_eq!(sent(&api, &browser, &draft).await.total, 1);
    let of = |one: &str, two: &str, three: &str| {
        [("press-1", one), ("press-2", two), ("press-3", three)]
            .map(|(name, version)| (name.to_owned(), version.to_owned()))
    };
    assert_eq!(versions(&api).await, of("1.0.0", "1.1.0", "1.0.0"));

    // The rest follows, by what they have in common; the pilot has it already.
    let draft = begin(&browser, "upgrade", "1.1.0").await;
    browser.post(&format!("{draft}/devices"), &[("go", "all"), ("site", "nord")]).await;
    browser.post(&format!("{draft}/answers"), &[("go", "continue")]).await;
    assert_eq!(sent(&api, &browser, &draft).await.total, 2);
    assert_eq!(versions(&api).await, of("1.1.0", "1.1.0", "1.1.0"));

    // An older version is called what it is.
    let page = text(&browser, "/catalog/press-vision?version=1.0.0").await;
    assert!(page.contains("Bring 3 devices back to 1.0.0"), "{page}");
    let draft = begin(&browser, "upgrade", "1.0.0").await;
    // By a piece of a name, all at once.
    browser.post(&format!("{draft}/devices"), &[("go", "named")]).await;
    let chosen = browser.post(&format!("{draft}/devices"), &[("go", "all"), ("q", "s-3")]).await;
    assert!(text(&browser, &place(&chosen)).await.contains("1 device chosen so far"));
    browser.post(&format!("{draft}/answers"), &[("go", "continue")]).await;
    let page = text(&browser, &format!("{draft}/review")).await;
    assert!(page.contains("Bring 1 device back to 1.0.0"), "{page}");
    sent(&api, &browser, &draft).await;
    assert_eq!(versions(&api).await, of("1.1.0", "1.1.0", "1.0.0"));
}

#[tokio::test]
async fn who_has_another_version_is_led_to_the_change_of_it_and_ticks_stay() {
    let server = TestServer::start().await;
    let (api, browser, _clients) = three(&server).await;
    press(&server, "press-4", &Kind::default()).await;
    let draft = begin(&browser, "create", "1.1.0").await;
    let page = text(&browser, &format!("{draft}/devices")).await;
    let id = id_of(&api, "press-1").await;
    assert!(page.contains("Has 1.0.0 already") && page.contains(&format!("value=\"move:{id}\"")), "{page}");
    let go = format!("move:{id}");
    let form = [("go", go.as_str()), ("shown", "press-4/press-4"), ("device", "press-4/press-4")];
    let moving = place(&browser.post(&format!("{draft}/devices"), &form).await);
    assert!(text(&browser, &moving).await.contains("This changes press-1, which is on 1.0.0 now."));
    assert!(text(&browser, &format!("{draft}/devices")).await.contains("1 device chosen so far"));
}

#[tokio::test]
async fn all_that_match_a_name_or_a_state_are_chosen_at_once() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    for name in ["press-1", "press-2", "pump-1"] {
        press(&server, name, &Kind::default()).await;
    }
    press(&server, "press-small", &Kind { memory: "512Mi", types: &["compose"], ..Kind::default() }).await;
    let draft = begin(&browser, "create", "1.0.0").await;
    let page = text(&browser, &format!("{draft}/devices?q=press")).await;
    assert!(page.contains("Choose all 2 that fit") && page.contains("of 3 devices that match now"), "{page}");
    assert!(page.contains("value=\"press-small/press-small\""), "{page}");
    let fitting = browser.post(&format!("{draft}/devices"), &[("go", "filter"), ("q", "press"), ("fits", "yes")]).await;
    assert_eq!(place(&fitting), format!("{draft}/devices?q=press&fits=yes"));
    let page = text(&browser, &place(&fitting)).await;
    assert!(page.contains("value=\"press-2/press-2\"") && !page.contains("press-small"), "only those that fit: {page}");
    let chosen = browser.post(&format!("{draft}/devices"), &[("go", "all"), ("q", "press")]).await;
    let page = text(&browser, &place(&chosen)).await;
    assert!(page.contains("2 devices chosen so far"), "those that fit: {page}");
    let fine = margrave_api::client::DeviceQuery { state: Some("fine".to_owned()), ..Default::default() };
    eventually("it is written down that they were heard of", async || {
        (api.find_devices(&fine, &PageQuery::default()).await.unwrap().items.len() == 4).then_some(())
    })
    .await;
    browser.post(&format!("{draft}/devices"), &[("go", "all"), ("state", "fine")]).await;
    let page = text(&browser, &format!("{draft}/devices")).await;
    assert!(page.contains("3 devices chosen so far"), "each once: {page}");
}

#[tokio::test]
async fn what_runs_is_reconfigured_and_removed_on_those_that_are_chosen() {
    let server = TestServer::start().await;
    let (api, browser, _clients) = three(&server).await;
    let page = text(&browser, "/catalog/press-vision?version=1.0.0").await;
    assert!(page.contains("Reconfigure 3 devices") && page.contains("Remove from 3 devices"), "{page}");
    let (one, two) = (id_of(&api, "press-1").await, id_of(&api, "press-2").await);
    let draft = begin(&browser, "reconfigure", "1.0.0").await;
    browser.post(&format!("{draft}/devices"), &[("go", "named")]).await;
    let both = [("shown", one.as_str()), ("shown", two.as_str()), ("device", one.as_str()), ("device", two.as_str())];
    browser.post(&format!("{draft}/devices"), &[&[("go", "continue")], both.as_slice()].concat()).await;
    let nothing = browser.post(&format!("{draft}/answers"), &[("go", "continue")]).await;
    assert!(nothing.text().await.unwrap().contains("Nothing is different yet"));
    browser.post(&format!("{draft}/answers"), &[("go", "continue"), ("p:interval", "90")]).await;
    let page = text(&browser, &format!("{draft}/review")).await;
    assert!(page.contains("2 devices would change.") && page.contains("Reconfigure 2 devices"), "{page}");
    let change = sent(&api, &browser, &draft).await;
    assert_eq!((change.kind, change.total), (ChangeKind::Reconfigure, 2));
    let values: Vec<_> = all_deployments(&api).await.into_iter().map(|one| (one.device, one.values)).collect();
    for (device, values) in values {
        let interval = if device == "press-3" { json!(60) } else { json!(90) };
        assert_eq!((&values["interval"], &values["greeting"]), (&interval, &json!("hello")), "{device}");
    }

    // From the page of the change: those it was about.
    let page = text(&browser, &format!("/changes/{}", change.id)).await;
    assert!(page.contains("Reconfigure these") && page.contains("Remove these"), "{page}");
    let form =
        [("kind", "remove"), ("application", packages::ID), ("version", "1.0.0"), ("change", change.id.as_str())];
    let begun = place(&browser.post("/deploy", &form).await);
    let page = text(&browser, &begun).await;
    assert!(page.contains("2 devices chosen so far"), "{page}");
    let draft = begun.rsplit_once('/').unwrap().0.to_owned();
    let only = [("go", "continue"), ("shown", one.as_str()), ("shown", two.as_str()), ("device", two.as_str())];
    assert_eq!(place(&browser.post(&format!("{draft}/devices"), &only).await), format!("{draft}/review"));
    let page = text(&browser, &format!("{draft}/review")).await;
    assert!(page.contains("It would be removed from 1 device.") && page.contains("Remove from 1 device"), "{page}");
    let change = sent(&api, &browser, &draft).await;
    assert_eq!((change.kind, change.total, change.reason.as_deref()), (ChangeKind::Remove, 1, Some("pilot")));
    let left: Vec<_> = all_deployments(&api).await.into_iter().map(|one| one.device).collect();
    assert!(!left.contains(&"press-2".to_owned()) && left.len() == 2, "{left:?}");
}

#[tokio::test]
async fn what_failed_of_a_change_is_tried_again_as_one() {
    let server = TestServer::start().await;
    let (api, browser, clients) = three(&server).await;
    let all = all_deployments(&api).await;
    for (client, name, state) in
        [(&clients[0], "press-1", "failed"), (&clients[1], "press-2", "failed"), (&clients[2], "press-3", "installed")]
    {
        let one = all.iter().find(|one| one.device == name).unwrap();
        report(client, &one.id, one.target_version, state).await;
    }
    let first = all[0].change.clone();
    let page = text(&browser, &format!("/changes/{first}")).await;
    assert!(page.contains("Try the 2 failed again"), "{page}");
    let page = text(&browser, &format!("/changes/{first}?ask=again")).await;
    assert!(
        page.contains("Try Press vision again on 2 devices?") && page.contains("This touches 2 devices."),
        "{page}"
    );
    let form = [("key", "k"), ("action", "again"), ("reason", "the disk is free again")];
    let told = place(&browser.post(&format!("/changes/{first}"), &form).await);
    let again = place(&browser.post(&format!("/changes/{first}"), &form).await);
    assert_eq!(told, again, "sent twice, done once");
    let change = finished(&api, &api.change(told.trim_start_matches("/changes/")).await.unwrap()).await;
    assert_eq!((change.total, change.reason.as_deref()), (2, Some("the disk is free again")));
    for one in all_deployments(&api).await {
        let expected = if one.device == "press-3" { (1, Convergence::Converged) } else { (2, Convergence::Waiting) };
        assert_eq!((one.revision, one.convergence), expected, "{}", one.device);
    }
    let page = text(&browser, &format!("/changes/{first}")).await;
    assert!(!page.contains("failed again"), "nothing is left to try: {page}");
    let body = RetryChange::default();
    assert_eq!(refused(api.retry_change(&first, &body).await).0, "unchanged");
    assert_eq!(refused(api.retry_change("nothing", &body).await).0, "not-found");
    // It fails once more, and a program tries it again.
    let one = api.deployment(&id_of(&api, "press-1").await).await.unwrap();
    report(&clients[0], &one.id, one.target_version, "failed").await;
    assert_eq!(api.retry_change(&change.id, &body).await.unwrap().total, 1);
}
