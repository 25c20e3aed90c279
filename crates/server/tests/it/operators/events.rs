//! Events: history and stream, over real TLS where it matters.

use super::{Kind, api, create, on, packages, press, problem, refused, report};
use crate::support::client::plain;
use crate::support::{TestClock, TestServer, config, eventually};
use margrave_api::access::CreateToken;
use margrave_api::client::{ApiClient, ClientError, ClientOptions, EventQuery, EventStream, PageQuery, StreamItem};
use margrave_api::events::{Event, EventGap};
use margrave_api::page::Page;
use margrave_core::events::{About, NewEvent};
use margrave_core::time::Clock as _;
use margrave_server::clock::SystemClock;
use margrave_server::config::Config;
use margrave_server::run;
use margrave_store::Retention;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Reaching this timeout is a failure.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server with TLS for operators and the real clock: certificates are checked against it.
async fn over_tls(change: impl FnOnce(&mut Config)) -> TestServer {
    let data = tempfile::tempdir().unwrap();
    let mut config = config(&data);
    config.listeners.operators.tls = Some(true);
    change(&mut config);
    let running = run::start(config, Arc::new(SystemClock)).await.unwrap();
    TestServer { running, clock: TestClock::new(), data }
}

/// The same data and addresses.
async fn restarted(server: TestServer) -> TestServer {
    let TestServer { running, clock, data } = server;
    let mut config = Config::clone(&running.state.config);
    config.listeners.operators.address = running.addresses.operators.unwrap();
    running.shutdown().await;
    let running = run::start(config, Arc::new(SystemClock)).await.unwrap();
    TestServer { running, clock, data }
}

fn tls_api(server: &TestServer) -> ApiClient {
    let ca = std::fs::read_to_string(server.state().config.trust_dir().join("https-ca.pem")).unwrap();
    let end = ca.find("-----END CERTIFICATE-----").unwrap() + "-----END CERTIFICATE-----\n".len();
    let start = ca.find("-----BEGIN CERTIFICATE-----").unwrap();
    let url = server.operators_url("").replace("http:", "https:");
    let options = ClientOptions::new(url).with_token(server.admin_token()).with_ca_pem(&ca[start..end]);
    ApiClient::new(&options).unwrap()
}

async fn next(stream: &mut EventStream) -> Result<StreamItem, ClientError> {
    tokio::time::timeout(PATIENCE, stream.next()).await.expect("data in time")
}

async fn next_event(stream: &mut EventStream) -> Event {
    loop {
        if let StreamItem::Event(event) = next(stream).await.unwrap() {
            return *event;
        }
    }
}

async fn opened(api: &ApiClient, query: EventQuery) -> EventStream {
    let mut stream = api.event_stream(query);
    assert!(matches!(next(&mut stream).await.unwrap(), StreamItem::Connected));
    stream
}

fn after(id: i64) -> EventQuery {
    EventQuery { after: Some(id), ..EventQuery::default() }
}

fn token(name: &str) -> CreateToken {
    CreateToken { name: name.into(), valid_for_seconds: None, comment: None }
}

async fn say(server: &TestServer, number: i64) {
    let event = NewEvent::new("test.said", About::default()).with(json!({ "number": number }));
    server.state().store.event_append(event, server.state().now()).await.unwrap();
}

async fn history(api: &ApiClient, query: &EventQuery) -> Page<Event> {
    api.events(query, true, &PageQuery { limit: Some(1000), after: None }).await.unwrap()
}

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

#[tokio::test]
async fn a_stream_resumes_without_loss_or_duplicates() {
    let server = over_tls(|_| {}).await;
    let api = tls_api(&server);
    let mut stream = opened(&api, EventQuery::default()).await;
    for number in 0..450 {
        say(&server, number).await;
    }
    let mut seen: Vec<Event> = Vec::new();
    for _ in 0..100 {
        seen.push(next_event(&mut stream).await);
    }
    let position = stream.position().unwrap();
    assert_eq!(position, seen.last().unwrap().id);
    // The connection is lost in the middle of a page.
    drop(stream);
    for number in 450..500 {
        say(&server, number).await;
    }
    let mut stream = opened(&api, after(position)).await;
    while seen.len() < 500 {
        seen.push(next_event(&mut stream).await);
    }
    let text_found: Vec<_> = seen.iter().map(|event| event.detail.clone().unwrap()).collect();
    assert_eq!(text_found, (0..500).map(|number| json!({ "number": number })).collect::<Vec<_>>());
    assert!(seen.iter().all(|event| event.message == "test (said)"), "{:?}", seen[0]);
    assert!(seen.windows(2).all(|two| two[0].id + 1 == two[1].id));
    let page = history(&api, &after(seen[0].id - 1)).await;
    assert_eq!(page.items, seen, "history and stream are equal");
    say(&server, 500).await;
    assert_eq!(next_event(&mut stream).await.detail, Some(json!({ "number": 500 })), "later events arrive as well");
}

