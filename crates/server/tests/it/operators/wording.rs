//! What pages say, in one golden file per area (`wording/*.txt`): the visible text of the pages of a small fixed fleet.
//! Other tests find elements by their hooks, so that a new wording changes only these files.

mod text;

use super::pages::Browser;
use super::wizard::{ANSWERS, started};
use super::*;
use margrave_api::client::{DeviceQuery, EventQuery};
use margrave_api::clients::{ClientState, CreateClient};
use margrave_api::devices::PutGroup;
use reqwest::header::LOCATION;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
pub(super) use text::normalized;
use text::visible;

/// Set to write the files instead of comparing them.
const WRITE: &str = "MARGRAVE_WRITE_WORDING";

/// Areas whose rows have no fixed order, because devices and background tasks work at the same time.
const UNORDERED: [&str; 2] = ["events", "audit"];

/// The pages of one fleet, as text.
struct Wording {
    browser: Browser,
    /// Ids of this run, and what replaces them.
    ids: Vec<(String, &'static str)>,
    /// Text by area.
    areas: BTreeMap<&'static str, String>,
}

impl Wording {
    fn add(&mut self, area: &'static str, title: &str, status: u16, lines: Vec<String>) {
        let mut lines: Vec<String> = lines.iter().map(|line| normalized(line, &self.ids)).collect();
        if UNORDERED.contains(&area) {
            // Record 7 of the audit log depends on what was first.
            lines.retain(|line| !line.starts_with("Record "));
            lines.sort();
            lines.dedup();
        }
        let title = normalized(title, &self.ids);
        let text = self.areas.entry(area).or_default();
        write!(text, "== {title}: {status}\n{}\n\n", lines.join("\n")).unwrap();
    }

    async fn get(&mut self, area: &'static str, paths: &[&str]) {
        for path in paths {
            let (status, html) = eventually("the page is complete", async || {
                let answer = self.browser.get(path).await;
                let (status, html) = (answer.status().as_u16(), answer.text().await.unwrap());
                // Fleet-wide checks run in the background.
                (!html.contains("data-reason=\"in-progress\"")).then_some((status, html))
            })
            .await;
            self.add(area, path, status, visible(&html));
        }
    }

