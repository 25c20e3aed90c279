//! One request for a page: the visitor, the page shell, and how the response is rendered.

use super::errors::UiError;
use super::markup::{self, Markup};
use super::session::{Secret, notice_cookie};
use super::{assets, words};
use crate::app::access::Caller;
use crate::app::error::{AppError, AppResult, Code};
use crate::app::overview::{self, Overview};
use crate::app::passwords;
use crate::app::sessions::Visitor;
use crate::state::ServerState;
use askama::Template;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};
use margrave_api::deployments::{DeploymentState, Failing};
use margrave_core::time::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

pub(super) const FRAGMENT: HeaderName = HeaderName::from_static("x-fragment");

/// The longest name that is never wrapped, for example at a dash.
const SHORT_CHARS_MAX: usize = 16;

pub(super) type PageResult = Result<Response, UiError>;

/// A request of a signed-in operator.
#[derive(Debug, Clone)]
pub(super) struct Visit {
    pub(super) state: ServerState,
    pub(super) visitor: Visitor,
    pub(super) secret: Secret,
    /// Only the live part is requested.
    pub(super) fragment: bool,
    /// Path and query, to return to.
    pub(super) place: String,
    notice: Option<Said>,
}

/// The result of the last action, shown once on the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    /// For `data-reason`.
    pub(super) code: String,
    pub(super) text: String,
}

impl std::fmt::Debug for ServerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerState").finish_non_exhaustive()
    }
}

impl FromRequestParts<ServerState> for Visit {
    type Rejection = UiError;

    async fn from_request_parts(parts: &mut Parts, state: &ServerState) -> Result<Self, UiError> {
        let unknown = || UiError::from(AppError::refused(Code::Unauthenticated, "sign in first"));
        let visitor = parts.extensions.get::<Visitor>().cloned().ok_or_else(unknown)?;
        let secret = parts.extensions.get::<Secret>().cloned().ok_or_else(unknown)?;
        Ok(Self {
            state: state.clone(),
            visitor,
            secret,
            fragment: parts.headers.contains_key(FRAGMENT),
            place: parts.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
            notice: notice_cookie(&parts.headers),
        })
    }
}

/// Which part of the navigation a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Devices,
    Catalog,
    Deployments,
    Activity,
    Settings,
}

impl Section {
    fn as_str(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Devices => "devices",
            Self::Catalog => "catalog",
            Self::Deployments => "deployments",
            Self::Activity => "activity",
            Self::Settings => "settings",
        }
    }
}

/// What surrounds every page.
#[derive(Debug, Clone)]
pub(super) struct Shell {
    pub(super) title: String,
    pub(super) section: Section,
    /// Who is signed in.
    pub(super) who: String,
    /// Counts for the badges in the navigation.
    pub(super) failed: u64,
    pub(super) pending: u64,
    /// The notice about the last action.
    pub(super) notice: Option<Said>,
    /// Folder of the script and the styles.
    pub(super) assets: &'static str,
    pub(super) now: Timestamp,
    /// A key for the forms of this page.
    pub(super) key: String,
    /// The initial password is still in use, and this page shows a warning.
    pub(super) first_password: bool,
    /// Signed in with a token, which has no password.
    pub(super) by_token: bool,
    /// For the names of applications.
    overview: Arc<Overview>,
}

/// A count, in any form that a template passes it.
pub(super) trait Number {
    fn value(&self) -> u64;
}
impl Number for u64 {
    fn value(&self) -> u64 {
        *self
    }
}
impl Number for usize {
    fn value(&self) -> u64 {
        *self as u64
    }
}
impl<T: Number> Number for &T {
    fn value(&self) -> u64 {
        (**self).value()
    }
}

/// Helpers for templates.
#[expect(clippy::unused_self, reason = "templates call these on the shell")]
impl Shell {
    pub(super) fn is(&self, section: &str) -> bool {
        section == self.section.as_str()
    }
    pub(super) fn icon(&self, name: &str) -> Markup {
        markup::icon(name)
    }
    /// CSS class for a name: short names are never wrapped.
    pub(super) fn short(&self, name: &str) -> &'static str {
        if name.chars().count() <= SHORT_CHARS_MAX { "short" } else { "break" }
    }
    pub(super) fn unbroken(&self, title: &str) -> Markup {
        markup::unbroken(title)
    }
    pub(super) fn simulated(&self) -> Markup {
        words::simulated()
    }
    pub(super) fn simulated_icon(&self) -> Markup {
        words::simulated_icon()
    }
    pub(super) fn number(&self, number: impl Number) -> String {
        words::thousands(number.value())
    }
    pub(super) fn count(&self, number: impl Number, noun: &str) -> String {
        words::count(number.value(), noun)
    }
    pub(super) fn prose(&self, text: &str) -> Markup {
        markup::prose(&words::named(text, &self.overview.names))
    }
    /// A sentence as text, for a title.
    pub(super) fn plain(&self, text: &str) -> String {
        words::capital(&words::named(text, &self.overview.names)).replace('`', "")
    }
    pub(super) fn sentence(&self, text: &str) -> Markup {
        markup::prose(&words::capital(&words::named(text, &self.overview.names)))
    }
    pub(super) fn place(&self, name: &str) -> String {
        words::place(name).to_owned()
    }
    pub(super) fn actor(&self, name: &str) -> String {
        words::actor(name)
    }
    /// Day and time, for records.
    pub(super) fn exact(&self, text: &str) -> Markup {
        words::exact(text)
    }
    /// Relative, with the absolute time in the title.
    pub(super) fn ago(&self, text: &str) -> Markup {
        words::ago(text, self.now)
    }
    /// `since 2 h ago, 32 attempts, last 7 s ago`.
    pub(super) fn failing(&self, failing: &Failing) -> Markup {
        let Failing { since, attempts, last_at } = failing;
        if *attempts <= 1 {
            return Markup::trusted(format!("since {}", self.ago(since)));
        }
        Markup::trusted(format!(
            "since {}, {}, last {}",
            self.ago(since),
            words::count(*attempts, "attempt"),
            self.ago(last_at)
        ))
    }
    #[expect(clippy::ref_option, reason = "templates pass fields by reference")]
    pub(super) fn ago_maybe(&self, text: &Option<String>) -> Markup {
        text.as_deref().map_or_else(|| Markup::text("never"), |text| words::ago(text, self.now))
    }
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass fields by reference")]
    pub(super) fn ago_at(&self, at: &Timestamp) -> Markup {
        words::ago(&at.to_string(), self.now)
    }
}

