//! Web sessions: after sign-in with a token or a password, a browser carries a cookie. A session belongs to the token
//! or the operator and ends with it; roles and single sign-on would be further ways to open one.

use super::access::{self, Caller};
use super::error::{AppError, AppResult};
use super::paging::whole;
use crate::secrets;
use crate::state::ServerState;
use margrave_api::access as wire;
use margrave_api::page::Page;
use margrave_core::model::Actor;
use margrave_core::time::Timestamp;
use margrave_store::{SessionOwner, SignedIn, WebSession};
use std::time::Duration;
use uuid::Uuid;

/// A working day: the next morning requires a new sign-in.
pub const SESSION_LIFETIME: Duration = Duration::from_hours(12);
/// How often the last use of a session is written, instead of with every page.
const SEEN_EVERY: Duration = Duration::from_mins(5);
/// Prefix of the cookie value.
const SECRET_PREFIX: &str = "mgvw_";
/// User-agent texts can be very long.
const BROWSER_CHARS_MAX: usize = 200;
/// Sessions shown.
const SHOWN_MAX: u32 = 200;

/// One session as shown.
#[derive(Debug, Clone)]
pub struct Session {
    pub id: Uuid,
    /// Its owner.
    pub name: String,
    /// The owner as in the audit log.
    pub actor: String,
    pub address: String,
    pub browser: String,
    pub created_at: Timestamp,
    pub seen_at: Timestamp,
    pub expires_at: Timestamp,
}

/// A signed-in browser.
#[derive(Debug, Clone)]
pub struct Visitor {
    pub session: Uuid,
    pub caller: Caller,
    owner: SessionOwner,
    pub expires_at: Timestamp,
}

impl Visitor {
    /// The name of the operator, unless a token was used.
    pub fn operator(&self) -> Option<&str> {
        match self.owner {
            SessionOwner::Operator(_) => self.caller.name.strip_prefix("operator:"),
            SessionOwner::Token(_) => None,
        }
    }
}

/// The address and user agent of a browser.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    pub address: String,
    pub browser: String,
    pub request_id: Option<String>,
}

/// The cookie value, or `None` when the token is not valid.
pub async fn sign_in(state: &ServerState, token: &str, origin: &Origin) -> AppResult<Option<String>> {
    let Some(token) = access::authenticate(state, token.trim()).await? else { return Ok(None) };
    // Never longer than the token is valid.
    let end = state.now().plus(SESSION_LIFETIME);
    let end = token.expires_at.map_or(end, |own| own.min(end));
    let name = format!("token:{}", token.name);
    open(state, SessionOwner::Token(token.id), name, end, origin).await.map(Some)
}

/// Opens a session after sign-in; returns the cookie value.
pub(super) async fn open(
    state: &ServerState,
    owner: SessionOwner,
    name: String,
    expires_at: Timestamp,
    origin: &Origin,
) -> AppResult<String> {
    let secret = secrets::generate(SECRET_PREFIX);
    let browser: String =
        origin.browser.chars().filter(|letter| !letter.is_control()).take(BROWSER_CHARS_MAX).collect();
    let actor = Actor { name, comment: None, request_id: origin.request_id.clone() };
    let session = SignedIn {
        id: Uuid::new_v4(),
        secret_hash: &secrets::hash(&secret),
        owner,
        address: &origin.address,
        browser: &browser,
        expires_at,
    };
    state.store.session_create(&actor, session, state.now()).await?;
    Ok(secret)
}

/// The owner of a cookie.
pub async fn visitor(state: &ServerState, secret: &str, request_id: Option<String>) -> AppResult<Option<Visitor>> {
    let now = state.now();
    let Some(found) = state.store.session_find(&secrets::hash(secret), now).await? else { return Ok(None) };
    if now.since(found.seen_at) >= SEEN_EVERY {
        state.store.session_seen(found.id, now).await?;
    }
    let name = named(&found);
    let caller = Caller { id: found.owner.id(), name, request_id, call: None };
    Ok(Some(Visitor { session: found.id, caller, owner: found.owner, expires_at: found.expires_at }))
}

/// Open sessions, most recently used first.
pub async fn list(state: &ServerState) -> AppResult<Vec<Session>> {
    let sessions = state.store.sessions(state.now(), SHOWN_MAX).await?;
    Ok(sessions.into_iter().map(shown).collect())
}

/// The same for the API.
pub async fn listed(state: &ServerState) -> AppResult<Page<wire::Session>> {
    let now = state.now();
    let shown = |session: Session| wire::Session {
        id: session.id.to_string(),
        actor: session.actor,
        state: margrave_core::model::TokenState::of(Some(session.expires_at), None, now).into(),
        address: session.address,
        browser: session.browser,
        created_at: session.created_at.to_string(),
        seen_at: session.seen_at.to_string(),
        expires_at: session.expires_at.to_string(),
    };
    Ok(whole(list(state).await?.into_iter().map(shown).collect()))
}

pub async fn end(state: &ServerState, caller: &Caller, id: &str, reason: Option<String>) -> AppResult<()> {
    let missing = || AppError::not_found(format_args!("web session `{id}`"));
    let uuid = Uuid::try_parse(id).map_err(|_| missing())?;
    if state.store.session_end(&caller.actor(reason), uuid, state.now()).await? { Ok(()) } else { Err(missing()) }
}

/// The actor as in the audit log.
fn named(session: &WebSession) -> String {
    match session.owner {
        SessionOwner::Token(_) => format!("token:{}", session.name),
        SessionOwner::Operator(_) => format!("operator:{}", session.name),
    }
}

fn shown(session: WebSession) -> Session {
    let actor = named(&session);
    let WebSession { id, owner: _, name, address, browser, created_at, seen_at, expires_at, ended_at: _ } = session;
    Session { id, name, actor, address, browser, created_at, seen_at, expires_at }
}
