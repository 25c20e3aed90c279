//! Signing in and out.

use crate::app::error::{AppError, Code};
use crate::app::passwords::{self, Attempt};
use crate::app::sessions::{self, Origin, SESSION_LIFETIME};
use crate::secrets;
use crate::state::ServerState;
use crate::ui::assets;
use crate::ui::errors::UiError;
use crate::ui::form::Form;
use crate::ui::routes::query::Params;
use crate::ui::session::{origin, set_cookie};
use crate::ui::visit::{PageResult, Visit, go, render};
use crate::ui::words;
use askama::Template;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use secrecy::SecretString;

/// A name, a password, a token and an address to go to.
const FORM_BYTES_MAX: usize = 16 << 10;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    wrong: Option<SignInError>,
    name: String,
    /// Where to go afterwards.
    to: String,
    /// A form was sent after the session had ended.
    ended: bool,
    assets: &'static str,
}

impl SignIn {
    fn of_password(&self) -> bool {
        self.wrong.as_ref().is_some_and(|wrong| !wrong.token)
    }
    fn of_token(&self) -> bool {
        self.wrong.as_ref().is_some_and(|wrong| wrong.token)
    }
}

/// Why the sign-in failed.
struct SignInError {
    /// For `data-reason`.
    code: &'static str,
    text: String,
    /// The token is wrong, not name or password.
    token: bool,
    status: StatusCode,
    /// Seconds until the next attempt.
    wait: Option<u64>,
}

impl SignInError {
    fn new(token: bool, code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), token, status: StatusCode::UNPROCESSABLE_ENTITY, wait: None }
    }

    fn later(text: String, seconds: u64) -> Self {
        Self {
            code: Code::Busy.as_str(),
            text,
            token: false,
            status: StatusCode::TOO_MANY_REQUESTS,
            wait: Some(seconds),
        }
    }
}

pub(in crate::ui) async fn form(params: Params) -> PageResult {
    let (to, ended) = (own(&params.text("to")), params.get("ended").is_some());
    render(StatusCode::OK, &SignIn { wrong: None, name: String::new(), to, ended, assets: assets::base() })
}

pub(in crate::ui) async fn enter(State(state): State<ServerState>, request: Request) -> PageResult {
    let (parts, body) = request.into_parts();
    let origin = origin(&parts);
    let bytes = crate::body::read(Request::new(body), FORM_BYTES_MAX).await.unwrap_or_default();
    let form = Form::read(&bytes);
    let (to, name) = (own(form.text("to")), form.text("name").to_owned());
    match try_sign_in(&state, &form, &origin).await? {
        Ok(secret) => {
            let mut response = go(&to, None);
            set(&mut response, &set_cookie(&state, &secret, SESSION_LIFETIME.as_secs()));
            Ok(response)
        }
        Err(wrong) => {
            let (status, wait) = (wrong.status, wrong.wait);
            let page = SignIn { wrong: Some(wrong), name, to, ended: false, assets: assets::base() };
            let mut response = render(status, &page)?;
            if let Some(wait) = wait {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
            }
            Ok(response)
        }
    }
}

/// The secret for the cookie, or why the sign-in failed.
async fn try_sign_in(
    state: &ServerState,
    form: &Form,
    origin: &Origin,
) -> Result<Result<String, SignInError>, UiError> {
    let (name, token) = (form.text("name"), form.text("token"));
    let password = form.raw("password").unwrap_or_default();
    // A browser may fill in a saved name and password next to a token from a link.
    if !token.is_empty() && (name.is_empty() || token.starts_with(secrets::API_TOKEN_PREFIX)) {
        let refused =
            "This token is unknown, expired or revoked. Check that you copied all of it, or ask for a new one.";
        return Ok(sessions::sign_in(state, token, origin)
            .await?
            .ok_or_else(|| SignInError::new(true, "wrong-token", refused)));
    }
    if name.is_empty() || password.is_empty() {
        return Ok(Err(SignInError::new(false, "incomplete", "Enter a name and a password, or an access token.")));
    }
    Ok(match passwords::sign_in(state, name, SecretString::from(password), origin).await {
        Ok(Attempt::Granted(secret)) => Ok(secret),
        Ok(Attempt::Wrong) => Err(SignInError::new(false, "wrong-password", "Name or password is wrong.")),
        Ok(Attempt::Later(wait)) => {
            let (text, seconds) = later(wait);
            Err(SignInError::later(text, seconds))
        }
        Err(AppError::Refused { code, detail, .. }) if code.status() == 429 => {
            Err(SignInError::later(format!("{}.", words::capital(&detail)), BUSY_SECONDS))
        }
        Err(error) => return Err(error.into()),
    })
}

/// The queue is empty after this time.
const BUSY_SECONDS: u64 = 5;

/// When to retry, in words and in whole seconds.
pub(in crate::ui) fn later(wait: std::time::Duration) -> (String, u64) {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    (format!("Too many wrong passwords. Try again in {}.", words::count(seconds, "second")), seconds)
}

pub(in crate::ui) async fn leave(visit: Visit) -> Result<Response, UiError> {
    sessions::end(&visit.state, visit.caller(), &visit.visitor.session.to_string(), None).await?;
    let mut response = go("/sign-in", None);
    set(&mut response, &set_cookie(&visit.state, "", 0));
    Ok(response)
}

fn set(response: &mut Response, cookie: &str) {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

/// Restricts a redirect to our own pages.
fn own(to: &str) -> String {
    let plain = to.starts_with('/') && !to.starts_with("//") && !to.contains(['\\', '\r', '\n']);
    if plain { to.to_owned() } else { "/".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::own;

    #[test]
    fn redirects_only_to_our_own_pages_after_sign_in() {
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
