//! Devices with the simulated runtime, and devices with unknown vendor and model.

use super::pages::Browser;
use super::*;

/// The report of an agent with the simulated runtime, or with another value in our extension.
async fn reported(client: &Device, device: &str, extension: Value) {
    let mut capabilities: Value = serde_json::from_str(&Kind::default().capabilities(device)).unwrap();
    capabilities["x-margrave-extensions"] = extension;
    let response = client.put(&format!("/api/v1/capabilities/{device}"), capabilities.to_string()).await;
    assert!(response.status().is_success(), "{}", response.text().await.unwrap());
}

async fn page(browser: &Browser, path: &str) -> String {
    browser.get(path).await.text().await.unwrap()
}

/// The badge in a row and on a page.
const MARK: &str = "data-state=\"simulated\"";
const SENTENCE: &str = "nothing is really installed on this device: its agent runs with the simulated runtime";

#[tokio::test]
async fn marks_simulated_devices_everywhere_and_real_ones_nowhere() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let mut marked = Vec::new();
    for (name, extension) in [("pretends", json!({"runtime": "simulated"})), ("real", json!({"runtime": "compose"}))] {
        let client = press(&server, name, &Kind::default()).await;
        reported(&client, name, extension).await;
        let deployment = deployed(&server, name).await;
        report(&client, &deployment.id, deployment.target_version, "installed").await;
        let simulated = name == "pretends";
        assert_eq!(api.device(name, name).await.unwrap().simulated, simulated);
        let deployment = api.deployment(&deployment.id).await.unwrap();
        assert_eq!((deployment.simulated, deployment.state.as_str()), (simulated, "up-to-date"), "no other state");
        for explained in
            [api.explain_device(name, name).await.unwrap(), api.explain_deployment(&deployment.id).await.unwrap()]
        {
            let text_found =
                explained.observed.iter().any(|fact| fact.code == "simulated" && fact.sentence == SENTENCE);
            assert_eq!(text_found, simulated, "{explained:?}");
        }
        let device_page = page(&browser, &format!("/devices/{name}/{name}")).await;
        let deployment_page = page(&browser, &format!("/deployments/{}", deployment.id)).await;
        for page in [&device_page, &deployment_page] {
            let note = "<div class=\"note tone-mute\" data-reason=\"simulated\">";
            assert_eq!(page.contains(note) && page.contains("<code>[compose]</code>"), simulated, "{page}");
            assert_eq!(page.matches(MARK).count(), usize::from(simulated), "{page}");
        }
        marked.push((name, simulated));
    }
    let devices = api.devices(None, None, &PageQuery::default()).await.unwrap().items;
    let listed: Vec<_> = devices.iter().map(|one| (one.device.as_str(), one.simulated)).collect();
    assert_eq!(listed, marked);
    let deployments = all_deployments(&api).await;
    let mut listed: Vec<_> = deployments.iter().map(|one| (one.device.as_str(), one.simulated)).collect();
    listed.sort_unstable();
    assert_eq!(listed, marked);
    for path in ["/devices", "/deployments"] {
        let text = page(&browser, path).await;
        assert_eq!(text.matches(MARK).count(), 1, "one row of two in {path}: {text}");
    }
}

#[tokio::test]
async fn a_device_that_gets_a_real_runtime_loses_the_mark() {
    let server = TestServer::start().await;
    let api = api(&server);
    let client = press(&server, "press", &Kind::default()).await;
    reported(&client, "press", json!({"runtime": "simulated", "hold": {"reason": "fan", "until": "later"}})).await;
    let deployment = deployed(&server, "press").await;
    assert!(deployment.simulated && api.device("press", "press").await.unwrap().simulated);
    // CAP-09: another value there is never an error.
    for extension in [json!({"runtime": {"name": "simulated"}}), json!([1, 2]), json!("simulated"), json!({})] {
        reported(&client, "press", extension.clone()).await;
        let seen = (
            api.deployment(&deployment.id).await.unwrap().simulated,
            api.device("press", "press").await.unwrap().simulated,
        );
        assert_eq!(seen, (false, false), "{extension}");
    }
}

#[tokio::test]
async fn the_device_selected_by_the_gateway_counts() {
    let server = TestServer::start().await;
    let api = api(&server);
    packages::upload(&api, "1.0.0").await;
    let client = server.accepted("gw").await;
    Kind::default().report(&client, "gw").await;
    Kind::default().report(&client, "gw/real").await;
    reported(&client, "gw/pretends", json!({"runtime": "simulated"})).await;
    let anywhere = DeviceRef { client: "gw".to_owned(), device: "gw/*".to_owned() };
    let scope = Scope { devices: Some(vec![anywhere]), ..Scope::default() };
    finished(&api, &api.create_deployments(&create("1.0.0", scope)).await.unwrap()).await;
    let deployment = all_deployments(&api).await.remove(0);
    assert!(!deployment.simulated, "the device is not known yet");
    for (host, simulated) in [("gw/pretends", true), ("gw/real", false)] {
        let body = json!({
            "deploymentId": deployment.id, "adoptedManifestVersion": deployment.target_version, "deviceId": host,
            "status": { "state": "installed" }, "components": [{ "name": "vision", "state": "installed" }],
        });
        let response = client.post(&format!("/api/v1/deployments/{}/status", deployment.id), body.to_string()).await;
        assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
        assert_eq!(api.deployment(&deployment.id).await.unwrap().simulated, simulated, "{host}");
        let explained = api.explain_deployment(&deployment.id).await.unwrap();
        assert_eq!(explained.observed.iter().any(|fact| fact.code == "simulated"), simulated, "{host}");
    }
}