#[tokio::test]
async fn a_stream_survives_restarts_of_the_server() {
    let mut server = over_tls(|_| {}).await;
    let api = tls_api(&server);
    let first = server.state().store.event_bounds().await.unwrap().newest + 1;
    let mut stream = opened(&api, EventQuery::default()).await;
    let mut seen = Vec::new();
    for round in 0..3 {
        say(&server, round).await;
        if round == 1 {
            seen.push(next_event(&mut stream).await);
        }
        server = restarted(server).await;
    }
    let newest = server.state().store.event_bounds().await.unwrap().newest;
    while seen.last().is_none_or(|event: &Event| event.id < newest) {
        seen.push(next_event(&mut stream).await);
    }
    let ids: Vec<i64> = seen.iter().map(|event| event.id).collect();
    assert_eq!(ids, (first..=newest).collect::<Vec<_>>());
    let told = ["test.said", "server.started"].repeat(3);
    assert_eq!(kinds(&seen), told);
}

#[tokio::test]
async fn actions_of_operators_and_devices_become_events() {
    let server = TestServer::start().await;
    let admin = api(&server);
    let mut stream = opened(&admin, EventQuery::default()).await;
    packages::upload(&admin, "1.0.0").await;
    let client = press(&server, "press", &Kind::default()).await;
    admin.create_deployments(&create("1.0.0", on(&["press"]))).await.unwrap();
    let mut seen: Vec<Event> = Vec::new();
    while seen.last().is_none_or(|event| event.kind != "rollout.finished") {
        seen.push(next_event(&mut stream).await);
    }
    let assigned = seen.iter().find(|event| event.kind == "deployment.assigned").unwrap().clone();
    for state in ["installing", "installed", "installed"] {
        report(&client, assigned.deployment.as_deref().unwrap(), 2, state).await;
    }
    admin.revoke_token(&admin.create_token(&token("robots")).await.unwrap().id, None).await.unwrap();
    while seen.last().is_none_or(|event| event.kind != "token.revoked") {
        seen.push(next_event(&mut stream).await);
    }
    let mut told = kinds(&seen);
    // Written by a background loop at some later time.
    told.retain(|kind| *kind != "client.connected");
    assert_eq!(
        told,
        [
            "application.added",
            "client.created",
            "device.reported",
            "rollout.created",
            "deployment.assigned",
            "rollout.finished",
            "deployment.installing",
            "deployment.installed",
            "token.created",
            "token.revoked",
        ]
    );
    let text = serde_json::to_string(&seen).unwrap();
    assert!(!text.contains("s3cret-value"), "{text}");
    assert_eq!((assigned.client.as_deref(), assigned.device.as_deref()), (Some("press"), Some("press")));
    assert_eq!(assigned.actor.as_deref(), Some("token:admin"));
    let about_it = EventQuery { deployment: assigned.deployment.clone(), ..EventQuery::default() };
    let told = ["deployment.assigned", "deployment.installing", "deployment.installed"];
    assert_eq!(kinds(&history(&admin, &about_it).await.items), told);
}

