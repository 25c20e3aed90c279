//! Pages that show the effect of an action first: groups, removal, rollback, discarding drafts; and filtered lists.

use super::pages::Browser;
use super::wizard::started;
use super::*;
use margrave_api::deployments::UpdateDeployment;
use margrave_api::devices::PutGroup;
use margrave_api::policies::{Drift, OnFailure, OnRemoval};
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode};

async fn text(answer: Response) -> String {
    answer.text().await.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn of_site(site: &str) -> Kind {
    Kind { labels: json!({ "site": site }), ..Kind::default() }
}

#[tokio::test]
async fn a_group_lists_its_devices_previews_changes_and_accepts_deployments() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    for (name, site) in [("press-1", "nord"), ("press-2", "nord"), ("press-3", "sued")] {
        press(&server, name, &of_site(site)).await;
    }
    packages::upload(&api, "1.0.0").await;
    let body = PutGroup { selector: "site=nord".to_owned(), description: None, comment: None };
    let group = api.put_group("pressing", &body, None).await.unwrap();
    let page = text(browser.get("/groups/pressing").await).await;
    assert!(page.contains("/devices/press-1/press-1") && page.contains("/devices/press-2/press-2"), "{page}");
    assert!(!page.contains("/devices/press-3/press-3"), "{page}");

    let told = |selector: &'static str| [("selector", selector)];
    let counted = text(browser.post("/groups/pressing/check", &told("site=sued")).await).await;
    assert!(counted.contains("The group will have 1 device: 1 added, 2 removed."), "{counted}");
    let counted = text(browser.post("/groups/pressing/check", &told("site in (nord,sued)")).await).await;
    assert!(counted.contains("The group will have 3 devices: 1 added, 0 removed."), "{counted}");
    let counted = text(browser.post("/groups/pressing/check", &told("site in (")).await).await;
    assert!(counted.contains("Not valid yet:"), "{counted}");
    let counted = text(browser.post("/groups/new/check", &told("site=nord")).await).await;
    assert!(counted.contains("The group will have 2 devices."), "{counted}");

    let revision = group.revision.to_string();
    let mut form = vec![("selector", "site=sued"), ("revision", revision.as_str()), ("counted", "site=nord")];
    let asked = browser.post("/groups/pressing", &form).await;
    assert_eq!(asked.status(), StatusCode::OK);
    let asked = text(asked).await;
    assert!(asked.contains("data-reason=\"confirm\"") && asked.contains("1 added, 2 removed."), "{asked}");
    assert_eq!(api.group("pressing").await.unwrap().selector, "site=nord");
    form[2].1 = "site=sued";
    assert_eq!(browser.post("/groups/pressing", &form).await.status(), StatusCode::SEE_OTHER);
    assert_eq!(api.group("pressing").await.unwrap().selector, "site=sued");

    let started = browser.post("/deploy", &[("group", "pressing"), ("application", packages::ID)]).await;
    let place = started.headers()[LOCATION].to_str().unwrap().to_owned();
    let devices = place.replace("/version", "/devices");
    let page = text(browser.get(&devices).await).await;
    assert!(
        page.contains("data-reason=\"all-selected\" data-count=\"1\"") && page.contains("<code>site=sued</code>"),
        "{page}"
    );
}

#[tokio::test]
async fn a_removal_can_delete_data_and_a_rollback_shows_the_manifest_diff() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let here = format!("/deployments/{}", deployment.id);
    let asked = text(browser.get(&format!("{here}?ask=remove")).await).await;
    assert!(
        asked.contains("data-reason=\"delete-data\"") && asked.contains("name=\"instead\" value=\"purge\""),
        "{asked}"
    );
    let revision = deployment.revision.to_string();
    let form = [("key", "k"), ("action", "remove"), ("instead", "purge"), ("revision", &revision), ("comment", "sold")];
    let done = browser.post(&here, &form).await;
    assert!(done.headers()[LOCATION].to_str().unwrap().starts_with("/rollouts/"));
    let told = eventually("the rollout is published", async || {
        let now = api.deployment(&deployment.id).await.unwrap();
        (now.policy.on_removal == OnRemoval::Purge).then_some(now)
    })
    .await;
    assert_eq!(told.desired, margrave_api::deployments::Desired::Present, "it keeps running");
    let asked = text(browser.get(&format!("{here}?ask=remove")).await).await;
    assert!(asked.contains("has not reported yet that it has the revision with this policy"), "{asked}");
    assert!(!asked.contains("name=\"instead\""), "{asked}");

    let answers = indexmap::IndexMap::from([("greeting".to_owned(), json!("bonjour"))]);
    let body = UpdateDeployment { values: answers, ..UpdateDeployment::default() };
    let rollout = api.update_deployment(&deployment.id, &body, None).await.unwrap();
    finished(&api, &rollout).await;
    let asked = text(browser.get(&format!("{here}?ask=back&revision=1")).await).await;
    assert!(asked.contains("class=\"diff\"") && asked.contains("class=\"removed\""), "{asked}");
    assert!(asked.contains("bonjour") && asked.contains("class=\"added\""), "{asked}");
}