#[tokio::test]
async fn hides_unknown_vendor_and_model() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    let client = press(&server, "press", &Kind::default()).await;
    let mut capabilities: Value = serde_json::from_str(&Kind::default().capabilities("press")).unwrap();
    capabilities["properties"]["vendor"] = json!("unknown");
    capabilities["properties"]["modelNumber"] = json!("unknown");
    capabilities["properties"]["memory"] = json!("24105Mi");
    client.put("/api/v1/capabilities/press", capabilities.to_string()).await;
    let shown = page(&browser, "/devices/press/press").await;
    assert!(shown.contains("<p class=\"lead\">Vendor and model not reported, site nord</p>"), "{shown}");
    assert!(!shown.contains("<dt>Vendor</dt>") && !shown.contains("<dt>Model</dt>"), "{shown}");
    assert!(shown.contains("<dd title=\"24105Mi\">23.5 GiB</dd>"), "{shown}");
    assert!(shown.contains("<dd title=\"64Gi\">64 GiB</dd>"), "{shown}");
    let list = page(&browser, "/devices").await;
    assert!(list.contains("not reported") && !list.contains("unknown unknown"), "{list}");
    capabilities["properties"]["vendor"] = json!("Example Edge Works");
    client.put("/api/v1/capabilities/press", capabilities.to_string()).await;
    let shown = page(&browser, "/devices/press/press").await;
    assert!(shown.contains("<p class=\"lead\">Example Edge Works, site nord</p>"), "{shown}");
}

#[tokio::test]
async fn the_enrollment_page_says_where_to_get_the_agent_and_what_it_needs() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    let made =
        browser.post("/devices/add", &[("key", "k"), ("client", "press"), ("hours", "1"), ("comment", "")]).await;
    for text in [page(&browser, "/devices/add").await, made.text().await.unwrap()] {
        for part in [
            "cargo build --release -p margrave-agent",
            "make dist",
            "[compose]",
            "[kubernetes]",
            "cannot run applications",
        ] {
            assert!(text.contains(part), "`{part}` in {text}");
        }
    }
}

#[tokio::test]
async fn a_device_without_a_runtime_is_incompatible_and_every_view_says_why() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    let client = server.accepted("press").await;
    let capabilities = json!({
        "properties": { "id": "press", "vendor": "Example", "modelNumber": "1", "serialNumber": "7" },
        "x-margrave-extensions": { "runtime": "none" },
    });
    let response = client.put("/api/v1/capabilities/press", capabilities.to_string()).await;
    assert_eq!(response.status(), 201, "{}", response.text().await.unwrap());
    let device = api.device("press", "press").await.unwrap();
    assert!(device.no_runtime && !device.hosts_workloads && device.warnings.is_empty(), "{device:?}");

    let why = "this device runs no applications: no runtime is switched on; add `[compose]` or `[kubernetes]` to the settings \
               of its agent";
    let fits = api.application_compatibility(packages::ID, "1.0.0", None, &PageQuery::default()).await.unwrap().items;
    let reasons = fits[0].profiles.iter().flat_map(|profile| &profile.reasons).map(|reason| reason.message.as_str());
    assert!(reasons.collect::<Vec<_>>().iter().all(|reason| *reason == why), "{:?}", fits[0]);
    let refused = problem(api.create_deployments(&create("1.0.0", on(&["press"]))).await);
    assert!(format!("{refused:?}").contains("no runtime is switched on"), "{refused:?}");
    let explained = api.explain_device("press", "press").await.unwrap();
    assert!(explained.observed.iter().any(|fact| fact.code == "no-runtime" && fact.sentence == why), "{explained:?}");

    let shown = page(&browser, "/devices/press/press").await;
    assert!(
        shown.contains("data-reason=\"no-runtime\"") && shown.contains("data-reason=\"hosts-no-workloads\""),
        "{shown}"
    );
    assert!(!shown.contains("It is a gateway") && !shown.contains("Deploy to this device"), "{shown}");
    let list = page(&browser, "/devices").await;
    assert!(list.contains("data-reason=\"no-runtime\"") && !list.contains("data-reason=\"gateway\""), "{list}");

    Kind::default().report(&client, "press").await;
    let device = api.device("press", "press").await.unwrap();
    assert!(!device.no_runtime && device.hosts_workloads);
    assert!(!page(&browser, "/devices/press/press").await.contains("data-reason=\"no-runtime\""));
}