#[tokio::test]
async fn reports_a_gap_and_continues_the_stream_after_it() {
    let server = TestServer::start().await;
    let admin = api(&server);
    for number in 0..20 {
        say(&server, number).await;
    }
    let retention = Retention {
        revisions_per_deployment: 1,
        statuses_per_deployment: 1,
        replaced_artifacts: Duration::from_hours(1),
        finished_rollouts: Duration::from_hours(1),
        removed_deployments: Duration::from_hours(1),
        idempotency_keys: Duration::from_hours(1),
        events: 5,
    };
    server.state().store.prune(&retention, server.clock.now()).await.unwrap();
    let bounds = server.state().store.event_bounds().await.unwrap();
    assert_eq!(bounds.newest - bounds.oldest, 4);
    let mut stream = opened(&admin, after(2)).await;
    let StreamItem::Gap(EventGap { after: from, next: to, message }) = next(&mut stream).await.unwrap() else {
        panic!("no gap")
    };
    assert_eq!((from, to), (2, bounds.oldest));
    assert!(message.contains("no longer kept"), "{message}");
    assert_eq!(next_event(&mut stream).await.id, bounds.oldest);
    // Reading from the oldest stored event has no gap.
    let mut stream = opened(&admin, after(0)).await;
    assert!(matches!(next(&mut stream).await.unwrap(), StreamItem::Event(event) if event.id == bounds.oldest));
    // From the future, as after a restore.
    let mut stream = opened(&admin, after(bounds.newest + 100)).await;
    let StreamItem::Gap(gap) = next(&mut stream).await.unwrap() else { panic!("no gap") };
    assert_eq!(gap.next, bounds.newest + 1);
    say(&server, 20).await;
    assert_eq!(next_event(&mut stream).await.id, bounds.newest + 1);
}

#[tokio::test]
async fn filters_apply_to_history_and_stream() {
    let server = TestServer::start().await;
    let admin = api(&server);
    for name in ["one", "two"] {
        press(&server, name, &Kind::default()).await;
    }
    for number in 0..300 {
        say(&server, number).await;
    }
    let by = |change: fn(&mut EventQuery)| {
        let mut query = after(0);
        change(&mut query);
        query
    };
    for (query, expected) in [
        (by(|query| query.client = Some("two".into())), vec!["client.created", "device.reported"]),
        (by(|query| query.device = Some("one".into())), vec!["device.reported"]),
        (by(|query| query.kind = Some("client.created".into())), vec!["client.created", "client.created"]),
        (
            by(|query| {
                query.kind = Some("device".into());
                query.client = Some("one".into());
            }),
            vec!["device.reported"],
        ),
    ] {
        let mut page = history(&admin, &query).await;
        page.items.retain(|event| event.kind != "client.connected");
        assert_eq!(kinds(&page.items), expected, "{query:?}");
        let mut stream = opened(&admin, query.clone()).await;
        for expected in &page.items {
            let event = loop {
                let event = next_event(&mut stream).await;
                if event.kind != "client.connected" {
                    break event;
                }
            };
            assert_eq!(&event, expected);
        }
    }
    let newest = admin.events(&EventQuery::default(), false, &PageQuery { limit: Some(2), after: None }).await.unwrap();
    assert!(newest.items[0].id > newest.items[1].id);
    let older = admin.events(&EventQuery::default(), false, &PageQuery { limit: Some(2), after: newest.next }).await;
    assert_eq!(older.unwrap().items[0].id, newest.items[1].id - 1);
}

#[tokio::test]
async fn rejects_invalid_parameters_with_their_field() {
    let server = TestServer::start().await;
    let admin = api(&server);
    let since = EventQuery { since: Some("yesterday".into()), ..EventQuery::default() };
    assert_eq!(
        refused(admin.events(&since, false, &PageQuery::default()).await),
        ("invalid".into(), vec!["since".into()])
    );
    assert_eq!(problem(admin.event_stream(since).next().await).status, 422);
    let empty = EventQuery { client: Some(String::new()), ..EventQuery::default() };
    assert_eq!(refused(admin.events(&empty, false, &PageQuery::default()).await).1, ["client"]);
    assert_eq!(refused(admin.event_stream(after(-1)).next().await).1, ["after"]);
    let response = plain()
        .get(server.operators_url("/api/events/stream"))
        .bearer_auth(server.admin_token())
        .header("last-event-id", "seven")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 400);
}

#[tokio::test]
async fn a_revoked_token_ends_its_streams_only() {
    let server = TestServer::start().await;
    let admin = api(&server);
    let token = admin.create_token(&token("robots")).await.unwrap();
    let options = ClientOptions::new(server.operators_url("")).with_token(token.secret.unwrap());
    let robots = ApiClient::new(&options).unwrap();
    let mut own = opened(&admin, EventQuery::default()).await;
    // Its filter matches nothing, and it ends as well.
    let query = EventQuery { kind: Some("nothing".into()), ..EventQuery::default() };
    let mut theirs = opened(&robots, query).await;
    admin.revoke_token(&token.id, None).await.unwrap();
    say(&server, 1).await;
    assert!(matches!(next(&mut theirs).await.unwrap(), StreamItem::Lost(_)), "no event after the revocation");
    assert_eq!(problem(next(&mut theirs).await).status, 401);
    assert_eq!(next_event(&mut own).await.kind, "token.revoked");
    assert_eq!(next_event(&mut own).await.kind, "test.said");
}

