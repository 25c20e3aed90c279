//! Answers are compressed for callers that accept it.

use super::pages::Browser;
use super::{Kind, press};
use crate::support::TestServer;
use crate::support::client::plain;
use reqwest::Response;
use std::io::Read as _;

async fn get(server: &TestServer, path: &str, encoding: Option<&str>) -> Response {
    let request = plain().get(server.operators_url(path)).bearer_auth(server.admin_token());
    let request = match encoding {
        Some(encoding) => request.header("accept-encoding", encoding),
        None => request,
    };
    request.send().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

async fn unpacked(response: Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&*response.bytes().await.unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

#[tokio::test]
async fn compresses_what_a_caller_accepts() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    let page = browser.get("/sign-in").await.text().await.unwrap_or_default();
    let asset = page.split('"').find(|part| part.ends_with("app.css")).expect("the page names its style").to_owned();
    for path in ["/api/openapi.json", &asset, "/sign-in"] {
        let plain = get(&server, path, None).await;
        assert_eq!(
            (header(&plain, "content-encoding"), header(&plain, "vary")),
            (None, Some("accept-encoding")),
            "{path}"
        );
        let plain = plain.bytes().await.unwrap();
        let packed = get(&server, path, Some("br, gzip;q=0.8")).await;
        assert_eq!(header(&packed, "content-encoding"), Some("gzip"), "{path}");
        assert_eq!(header(&packed, "vary"), Some("accept-encoding"), "{path}");
        let length: usize = header(&packed, "content-length").unwrap().parse().unwrap();
        assert!(length < plain.len(), "{path}: {length} of {}", plain.len());
        let bytes = unpacked(packed).await;
        assert!(bytes == plain, "{path}");
        let refused = get(&server, path, Some("gzip;q=0")).await;
        assert_eq!(header(&refused, "content-encoding"), None, "{path}");
    }
}

#[tokio::test]
async fn compresses_a_signed_in_page_and_a_long_list() {
    let server = TestServer::start().await;
    for number in 0..5 {
        press(&server, &format!("press-{number}"), &Kind::default()).await;
    }
    let browser = Browser::signed_in(&server).await;
    for path in ["/devices", "/api/devices?limit=1000"] {
        let ask = |encoding: &'static str| {
            let request = plain().get(server.operators_url(path)).header("accept-encoding", encoding);
            if path.starts_with("/api") {
                request.bearer_auth(server.admin_token())
            } else {
                request.header("cookie", browser.cookie())
            }
        };
        let packed = ask("gzip").send().await.unwrap();
        assert_eq!((packed.status().as_u16(), header(&packed, "content-encoding")), (200, Some("gzip")), "{path}");
        let length: usize = header(&packed, "content-length").unwrap().parse().unwrap();
        let text = String::from_utf8(unpacked(packed).await).unwrap();
        assert!(length < text.len() && text.contains("press-4"), "{path}: {length} of {}", text.len());
    }
    let events = plain().get(server.operators_url("/ui/events")).header("accept-encoding", "gzip");
    let events = events.header("cookie", browser.cookie()).send().await.unwrap();
    assert_eq!((events.status().as_u16(), header(&events, "content-encoding")), (200, None));
    assert_eq!(header(&events, "content-type"), Some("text/event-stream"));
}

#[tokio::test]
async fn leaves_short_answers_streams_and_tagged_objects_as_they_are() {
    let server = TestServer::start().await;
    press(&server, "press", &Kind::default()).await;
    for path in ["/api/whoami", "/api/events/stream", "/api/devices/press/press"] {
        let response = get(&server, path, Some("gzip")).await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!((header(&response, "content-encoding"), header(&response, "vary")), (None, None), "{path}");
    }
    let tagged = get(&server, "/api/devices/press/press", Some("gzip")).await;
    assert_eq!(header(&tagged, "etag"), Some("\"1\""), "the tag stays usable for `If-Match`");
}