#[tokio::test]
async fn a_review_has_one_card_per_visible_change() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    for version in ["1.0.0", "2.0.0"] {
        let mut files = packages::files(version);
        let description = String::from_utf8(files[0].1.clone()).unwrap();
        files[0].1 = description.replace("minLength: 8\n", "allowEmpty: true\n").into_bytes();
        api.upload_application(packages::pack(&files), None, None).await.unwrap();
    }
    let report = PolicyPatch { drift: Some(Drift::Report), ..PolicyPatch::default() };
    let stop = PolicyPatch { on_failure: Some(OnFailure::Stop), ..PolicyPatch::default() };
    for (name, password, policy) in [
        ("plain", false, PolicyPatch::default()),
        ("password", true, PolicyPatch::default()),
        ("report", false, report),
        ("stop", false, stop),
    ] {
        press(&server, name, &Kind::default()).await;
        let mut body = create("1.0.0", on(&[name]));
        body.policy = policy;
        if !password {
            body.values.clear();
        }
        finished(&api, &api.create_deployments(&body).await.unwrap()).await;
    }
    let all = all_deployments(&api).await;
    let stored = |name: &str| all.iter().find(|one| one.client == name).unwrap().values.len();
    assert_eq!(stored("password"), stored("plain") + 1, "it has one more stored parameter");
    let plain = all.iter().find(|one| one.client == "plain").unwrap();
    let values = indexmap::IndexMap::from([("greeting".to_owned(), json!("bonjour"))]);
    let body = UpdateDeployment { values, ..UpdateDeployment::default() };
    finished(&api, &api.update_deployment(&plain.id, &body, None).await.unwrap()).await;

    let form = [("kind", "upgrade"), ("application", packages::ID), ("version", "2.0.0")];
    let started = browser.post("/deploy", &form).await;
    let draft = started.headers()[LOCATION].to_str().unwrap().trim_end_matches("/devices").to_owned();
    let form = [("go", "continue"), ("p:mode", "normal"), ("drift", ""), ("onFailure", "rollback"), ("onRemoval", "")];
    let kept = browser.post(&format!("{draft}/configuration"), &form).await;
    assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/review"));
    let review = text(browser.get(&format!("{draft}/review")).await).await;
    assert!(review.contains("3 devices, the same change"), "{review}");
    assert_eq!(review.matches("aria-label=\"The same change on").count(), 2, "{review}");
    let change = |before: &str| format!("<dt>Policy on failure</dt> <dd><del>{before}</del> <ins>roll back</ins></dd>");
    for before in ["keep running parts and retry", "stop"] {
        assert_eq!(review.matches(&change(before)).count(), 1, "{review}");
    }
}

#[tokio::test]
async fn discarding_a_draft_requires_confirmation() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    packages::upload(&api(&server), "1.0.0").await;
    let draft = started(&browser).await;
    let asked = text(browser.get(&format!("{draft}/discard")).await).await;
    assert!(
        asked.contains("data-action=\"discard\"") && asked.contains("data-reason=\"affected\" data-count=\"0\""),
        "{asked}"
    );
    assert_eq!(browser.get(&format!("{draft}/version")).await.status(), StatusCode::OK, "it still exists");
    assert_eq!(browser.post(&format!("{draft}/discard"), &[]).await.status(), StatusCode::SEE_OTHER);
    assert_eq!(browser.get(&format!("{draft}/version")).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn filters_deployments_by_device_and_site_and_rollouts_by_application_and_state() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let one = press(&server, "press-1", &of_site("nord")).await;
    press(&server, "oven-1", &of_site("sued")).await;
    let first = deployed(&server, "press-1").await;
    let second = finished(&api, &api.create_deployments(&create("1.0.0", on(&["oven-1"]))).await.unwrap()).await;
    let has = |page: &str, name: &str| page.contains(&format!("/devices/{name}/{name}"));
    for (query, press, oven) in [
        ("", true, true),
        ("device=press", true, false),
        ("site=sued", false, true),
        ("site=sued&device=press", false, false),
        ("site=nord&state=waiting", true, false),
        ("site=nord&state=failed", false, false),
        ("site=nord&state=removing", false, false),
    ] {
        let page = text(browser.get(&format!("/deployments?{query}")).await).await;
        assert_eq!((has(&page, "press-1"), has(&page, "oven-1")), (press, oven), "{query}: {page}");
    }
    let page = text(browser.get("/deployments?site=nord").await).await;
    assert!(page.contains("1 of 1 deployment<"), "{page}");

    report(&one, &first.id, first.target_version, "installed").await;
    let link = |id: &str| format!("/rollouts/{id}");
    let of_it = format!("application={}", packages::ID);
    for (query, is_first, is_second) in [
        ("state=completed", true, false),
        ("state=in-progress", false, true),
        (of_it.as_str(), true, true),
        ("application=no-such-thing", false, false),
    ] {
        let page = text(browser.get(&format!("/rollouts?{query}")).await).await;
        let found = (page.contains(&link(&first.rollout)), page.contains(&link(&second.id)));
        assert_eq!(found, (is_first, is_second), "{query}: {page}");
    }
}

#[tokio::test]
async fn shows_where_the_initial_password_is_until_it_is_changed() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    for (path, says_so) in [("/", true), ("/settings/tokens", true), ("/devices", false)] {
        let page = text(browser.get(path).await).await;
        assert_eq!(page.contains("data-reason=\"initial-password\""), says_so, "{path}");
    }
    let password = margrave_api::access::SetPassword { password: "entirely another 4711".to_owned(), comment: None };
    api(&server).set_password("admin", &password).await.unwrap();
    let page = text(browser.get("/").await).await;
    assert!(!page.contains("data-reason=\"initial-password\""), "{page}");
}
