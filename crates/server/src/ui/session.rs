//! Web sessions: a cookie with a secret, accepted only from our own pages.

use super::assets;
use super::errors::{Shown, UiError};
use super::routes::link;
use super::visit::{FRAGMENT, PageResult, Said, go, render};
use crate::app::error::{AppError, Code, READ_AGAIN};
use crate::app::sessions::{self, Origin};
use crate::net::RemoteAddress;
use crate::state::ServerState;
use crate::telemetry::RequestId;
use askama::Template;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};
use std::fmt;

/// The secret in a session cookie.
#[derive(Clone)]
pub(super) struct Secret(pub(super) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// `__Host-` binds a cookie to this host and to HTTPS; plain HTTP is for loopback addresses only.
pub(super) fn cookie_name(state: &ServerState) -> &'static str {
    if state.config.listeners.operators.speaks_tls() { "__Host-margrave" } else { "margrave" }
}

pub(super) fn set_cookie(state: &ServerState, secret: &str, seconds: u64) -> String {
    let secure = if state.config.listeners.operators.speaks_tls() { "; Secure" } else { "" };
    format!("{}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}", cookie_name(state))
}

pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
        .filter(|value| !value.is_empty())
}

/// Where a request comes from.
pub(super) fn origin(parts: &Parts) -> Origin {
    let browser = parts.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
    let address = parts.extensions.get::<RemoteAddress>().map(|RemoteAddress(address)| address.ip().to_string());
    Origin {
        address: address.unwrap_or_default(),
        browser: browser.unwrap_or_default().to_owned(),
        request_id: parts.extensions.get::<RequestId>().map(|RequestId(id)| id.clone()),
    }
}

/// The notice that the previous page left.
pub(super) fn notice_cookie(headers: &HeaderMap) -> Option<Said> {
    let text = cookie(headers, "said")?;
    let pair = format!("said={text}");
    url::form_urlencoded::parse(pair.as_bytes()).next().and_then(|(_, notice)| {
        let (code, text) = notice.split_once(' ')?;
        Some(Said { code: code.to_owned(), text: text.to_owned() })
    })
}

/// A link from another site comes without the cookie; this page redirects from our own origin, with it.
#[derive(Template)]
#[template(path = "continue.html")]
struct Continue {
    place: String,
    assets: &'static str,
}

/// Admits requests with a session; redirects all others to sign in and return.
pub(super) async fn require(State(state): State<ServerState>, mut request: Request, next: Next) -> PageResult {
    let secret = cookie(request.headers(), cookie_name(&state)).map(str::to_owned);
    let request_id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone());
    let visitor = match &secret {
        Some(secret) => sessions::visitor(&state, secret, request_id).await?,
        None => None,
    };
    if let (Some(visitor), Some(secret)) = (visitor, secret.clone()) {
        request.extensions_mut().insert(visitor);
        request.extensions_mut().insert(Secret(secret));
        return Ok(next.run(request).await);
    }
    let place = request.uri().path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    // The script handles this; a redirect would insert the sign-in page into another page.
    if request.headers().contains_key(FRAGMENT) || place.starts_with("/ui/") {
        return Ok((StatusCode::UNAUTHORIZED, "signed out").into_response());
    }
    let elsewhere = request.headers().get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    if reads && elsewhere && secret.is_none() {
        return render(StatusCode::OK, &Continue { place, assets: assets::base() });
    }
    // Already signed out.
    if place == "/sign-out" {
        return Ok(go("/sign-in", None));
    }
    let back = if reads { Some(place) } else { sent_from(request.headers(), request.uri()) };
    let back = back.filter(|back| back != "/").unwrap_or_default();
    Ok(go(&link("/sign-in", &[("to", &back), ("ended", if reads { "" } else { "yes" })]), None))
}

/// The page of ours that contained the form, from the `Referer` header.
fn sent_from(headers: &HeaderMap, uri: &http::Uri) -> Option<String> {
    let page = url::Url::parse(headers.get(header::REFERER)?.to_str().ok()?).ok()?;
    let host = host(headers, uri)?;
    let own = page.host_str().is_some_and(|name| match page.port() {
        Some(port) => format!("{name}:{port}") == host,
        None => name == host,
    });
    own.then(|| page[url::Position::BeforePath..url::Position::AfterQuery].to_owned())
}