#[tokio::test]
async fn limits_streams_per_token_and_in_total() {
    let server = TestServer::start_with(|config| {
        config.limits.event_streams = 3;
        config.limits.event_streams_per_token = 2;
    })
    .await;
    let admin = api(&server);
    let token = admin.create_token(&token("robots")).await.unwrap();
    let robots =
        ApiClient::new(&ClientOptions::new(server.operators_url("")).with_token(token.secret.unwrap())).unwrap();
    let mut open = vec![opened(&admin, EventQuery::default()).await, opened(&admin, EventQuery::default()).await];
    let refusal = problem(admin.event_stream(EventQuery::default()).next().await);
    assert_eq!((refusal.status, refusal.code.as_str()), (429, "busy"));
    assert!(refusal.detail.contains("this token has 2 streams"), "{}", refusal.detail);
    open.push(opened(&robots, EventQuery::default()).await);
    let refusal = problem(robots.event_stream(EventQuery::default()).next().await);
    assert!(refusal.detail.contains("3 streams are open"), "{}", refusal.detail);
    let request = plain().get(server.operators_url("/api/events/stream")).bearer_auth(server.admin_token());
    assert_eq!(request.send().await.unwrap().headers()["retry-after"], "5");
    // A slot is free again soon after its reader has gone.
    open.remove(0);
    eventually("a slot is free", async || admin.event_stream(EventQuery::default()).next().await.ok()).await;
}

#[tokio::test]
async fn a_stream_ends_when_the_server_stops() {
    let server = TestServer::start().await;
    let request = plain().get(server.operators_url("/api/events/stream")).bearer_auth(server.admin_token());
    let mut response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-store");
    let hello = response.chunk().await.unwrap().unwrap();
    assert!(hello.starts_with(b"retry: "), "{hello:?}");
    let TestServer { running, data: _data, .. } = server;
    tokio::join!(running.shutdown(), async {
        // A proper end, not a broken connection.
        while tokio::time::timeout(PATIENCE, response.chunk()).await.unwrap().unwrap().is_some() {}
    });
}

#[tokio::test]
async fn polls_without_news_create_no_events() {
    let server = TestServer::start().await;
    let client = press(&server, "press", &Kind::default()).await;
    let store = &server.state().store;
    // The first contact is an event, once.
    let newest = eventually("the first contact is an event", async || {
        let query = EventQuery { kind: Some("client.connected".into()), ..EventQuery::default() };
        let page = history(&api(&server), &query).await;
        (!page.items.is_empty()).then_some(store.event_bounds().await.unwrap().newest)
    })
    .await;
    let first = client.get("/api/v1/deployments").await;
    let tag = first.headers()["etag"].clone();
    for _ in 0..20 {
        let poll = client.request("GET", "/api/v1/deployments").header("if-none-match", &tag).send().await.unwrap();
        assert_eq!(poll.status(), 304);
    }
    Kind::default().report(&client, "press").await;
    assert_eq!(store.event_bounds().await.unwrap().newest, newest);
}

#[tokio::test]
async fn a_client_going_offline_and_online_creates_events() {
    let server = TestServer::start().await;
    let client = press(&server, "press", &Kind::default()).await;
    let admin = api(&server);
    let query = EventQuery { kind: Some("client".into()), ..after(0) };
    let mut stream = opened(&admin, query).await;
    assert_eq!(next_event(&mut stream).await.kind, "client.created");
    assert_eq!(next_event(&mut stream).await.kind, "client.connected");
    server.clock.advance(Duration::from_mins(10));
    assert_eq!(next_event(&mut stream).await.kind, "client.offline");
    client.get("/api/v1/deployments").await;
    let back = next_event(&mut stream).await;
    assert_eq!((back.kind.as_str(), back.client.as_deref()), ("client.online", Some("press")));
}
