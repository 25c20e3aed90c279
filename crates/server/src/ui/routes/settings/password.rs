//! The operator's own password.

use crate::app::error::AppError;
use crate::app::passwords::{self, Attempt, PASSWORD_CHARS_MAX, PASSWORD_CHARS_MIN};
use crate::state::ServerState;
use crate::ui::errors::UiError;
use crate::ui::form::Posted;
use crate::ui::routes::sign_in::later;
use crate::ui::session::origin;
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::{FromRequest as _, Request, State};
use http::{HeaderValue, StatusCode, header};
use secrecy::SecretString;

#[derive(Template)]
#[template(path = "settings/password.html", blocks = ["live", "nav"])]
struct PasswordPage {
    shell: Shell,
    tab: &'static str,
    /// The operator; `None` when signed in with a token.
    operator: Option<String>,
    /// The field, and what is wrong with it.
    wrong: Option<(&'static str, String)>,
    min: usize,
    max: usize,
}
pages!(PasswordPage);

impl PasswordPage {
    fn is_wrong(&self, field: &str) -> bool {
        self.wrong.as_ref().is_some_and(|(wrong, _)| *wrong == field)
    }
}

pub(in crate::ui) async fn show(visit: Visit) -> PageResult {
    let page = page(&visit, None).await?;
    visit.show(&page)
}

async fn page(visit: &Visit, wrong: Option<(&'static str, String)>) -> Result<PasswordPage, UiError> {
    Ok(PasswordPage {
        shell: visit.shell(Section::Settings, "Password - Settings").await?,
        tab: "password",
        operator: visit.visitor.operator().map(str::to_owned),
        wrong,
        min: PASSWORD_CHARS_MIN,
        max: PASSWORD_CHARS_MAX,
    })
}

pub(in crate::ui) async fn act(State(state): State<ServerState>, request: Request) -> PageResult {
    let (parts, body) = request.into_parts();
    let origin = origin(&parts);
    let posted = Posted::from_request(Request::from_parts(parts, body), &state).await?;
    let field = |name: &str| posted.form.raw(name).unwrap_or_default();
    let (old, new) = (SecretString::from(field("old")), SecretString::from(field("password")));
    if field("password") != field("again") {
        return again(&posted.visit, "again", "The new passwords do not match.".to_owned(), None).await;
    }
    match passwords::change_own(&state, &posted.visit.visitor, old, new, &origin).await {
        Ok(Attempt::Granted(ended)) => {
            let others = match ended {
                0 => "You had no other sessions.".to_owned(),
                1 => "Your other session was ended.".to_owned(),
                ended => format!("Your {} were ended.", words::count(ended, "other session")),
            };
            Ok(go("/settings/password", Some(("password-changed", &format!("Password changed. {others}")))))
        }
        Ok(Attempt::Wrong) => again(&posted.visit, "old", "The current password is wrong.".to_owned(), None).await,
        Ok(Attempt::Later(wait)) => {
            let (text, seconds) = later(wait);
            again(&posted.visit, "old", text, Some(seconds)).await
        }
        Err(AppError::Refused { errors, .. }) if !errors.is_empty() => {
            let message = errors.into_iter().map(|error| words::capital(&error.message)).next().unwrap_or_default();
            again(&posted.visit, "password", format!("{message}."), None).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn again(visit: &Visit, field: &'static str, text: String, wait: Option<u64>) -> PageResult {
    let status = if wait.is_some() { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::UNPROCESSABLE_ENTITY };
    let mut response = visit.show_with(status, &page(visit, Some((field, text))).await?)?;
    if let Some(wait) = wait {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
    }
    Ok(response)
}