impl Shell {
    /// For an operator who is signed in by this name.
    pub(super) async fn of(
        state: &ServerState,
        name: &str,
        section: Section,
        title: impl Into<String>,
    ) -> AppResult<Self> {
        let overview = overview::get(state).await?;
        let says_so = matches!(section, Section::Overview | Section::Settings);
        Ok(Self {
            first_password: says_so && passwords::is_first(state).await,
            title: title.into(),
            section,
            who: words::actor(name),
            failed: overview.summary.deployments.of(DeploymentState::Failed),
            pending: overview.summary.clients.pending,
            notice: None,
            assets: assets::base(),
            now: state.now(),
            key: Uuid::new_v4().to_string(),
            by_token: false,
            overview,
        })
    }

    /// The names of applications, by id.
    pub(super) fn names(&self) -> &HashMap<String, String> {
        &self.overview.names
    }
}

/// A page with a live part.
pub(super) trait Page {
    fn shell(&self) -> &Shell;
    fn whole(&self) -> askama::Result<String>;
    fn part(&self) -> askama::Result<String>;
}

/// For a template with a field `shell`, a block `live` and the block `nav` of the layout.
macro_rules! pages {
    ($($name:ident),+ $(,)?) => {
        $(impl $crate::ui::visit::Page for $name {
            fn shell(&self) -> &$crate::ui::visit::Shell {
                &self.shell
            }
            fn whole(&self) -> askama::Result<String> {
                askama::Template::render(self)
            }
            fn part(&self) -> askama::Result<String> {
                let nav = askama::Template::render(&self.as_nav())?;
                Ok(format!("{nav}{}", askama::Template::render(&self.as_live())?))
            }
        })+
    };
}
pub(super) use pages;

impl Visit {
    pub(super) fn caller(&self) -> &Caller {
        &self.visitor.caller
    }

    pub(super) async fn shell(&self, section: Section, title: impl Into<String>) -> AppResult<Shell> {
        let shell = Shell::of(&self.state, &self.visitor.caller.name, section, title).await?;
        Ok(Shell { notice: self.notice.clone(), by_token: self.visitor.operator().is_none(), ..shell })
    }

    /// The page, or only its live part if that was requested.
    pub(super) fn show(&self, page: &impl Page) -> PageResult {
        self.show_with(StatusCode::OK, page)
    }

    pub(super) fn show_with(&self, status: StatusCode, page: &impl Page) -> PageResult {
        let text = if self.fragment { page.part() } else { page.whole() };
        let mut response = html(status, text)?;
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("X-Fragment"));
        if page.shell().notice.is_some() && !self.fragment {
            let gone = HeaderValue::from_static("said=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
            response.headers_mut().append(header::SET_COOKIE, gone);
        }
        Ok(response)
    }
}

/// A template as a response.
pub(super) fn render(status: StatusCode, template: &impl Template) -> PageResult {
    html(status, template.render())
}

fn html(status: StatusCode, text: askama::Result<String>) -> PageResult {
    let text = text.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "cannot render a page");
        AppError::refused(Code::Internal, "this page cannot be rendered; see the server log")
    })?;
    let media_type = HeaderValue::from_static("text/html; charset=utf-8");
    Ok((status, [(header::CONTENT_TYPE, media_type)], text).into_response())
}

/// Redirects (303) to a page that shows the notice: a code for `data-reason`, and a sentence.
pub(super) fn go(to: &str, notice: Option<(&str, &str)>) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let place = HeaderValue::from_str(to).unwrap_or_else(|_| HeaderValue::from_static("/"));
    response.headers_mut().insert(header::LOCATION, place);
    if let Some((code, notice)) = notice {
        let text: String = url::form_urlencoded::byte_serialize(format!("{code} {notice}").as_bytes()).collect();
        let cookie = format!("said={text}; Path=/; Max-Age=20; HttpOnly; SameSite=Strict");
        if let Ok(value) = HeaderValue::from_str(&cookie) {
            response.headers_mut().append(header::SET_COOKIE, value);
        }
    }
    response
}
