//! Web sessions: a browser that has shown a token or a password once carries a cookie from then on. A session belongs to the token
//! or the operator and ends with it; roles and single sign-on would come in here as further ways to be let in.

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

/// A working day: whoever comes back the next morning signs in again.
pub const SESSION_LIFETIME: Duration = Duration::from_hours(12);
/// That a session is in use is written this often, not with every page.
const SEEN_EVERY: Duration = Duration::from_mins(5);
/// What a cookie holds starts like this.
const SECRET_PREFIX: &str = "mgvw_";
/// Browsers write whole stories about themselves.
const BROWSER_CHARS_MAX: usize = 200;
/// Sessions shown; nobody reads more.
const SHOWN_MAX: u32 = 200;

/// One session as it is shown.
#[derive(Debug, Clone)]
pub struct Session {
    pub id: Uuid,
    /// Whose it is.
    pub name: String,
    /// The same as the audit has it.
    pub actor: String,
    pub address: String,
    pub browser: String,
    pub created_at: Timestamp,
    pub seen_at: Timestamp,
    pub expires_at: Timestamp,
}

/// A browser that is let in.
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

/// Where a browser comes from.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    pub address: String,
    pub browser: String,
    pub request_id: Option<String>,
}

/// What the cookie shall hold, or nothing when the token is not good.
pub async fn sign_in(state: &ServerState, token: &str, origin: &Origin) -> AppResult<Option<String>> {
    let Some(token) = access::authenticate(state, token.trim()).await? else { return Ok(None) };
    // Never longer than what it was signed in with.
    let end = state.now().plus(SESSION_LIFETIME);
    let end = token.expires_at.map_or(end, |own| own.min(end));
    let name = format!("token:{}", token.name);
    open(state, SessionOwner::Token(token.id), name, end, origin).await.map(Some)
}

/// Opens a session for somebody who was let in; gives what the cookie shall hold.
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
    let actor = Actor { name, reason: None, request_id: origin.request_id.clone() };
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

/// Who a cookie belongs to.
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

/// Those that are open, the one used last first.
pub async fn list(state: &ServerState) -> AppResult<Vec<Session>> {
    let sessions = state.store.sessions(state.now(), SHOWN_MAX).await?;
    Ok(sessions.into_iter().map(shown).collect())
}

/// The same for programs.
pub async fn listed(state: &ServerState) -> AppResult<Page<wire::Session>> {
    let shown = |session: Session| wire::Session {
        id: session.id.to_string(),
        actor: session.actor,
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

/// As the audit names whoever it is.
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
