//! The fast path of an unchanged poll: it differs from the routes in speed only.

use crate::support::client::plain;
use crate::support::held::Held;
use crate::support::{TestServer, client_id};
use axum::body::Body;
use http::Request;
use margo::spiffe::ClientIdentity;
use margrave_core::model::ClientState;
use margrave_core::time::Clock as _;
use margrave_server::devices::FastPath;
use margrave_server::net::Peer;
use std::sync::OnceLock;
use std::time::Duration;

const MANIFEST: &str = "/api/v1/deployments";
const MANIFEST_TYPE: &str = "application/vnd.margo.manifest.v1+json";
/// A request with an id goes to the routes. As long as generated ids, so that lengths agree.
const BY_THE_ROUTES: &str = "x-request-id: 00000000-0000-4000-8000-00000000feed\r\n";

/// A request without the parts common to all.
struct Variant {
    line: String,
    headers: Vec<(&'static str, String)>,
    /// Whether it should use the fast path.
    short: bool,
}

fn poll(headers: &[(&'static str, &str)], short: bool) -> Variant {
    let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Variant { line: format!("GET {MANIFEST} HTTP/1.1"), headers, short }
}

impl Variant {
    fn with_line(self, line: &str) -> Self {
        Self { line: line.to_owned(), ..self }
    }

    fn text(&self, more: &str) -> String {
        let mut lines = vec![self.line.clone(), "host: wfm".to_owned()];
        lines.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        format!("{}\r\n{more}\r\n", lines.join("\r\n"))
    }

    fn request(&self) -> Request<Body> {
        let mut words = self.line.split(' ');
        let mut request = Request::builder().method(words.next().unwrap()).uri(words.next().unwrap());
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request.body(Body::empty()).unwrap()
    }
}

fn variants(etag: &str) -> Vec<Variant> {
    let bare = etag.trim_matches('"');
    let held = ("if-none-match", etag);
    let usual = || poll(&[held], true);
    let mut variants = vec![
        usual(),
        poll(&[held, ("accept", MANIFEST_TYPE)], true),
        poll(&[held, ("accept", "*/*")], true),
        poll(&[held, ("user-agent", "x"), ("cookie", "a=b"), ("accept-encoding", "gzip")], true),
        poll(&[held, ("connection", "close")], true),
        poll(&[held, ("range", "bytes=0-1")], true),
        poll(&[held, ("if-match", "\"other\""), ("if-modified-since", "Mon, 16 Nov 2026 12:00:00 GMT")], true),
        usual().with_line(&format!("GET {MANIFEST}?x=1&y HTTP/1.1")),
        usual().with_line(&format!("GET {MANIFEST} HTTP/1.0")),
        usual().with_line(&format!("GET https://wfm{MANIFEST} HTTP/1.1")),
        poll(&[held, ("connection", "keep-alive")], true).with_line(&format!("GET {MANIFEST} HTTP/1.0")),
        poll(&[], false),
        poll(&[held, held], false),
        poll(&[held, ("if-none-match", "\"other\"")], false),
        poll(&[held, ("prefer", "wait=0")], false),
        poll(&[held, ("prefer", "wait=1")], false),
        poll(&[held, ("prefer", "return=minimal")], false),
        poll(&[("if-none-match", "\"other\""), ("prefer", "wait=1")], false),
        poll(&[held, ("accept", MANIFEST_TYPE), ("accept", "text/html")], false),
    ];
    for value in ["*", bare, &format!("W/{etag}"), &format!("\"other\", {etag}"), "\"other\"", "", "\"\"", &etag[1..]] {
        variants.push(poll(&[("if-none-match", value)], false));
    }
    for accept in ["application/*", "text/html", "application/json", "*/*;q=0", "text/html, */*;q=0.1", ""] {
        variants.push(poll(&[held, ("accept", accept)], false));
    }
    for path in ["/", "/api/v1/deployments/", "/api/v1//deployments", "/api/v1/deployment%73", "/API/v1/deployments"] {
        variants.push(poll(&[held], false).with_line(&format!("GET {path} HTTP/1.1")));
    }
    for method in ["HEAD", "OPTIONS", "DELETE", "PUT", "POLL"] {
        variants.push(poll(&[held], false).with_line(&format!("{method} {MANIFEST} HTTP/1.1")));
    }
    variants
}

fn peer(server: &TestServer, client: &str) -> Peer {
    Peer(ClientIdentity { wfm: server.state().identity.wfm().clone(), client_id: client_id(client) })
}

/// The head of a response without the parts that differ each time, and its request id.
fn told(head: &str) -> (Vec<&str>, &str) {
    let (mut lines, mut id) = (Vec::new(), "");
    for line in head.lines().filter(|line| !line.starts_with("date: ")) {
        match line.strip_prefix("x-request-id: ") {
            Some(found) => id = found,
            None => lines.push(line),
        }
    }
    // HTTP gives the order of different headers no meaning.
    lines[1..].sort_unstable();
    (lines, id)
}

async fn metric(server: &TestServer, name: &str) -> f64 {
    let text = plain().get(server.operators_url("/metrics")).send().await.unwrap().text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or(" 0");
    line.trim().parse().unwrap()
}

#[tokio::test]
async fn the_fast_path_answers_like_the_routes() {
    let server = TestServer::start().await;
    for (client, state) in
        [("press", ClientState::Accepted), ("lathe", ClientState::Decommissioned), ("robot", ClientState::Pending)]
    {
        server.create(client, state).await;
        let etag = server.state().heads.get(&client_id(client)).unwrap().digest.etag();
        let front = FastPath::new(server.state());
        for variant in variants(&etag) {
            let short = front.unchanged(&variant.request(), Some(&peer(&server, client)), &OnceLock::new()).is_some();
            let text = variant.text("");
            assert_eq!(short, variant.short && state == ClientState::Accepted, "{client}: {text}");
            let ours = Held::open(&server, client).await.say(&text).await;
            let theirs = Held::open(&server, client).await.say(&variant.text(BY_THE_ROUTES)).await;
            let ((ours, id), (theirs, given)) = (told(&ours), told(&theirs));
            assert_eq!(ours, theirs, "{client}: {text}");
            assert_eq!((id.len(), given.len()), (36, 36), "{client}: {text}");
        }
    }
}

#[tokio::test]
async fn an_unknown_client_is_answered_by_the_routes() {
    let server = TestServer::start().await;
    let front = FastPath::new(server.state());
    let usual = poll(&[("if-none-match", "\"sha256:00\"")], true);
    assert!(front.unchanged(&usual.request(), Some(&peer(&server, "absent")), &OnceLock::new()).is_none());
    assert!(front.unchanged(&usual.request(), None, &OnceLock::new()).is_none());
    assert!(Held::open(&server, "absent").await.say(&usual.text("")).await.starts_with("http/1.1 403 "));
}

#[tokio::test]
async fn one_connection_sees_every_change_between_two_polls() {
    let server = TestServer::start().await;
    server.create("press", ClientState::Accepted).await;
    let mut line = Held::open(&server, "press").await;
    let etag = || server.state().heads.get(&client_id("press")).unwrap().digest.etag();
    let first = format!("if-none-match: {}\r\n", etag());
    let mut ids = std::collections::HashSet::new();
    for _ in 0..10 {
        server.clock.advance(Duration::from_secs(1));
        let answer = line.ask(&first).await;
        assert!(answer.starts_with("http/1.1 304 "), "{answer}");
        assert!(ids.insert(told(&answer).1.to_owned()), "every request has an id of its own");
        assert_eq!(server.state().heads.last_seen(&client_id("press")), Some(server.clock.now()));
    }
    server.set_state("press", ClientState::Decommissioned).await;
    assert!(line.ask(&first).await.starts_with("http/1.1 403 "));
    server.set_state("press", ClientState::Accepted).await;
    assert!(line.ask(&first).await.starts_with("http/1.1 304 "));
    server.deploy("press").await;
    assert!(line.ask(&first).await.starts_with("http/1.1 200 "));
    assert!(line.ask(&format!("if-none-match: {}\r\n", etag())).await.starts_with("http/1.1 304 "));
}

#[tokio::test]
async fn counts_fast_path_and_routes_alike() {
    let server = TestServer::start().await;
    server.create("press", ClientState::Accepted).await;
    let etag = server.state().heads.get(&client_id("press")).unwrap().digest.etag();
    let requests =
        format!("margrave_requests_total{{listener=\"devices\",route=\"{MANIFEST}\",method=\"GET\",status=\"304\"}}");
    let mut line = Held::open(&server, "press").await;
    for (more, polls) in [("", 3), (BY_THE_ROUTES, 5)] {
        for _ in 0..polls {
            line.ask(&format!("if-none-match: {etag}\r\n{more}")).await;
        }
        let polls = f64::from(if more.is_empty() { 3 } else { 8 });
        for name in [
            requests.as_str(),
            "margrave_polls_total{outcome=\"unchanged\"}",
            "margrave_request_duration_seconds_count{listener=\"devices\"}",
        ] {
            assert!((metric(&server, name).await - polls).abs() < 0.5, "{name}");
        }
    }
}