    /// Sends a form; follows a redirect within the fleet, and shows the notice there.
    async fn post(&mut self, area: &'static str, path: &str, form: &[(&str, &str)]) {
        let answer = self.browser.post(path, form).await;
        let status = answer.status().as_u16();
        let lines = match answer.headers().get("set-cookie").map(|cookie| cookie.to_str().unwrap().to_owned()) {
            Some(cookie) if cookie.starts_with("said=") => {
                let pair = cookie.split(';').next().unwrap().to_owned();
                let (_, text_found) = url::form_urlencoded::parse(pair.as_bytes()).next().unwrap();
                vec![format!("said: {text_found}")]
            }
            _ => visible(&answer.text().await.unwrap()),
        };
        let sent: Vec<String> = form.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.add(area, &format!("POST {path} {}", sent.join("&")), status, lines);
    }
}

/// Compares texts with the files of their areas; writes these if that was requested.
pub(super) fn compare<'a>(areas: impl IntoIterator<Item = (&'a str, String)>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/operators/wording");
    let mut wrong = Vec::new();
    for (area, text) in areas {
        let path = folder.join(format!("{area}.txt"));
        let text = text.trim_end().to_owned() + "\n";
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        if written != text {
            let place = written.lines().zip(text.lines()).zip(1..).find(|((written, now), _)| written != now);
            let ((written, now), line) = place.unwrap_or((("", ""), written.lines().count()));
            wrong.push(format!("{}:{line}\n  - {written}\n  + {now}", path.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "the wording of pages has changed:\n{}\nIf that is intended, run `{WRITE}=1 cargo test -p margrave-server \
         --test it wording` and review the difference",
        wrong.join("\n")
    );
}

/// Every page that is shown before anything exists.
async fn empty(wording: &mut Wording) {
    wording.get("overview", &["/"]).await;
    wording.get("devices", &["/devices"]).await;
    wording.get("groups", &["/groups", "/groups/new"]).await;
    wording.get("catalog", &["/catalog"]).await;
    wording.get("deployments", &["/deployments"]).await;
    wording.get("rollouts", &["/rollouts"]).await;
    wording.get("settings", &["/settings/enrollment-tokens", "/settings/identities?state=pending"]).await;
}

/// One device in each state, a group, two versions of an application; returns its deployments by device.
async fn fleet(server: &TestServer) -> BTreeMap<String, Deployment> {
    let api = api(server);
    press(server, "lathe", &Kind { labels: json!({ "site": "sued" }), ..Kind::default() }).await;
    server.clock.advance(Duration::from_hours(1));
    let mut clients = BTreeMap::new();
    for name in ["press-1", "press-2", "press-3"] {
        clients.insert(name, press(server, name, &Kind::default()).await);
    }
    press(server, "small", &Kind { memory: "512Mi", types: &["compose"], ..Kind::default() }).await;
    Kind::default().report(&press(server, "gate", &Kind::default()).await, "gate/camera").await;
    for (id, state) in [("waiting", ClientState::Pending), ("gone", ClientState::Decommissioned)] {
        let body = CreateClient { id: id.to_owned(), state: Some(ClientState::Pending), note: None, comment: None };
        api.create_client(&body).await.unwrap();
        if state == ClientState::Decommissioned {
            server.set_state(id, margrave_core::model::ClientState::Decommissioned).await;
        }
    }
    for version in ["1.0.0", "1.1.0"] {
        packages::upload(&api, version).await;
    }
    let body = PutGroup { selector: "site=nord".to_owned(), description: Some("Presses".to_owned()), comment: None };
    api.put_group("north", &body, None).await.unwrap();
    let rollout = api.create_deployments(&create("1.0.0", on(&["press-1", "press-2", "press-3"]))).await.unwrap();
    finished(&api, &rollout).await;
    let deployments: BTreeMap<_, _> =
        all_deployments(&api).await.into_iter().map(|one| (one.device.clone(), one)).collect();
    let (installed, failed) = (&deployments["press-1"], &deployments["press-2"]);
    report(&clients["press-1"], &installed.id, installed.target_version, "installed").await;
    let body = json!({
        "deploymentId": failed.id, "adoptedManifestVersion": failed.target_version, "status": { "state": "failed" },
        "components": [{ "name": "vision", "state": "failed",
            "error": { "code": "MGR-PULL", "source": "device", "message": "the image cannot be pulled" } }],
    });
    let path = format!("/api/v1/deployments/{}/status", failed.id);
    assert_eq!(clients["press-2"].post(&path, body.to_string()).await.status(), 200);
    eventually("every state is stored", async || {
        let summary = api.summary().await.unwrap();
        let of = async |state: &str| {
            let query = DeviceQuery { state: Some(state.to_owned()), ..DeviceQuery::default() };
            api.find_devices(&query, &PageQuery::default()).await.unwrap().items.len()
        };
        let counts = [of("offline").await, of("failed").await, of("updating").await, of("online").await];
        let query = EventQuery { kind: Some("client.offline".into()), ..EventQuery::default() };
        let offline = api.events(&query, false, &PageQuery::default()).await.unwrap().items.len();
        (counts == [1, 1, 1, 4] && offline == 1 && summary.deployments.total() == 3).then_some(())
    })
    .await;
    super::lists::counted_anew(server);
    deployments
}

async fn devices(wording: &mut Wording) {
    let pages = [
        "/devices",
        "/devices?q=nothing",
        "/devices?labels=a%20b",
        "/devices/press-1/press-1",
        "/devices/press-2/press-2",
        "/devices/lathe/lathe",
        "/devices/gate/gate",
        "/devices/press-1/press-1?ask=delete",
        "/clients/waiting?ask=accept",
        "/clients/waiting?ask=reject",
        "/clients/press-1?ask=decommission",
        "/devices/add",
        "/devices/bulk?do=label&device=press-1/press-1&device=press-2/press-2",
        "/devices/bulk?do=decommission&device=press-1/press-1&device=press-2/press-2",
        "/settings/identities/bulk?do=accept&client=waiting&client=gone",
    ];
    wording.get("devices", &pages).await;
    let groups = ["/groups", "/groups/north", "/groups/north?ask=delete"];
    wording.get("groups", &groups).await;
    let form = [("selector", "site=sued"), ("description", ""), ("revision", "1")];
    wording.post("groups", "/groups/north", &form).await;
    wording.post("groups", "/groups/north", &[("selector", "a b"), ("revision", "1")]).await;
    wording.post("groups", "/groups/north", &[("selector", "site=sued"), ("revision", "7")]).await;
    wording.post("groups", "/groups/new", &[("name", "north"), ("selector", "site=nord")]).await;
}

async fn wizard(wording: &mut Wording) {
    let draft = started(&wording.browser).await;
    wording.ids.push((draft.trim_start_matches("/deploy/").to_owned(), "DRAFT"));
    let at = |step: &str| format!("{draft}/{step}");
    wording.get("wizard", &[&at("version"), &at("devices"), &at("devices?q=nothing"), &at("discard")]).await;
    wording.post("wizard", &at("devices"), &[("go", "continue")]).await;
    wording.browser.post(&at("devices"), &[("go", "all")]).await;
    wording.get("wizard", &[&at("devices")]).await;
    wording.browser.post(&at("devices"), &[("go", "named")]).await;
    let two = [("go", "continue"), ("device", "gate/gate"), ("device", "lathe/lathe")];
    wording.browser.post(&at("devices"), &two).await;
    wording.get("wizard", &[&at("configuration")]).await;
    let wrong = [("go", "continue"), ("p:greeting", ""), ("p:interval", "5"), ("p:password", "short")];
    wording.post("wizard", &at("configuration"), &wrong).await;
    let form = [ANSWERS.as_slice(), &[("p:password", "s3cret-value")]].concat();
    let own = [form.as_slice(), &[("go", "override"), ("own-device", "gate/gate")]].concat();
    let place =
        wording.browser.post(&at("configuration"), &own[1..]).await.headers()[LOCATION].to_str().unwrap().to_owned();
    wording.get("wizard", &[&place]).await;
    wording.browser.post(&at("configuration"), &form).await;
    wording.get("wizard", &[&at("review"), "/catalog"]).await;
    wording.post("wizard", &at("discard"), &[]).await;
}

async fn deployments_and_rollouts(wording: &mut Wording, deployments: &BTreeMap<String, Deployment>) {
    let page = |name: &str| format!("/deployments/{}", deployments[name].id);
    let (installed, failed, pending) = (page("press-1"), page("press-2"), page("press-3"));
    let rollout = format!("/rollouts/{}", deployments["press-1"].rollout);
    let asks = ["ask=cancel", "ask=again", "ask=withdraw"].map(|ask| format!("{rollout}?{ask}"));
    wording.get("rollouts", &["/rollouts", &rollout, &asks[0], &asks[1], &asks[2]]).await;
    wording.post("rollouts", &rollout, &[("action", "cancel")]).await;
    let asks = ["ask=retry", "ask=remove"].map(|ask| format!("{failed}?{ask}"));
    let pages = ["/deployments", "/deployments?state=removed", &installed, &failed, &pending, &asks[0], &asks[1]];
    wording.get("deployments", &pages).await;
    wording.post("deployments", &failed, &[("action", "retry")]).await;
}

async fn settings(wording: &mut Wording) {
    let pages = [
        "/settings/tokens",
        "/settings/identities",
        "/settings/identities?q=nothing",
        "/settings/registries",
        "/settings/registries?ask=gc",
        "/settings/registries/add",
        "/settings/certificates",
        "/settings/sessions",
        "/settings/password",
    ];
    wording.get("settings", &pages).await;
    let add = [("client", "press-9"), ("hours", "1")];
    wording.post("settings", "/devices/add", &add).await;
    wording.get("settings", &["/settings/enrollment-tokens", "/settings/enrollment-tokens?revoke=press-9"]).await;
    wording.post("settings", "/settings/enrollment-tokens", &[("client", "press-9")]).await;
    wording.post("settings", "/settings/identities", &[("id", "waiting")]).await;
    wording.post("settings", "/settings/tokens", &[("name", "build"), ("days", "30")]).await;
    wording.post("settings", "/settings/tokens", &[("name", ""), ("days", "30")]).await;
}

/// Error pages, forms with errors, and the messages of the API.
async fn errors(wording: &mut Wording, server: &TestServer, installed: &str) {
    let pages = [
        "/nowhere",
        "/devices/a/b",
        "/groups/none",
        "/catalog/none",
        "/deployments/8e6d3a1c-8d0d-4b0a-9a52-0d6a3a3c2f11",
        "/rollouts/8e6d3a1c-8d0d-4b0a-9a52-0d6a3a3c2f11",
        "/events?from=soon",
        "/audit?from=2026-09-22&until=2026-09-21",
    ];
    wording.get("errors", &pages).await;
    wording.post("errors", installed, &[("action", "retry")]).await;
    wording.post("errors", "/devices/add", &[("client", "not a name!"), ("hours", "1")]).await;
    wording.post("errors", "/sign-in", &[("token", "mgv_wrong")]).await;
    wording.post("errors", "/sign-in", &[("name", "admin"), ("password", "")]).await;
    let label = [("do", "label"), ("device", "press-1/press-1"), ("name", "bad label!"), ("value", "7")];
    wording.post("errors", "/devices/bulk", &label).await;
    wording.post("errors", "/devices/press-1/press-1", &[("action", "labels"), ("value", "7")]).await;
    for (method, path, body) in [
        ("GET", "/api/devices?limit=0", Value::Null),
        ("GET", "/api/devices?labels=a%20b", Value::Null),
        ("GET", "/api/devices/a/b", Value::Null),
        ("GET", "/api/events?since=soon", Value::Null),
        ("POST", "/api/clients", json!({ "id": "not a name!" })),
        ("POST", "/api/clients", json!({ "id": "waiting" })),
        ("PUT", "/api/groups/north", json!({ "selector": "a b" })),
        ("POST", "/api/rollouts", json!({ "kind": "create", "application": "none", "version": "1.0.0" })),
        ("POST", "/api/tokens", json!({ "name": "" })),
    ] {
        let request = crate::support::client::plain().request(method.parse().unwrap(), server.operators_url(path));
        let request = request.bearer_auth(server.admin_token());
        let answer = if body.is_null() { request } else { request.json(&body) }.send().await.unwrap();
        let status = answer.status().as_u16();
        let problem: Value = answer.json().await.unwrap();
        let mut lines = vec![format!("{} {}", problem["code"], problem["detail"])];
        for error in problem["errors"].as_array().into_iter().flatten() {
            lines.push(format!("{} {}", error["field"], error["message"]));
        }
        wording.add("errors", &format!("{method} {path} {body}"), status, lines);
    }
}

#[tokio::test]
async fn pages_say_what_the_wording_files_have() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    let mut wording = Wording { browser, ids: Vec::new(), areas: BTreeMap::new() };
    empty(&mut wording).await;
    let deployments = fleet(&server).await;
    // The first session would be an hour old.
    wording.browser = Browser::signed_in(&server).await;
    wording.get("overview", &["/"]).await;
    let pages = [
        "/catalog?q=nothing",
        "/catalog/press-vision",
        "/catalog/press-vision?version=1.1.0",
        "/catalog/press-vision?version=1.1.0&ask=delete",
        "/catalog/press-vision/compatibility",
        "/catalog/press-vision/compatibility?q=nothing",
        "/catalog/add",
    ];
    wording.get("catalog", &pages).await;
    devices(&mut wording).await;
    wizard(&mut wording).await;
    settings(&mut wording).await;
    let failures = ["/events", "/events?kind=deployment.failed", "/events?device=nothing"];
    wording.get("events", &failures).await;
    wording.get("audit", &["/audit", "/audit?subject=nothing", "/audit?check=yes&subject=nothing"]).await;
    errors(&mut wording, &server, &format!("/deployments/{}", deployments["press-1"].id)).await;
    deployments_and_rollouts(&mut wording, &deployments).await;
    compare(wording.areas);
}