fn host<'a>(headers: &'a HeaderMap, uri: &'a http::Uri) -> Option<&'a str> {
    let named = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    named.or_else(|| uri.authority().map(http::uri::Authority::as_str))
}

/// Rejects requests that another site makes a browser send.
pub(super) async fn reject_cross_origin(request: Request, next: Next) -> Result<Response, UiError> {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if reads || is_own(&request) {
        return Ok(next.run(request).await);
    }
    Err(UiError(Shown {
        status: StatusCode::FORBIDDEN,
        title: "Request from another site rejected".to_owned(),
        detail:
            "The request did not come from a page of this server, so nothing was done. Open the page here and try again."
                .to_owned(),
        errors: Vec::new(),
        code: "cross-origin",
    }))
}

fn is_own(request: &Request) -> bool {
    let headers = request.headers();
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let Some(origin) = headers.get(header::ORIGIN).and_then(|value| value.to_str().ok()) else { return false };
    let host = host(headers, request.uri());
    let of_origin = origin.split_once("://").map(|(_, host)| host);
    host.is_some() && host == of_origin
}

impl From<AppError> for UiError {
    fn from(error: AppError) -> Self {
        match error {
            // Pages do not show revisions.
            AppError::Refused { code: Code::Conflict, detail, errors } if detail.ends_with(READ_AGAIN) => Self(Shown {
                status: StatusCode::PRECONDITION_FAILED,
                title: Code::Conflict.title().to_owned(),
                detail: "Another operator changed it while you had it open, so nothing was done. Go back, check its current state, and repeat the action if it is still needed.".to_owned(),
                errors,
                code: Code::Conflict.as_str(),
            }),
            AppError::Refused { code, detail, errors } => Self(Shown {
                status: StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                title: code.title().to_owned(),
                detail,
                errors,
                code: code.as_str(),
            }),
            // Logged here, once; the page shows the request ID.
            error => {
                tracing::error!(error = &error as &dyn std::error::Error, "page failed");
                let code = Code::Internal;
                Self(Shown {
                    status: StatusCode::INTERNAL_SERVER_ERROR,
                    title: code.title().to_owned(),
                    detail: "See the server log for the request ID below.".to_owned(),
                    errors: Vec::new(),
                    code: code.as_str(),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn request_with(headers: &[(&str, &str)]) -> Request {
        let mut request = http::Request::post("/sign-out");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn rejects_requests_from_other_sites() {
        for (headers, own) in [
            (vec![("sec-fetch-site", "same-origin")], true),
            (vec![("sec-fetch-site", "same-site")], false),
            (vec![("sec-fetch-site", "cross-site"), ("origin", "http://a.example"), ("host", "a.example")], false),
            (vec![("origin", "http://127.0.0.1:8080"), ("host", "127.0.0.1:8080")], true),
            (vec![("origin", "http://evil.example"), ("host", "127.0.0.1:8080")], false),
            (vec![("origin", "null"), ("host", "127.0.0.1:8080")], false),
            (vec![("host", "127.0.0.1:8080")], false),
        ] {
            assert_eq!(is_own(&request_with(&headers)), own, "{headers:?}");
        }
    }

    #[test]
    fn returns_only_to_our_own_pages() {
        for (referer, back) in [
            ("http://127.0.0.1:8080/deploy/1/configuration?a=b#own", Some("/deploy/1/configuration?a=b")),
            ("http://127.0.0.1:8080", Some("/")),
            ("http://127.0.0.1:8081/deploy/1/configuration", None),
            ("http://evil.example/deploy/1/configuration", None),
            ("http://127.0.0.1:8080@evil.example/x", None),
            ("/deploy/1/configuration", None),
        ] {
            let request = request_with(&[("host", "127.0.0.1:8080"), ("referer", referer)]);
            assert_eq!(sent_from(request.headers(), request.uri()).as_deref(), back, "{referer}");
        }
    }

    #[test]
    fn finds_a_cookie_among_others() {
        let request = request_with(&[("cookie", "a=1; margrave=mgvw_x; said=saved+two+words%21")]);
        assert_eq!(cookie(request.headers(), "margrave"), Some("mgvw_x"));
        assert_eq!(cookie(request.headers(), "b"), None);
        assert_eq!(
            notice_cookie(request.headers()),
            Some(Said { code: "saved".to_owned(), text: "two words!".to_owned() })
        );
    }
}
