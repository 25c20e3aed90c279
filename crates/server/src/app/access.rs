//! Authentication: API tokens and their callers.

use super::error::{AppError, AppResult};
use super::idempotency::Call;
use super::paging::whole;
use crate::secrets;
use crate::state::ServerState;
use margrave_api::access as wire;
use margrave_api::page::Page;
use margrave_core::model::{Actor, ApiToken, TokenState};
use margrave_core::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

const TOKEN_NAME_CHARS_MAX: usize = 100;
/// Longest comment kept in the audit log.
pub const REASON_CHARS_MAX: usize = 1000;

/// The authenticated caller of one request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Id of the token or the operator; their own data is stored under it.
    pub id: Uuid,
    /// `token:<name>` or `operator:<name>`.
    pub name: String,
    pub request_id: Option<String>,
    /// The call as identified by its idempotency key.
    pub call: Option<Arc<Call>>,
}

impl Caller {
    /// The actor and the comment for the audit log (invariant 8).
    pub fn actor(&self, reason: Option<String>) -> Actor {
        let reason = reason.map(|text| text.trim().chars().take(REASON_CHARS_MAX).collect::<String>());
        Actor {
            name: self.name.clone(),
            comment: reason.filter(|text| !text.is_empty()),
            request_id: self.request_id.clone(),
        }
    }
}

/// Finds the token; only its hash is compared, through an index, so timing reveals nothing about the secret.
pub async fn authenticate(state: &ServerState, secret: &str) -> AppResult<Option<ApiToken>> {
    Ok(state.store.token_find(&secrets::hash(secret), state.now()).await?)
}

pub async fn tokens(state: &ServerState) -> AppResult<Page<wire::Token>> {
    let now = state.now();
    Ok(whole(state.store.tokens().await?.into_iter().map(|token| token_to_wire(token, now, None)).collect()))
}

pub async fn create_token(state: &ServerState, caller: &Caller, body: wire::CreateToken) -> AppResult<wire::Token> {
    let name = body.name.trim().to_owned();
    if name.is_empty() || name.chars().count() > TOKEN_NAME_CHARS_MAX || name.chars().any(char::is_control) {
        let message = format!("write 1 to {TOKEN_NAME_CHARS_MAX} characters that name its user");
        return Err(AppError::invalid("name", message));
    }
    if body.valid_for_seconds == Some(0) {
        return Err(AppError::invalid("validForSeconds", "write a number above 0, or omit it for no expiry"));
    }
    let now = state.now();
    let token = ApiToken {
        id: Uuid::new_v4(),
        name,
        created_at: now,
        expires_at: body.valid_for_seconds.map(|seconds| now.plus(Duration::from_secs(seconds))),
        revoked_at: None,
    };
    let secret = secrets::generate(secrets::API_TOKEN_PREFIX);
    let made = token_to_wire(token.clone(), now, Some(secret.clone()));
    let store = caller.store(state, &made);
    store.token_create(&caller.actor(body.comment), &token, &secrets::hash(&secret)).await?;
    Ok(made)
}

pub async fn revoke_token(state: &ServerState, caller: &Caller, id: &str, reason: Option<String>) -> AppResult<()> {
    let missing = || AppError::not_found(format_args!("token `{id}`"));
    let uuid = Uuid::try_parse(id).map_err(|_| missing())?;
    if state.store.token_revoke(&caller.actor(reason), uuid, state.now()).await? { Ok(()) } else { Err(missing()) }
}

fn token_to_wire(token: ApiToken, now: Timestamp, secret: Option<String>) -> wire::Token {
    wire::Token {
        id: token.id.to_string(),
        name: token.name,
        state: TokenState::of(token.expires_at, token.revoked_at, now).into(),
        created_at: token.created_at.to_string(),
        expires_at: token.expires_at.map(|at| at.to_string()),
        revoked_at: token.revoked_at.map(|at| at.to_string()),
        secret,
    }
}
