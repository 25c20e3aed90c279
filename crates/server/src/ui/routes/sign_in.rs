//! In and out.

use crate::app::sessions::{self, Origin, SESSION_LIFETIME};
use crate::net::RemoteAddress;
use crate::state::ServerState;
use crate::telemetry::RequestId;
use crate::ui::assets;
use crate::ui::errors::UiError;
use crate::ui::form::Form;
use crate::ui::routes::query::Asked;
use crate::ui::session::set_cookie;
use crate::ui::visit::{Answer, Visit, go, render};
use askama::Template;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};

/// A token and an address to go to.
const FORM_BYTES_MAX: usize = 16 << 10;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    wrong: Option<String>,
    /// Where to go afterwards.
    to: String,
    assets: &'static str,
}

pub(in crate::ui) async fn form(asked: Asked) -> Answer {
    render(StatusCode::OK, &SignIn { wrong: None, to: own(&asked.text("to")), assets: assets::base() })
}

pub(in crate::ui) async fn enter(State(state): State<ServerState>, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let browser = parts.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
    let address = parts.extensions.get::<RemoteAddress>().map(|RemoteAddress(address)| address.ip().to_string());
    let origin = Origin {
        address: address.unwrap_or_default(),
        browser: browser.unwrap_or_default().to_owned(),
        request_id: parts.extensions.get::<RequestId>().map(|RequestId(id)| id.clone()),
    };
    let bytes = crate::body::read(Request::new(body), FORM_BYTES_MAX).await.unwrap_or_default();
    let form = Form::read(&bytes);
    let to = own(form.text("to"));
    let token = form.text("token");
    if token.is_empty() {
        return again("Give the access token.", to);
    }
    match sessions::sign_in(&state, token, &origin).await? {
        Some(secret) => {
            let mut response = go(&to, None);
            set(&mut response, &set_cookie(&state, &secret, SESSION_LIFETIME.as_secs()));
            Ok(response)
        }
        None => again(
            "This token is not known, has expired or was revoked. Check that all of it was copied, or ask for another.",
            to,
        ),
    }
}

pub(in crate::ui) async fn leave(visit: Visit) -> Result<Response, UiError> {
    sessions::end(&visit.state, visit.caller(), &visit.visitor.session.to_string(), None).await?;
    let mut response = go("/sign-in", None);
    set(&mut response, &set_cookie(&visit.state, "", 0));
    Ok(response)
}

fn again(wrong: &str, to: String) -> Answer {
    let page = SignIn { wrong: Some(wrong.to_owned()), to, assets: assets::base() };
    render(StatusCode::UNPROCESSABLE_ENTITY, &page)
}

fn set(response: &mut Response, cookie: &str) {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

/// Only to pages of our own.
fn own(to: &str) -> String {
    let plain = to.starts_with('/') && !to.starts_with("//") && !to.contains(['\\', '\r', '\n']);
    if plain { to.to_owned() } else { "/".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::own;

    #[test]
    fn after_signing_in_one_stays_here() {
        for (to, goes) in [
            ("/devices?q=a", "/devices?q=a"),
            ("", "/"),
            ("https://evil.example", "/"),
            ("//evil.example", "/"),
            ("/\\evil", "/"),
        ] {
            assert_eq!(own(to), goes);
        }
    }
}
