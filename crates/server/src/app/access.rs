//! Who asks: tokens, the audit, and what they say about a caller.

use super::error::{AppError, AppResult};
use super::idempotency::Call;
use super::paging::{Paging, cursor, page, whole};
use crate::secrets;
use crate::state::ServerState;
use margrave_api::access as wire;
use margrave_api::page::Page;
use margrave_core::model::{Actor, ApiToken, AuditRecord};
use margrave_store::AuditFilter;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Records looked through for one page of a search.
const AUDIT_LOOKED_AT: i64 = 50_000;
/// Records looked through for who has done something.
const ACTORS_LOOKED_AT: u32 = 5_000;
const TOKEN_NAME_CHARS_MAX: usize = 100;
/// The longest reason kept in the audit.
pub const REASON_CHARS_MAX: usize = 1000;

/// The authenticated caller of one request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Of the token or the operator; what is theirs alone is kept under it.
    pub id: Uuid,
    /// `token:<name>` or `operator:<name>`.
    pub name: String,
    pub request_id: Option<String>,
    /// The call as its idempotency key names it.
    pub call: Option<Arc<Call>>,
}

impl Caller {
    /// Who did it and why, for the audit (invariant 8).
    pub fn actor(&self, reason: Option<String>) -> Actor {
        let reason = reason.map(|text| text.trim().chars().take(REASON_CHARS_MAX).collect::<String>());
        Actor {
            name: self.name.clone(),
            reason: reason.filter(|text| !text.is_empty()),
            request_id: self.request_id.clone(),
        }
    }
}

/// Whose token this is; only its hash is compared, by an index, so timing tells nothing about the secret.
pub async fn authenticate(state: &ServerState, secret: &str) -> AppResult<Option<ApiToken>> {
    Ok(state.store.token_find(&secrets::hash(secret), state.now()).await?)
}

pub async fn tokens(state: &ServerState) -> AppResult<Page<wire::Token>> {
    Ok(whole(state.store.tokens().await?.into_iter().map(|token| token_to_wire(token, None)).collect()))
}

pub async fn create_token(state: &ServerState, caller: &Caller, body: wire::CreateToken) -> AppResult<wire::Token> {
    let name = body.name.trim().to_owned();
    if name.is_empty() || name.chars().count() > TOKEN_NAME_CHARS_MAX || name.chars().any(char::is_control) {
        let message = format!("write 1 to {TOKEN_NAME_CHARS_MAX} characters that say who will use it");
        return Err(AppError::invalid("name", message));
    }
    if body.valid_for_seconds == Some(0) {
        return Err(AppError::invalid("validForSeconds", "write a number above 0, or leave it out for no end"));
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
    let made = token_to_wire(token.clone(), Some(secret.clone()));
    let store = caller.store(state, &made);
    store.token_create(&caller.actor(body.reason), &token, &secrets::hash(&secret)).await?;
    Ok(made)
}

pub async fn revoke_token(state: &ServerState, caller: &Caller, id: &str, reason: Option<String>) -> AppResult<()> {
    let missing = || AppError::not_found(format_args!("token `{id}`"));
    let uuid = Uuid::try_parse(id).map_err(|_| missing())?;
    if state.store.token_revoke(&caller.actor(reason), uuid, state.now()).await? { Ok(()) } else { Err(missing()) }
}

/// Newest first. Sensitive values are masked when they are written, so records are shown as they are.
pub async fn audit(
    state: &ServerState,
    subject: Option<&str>,
    before: Option<i64>,
    paging: &Paging,
) -> AppResult<Page<wire::AuditRecord>> {
    let limit = paging.limit()?;
    let before = paging.after()?.or(before);
    let rows = state.store.audit_page(subject, before, limit + 1).await?;
    Ok(page(rows, limit, |record| record.seq.to_string(), audit_to_wire))
}

/// Which records; what is not given is not asked about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    pub actor: Option<String>,
    /// An action or its beginning up to a dot.
    pub action: Option<String>,
    /// Part of what it is about.
    pub subject: Option<String>,
    /// Together with `subject`: also what is about this application.
    pub application: Option<String>,
    /// All of what it is about, as it is written.
    pub of: Option<String>,
    /// Not older than this time (RFC 3339).
    pub since: Option<String>,
    /// Older than this time.
    pub until: Option<String>,
}

/// Newest first, whatever the query lets through.
pub async fn search_audit(
    state: &ServerState,
    query: &AuditQuery,
    before: Option<i64>,
    paging: &Paging,
) -> AppResult<Page<wire::AuditRecord>> {
    let time = |field: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => super::events::time(text)
            .map(Some)
            .map_err(|_| AppError::invalid(field, "write a time as RFC 3339, such as `2026-09-21T08:00:00Z`")),
    };
    let filter = AuditFilter {
        actor: query.actor.clone(),
        action: query.action.clone(),
        subject: query.subject.clone(),
        application: query.application.clone(),
        of: query.of.clone(),
        since: time("since", &query.since)?,
        until: time("until", &query.until)?,
    };
    let limit = paging.limit()?;
    let before = match paging.after()?.or(before) {
        Some(before) => before,
        None => state.store.audit_place().await? + 1,
    };
    // A chain only grows, so one page looks through a part of it; the next goes on from there.
    let above = (before - 1 - AUDIT_LOOKED_AT).max(0);
    let rows = state.store.audit_search(&filter, above, before, limit + 1).await?;
    let mut found = page(rows, limit, |record| record.seq.to_string(), audit_to_wire);
    if found.next.is_none() && above > 0 {
        found.next = Some(cursor(&(above + 1).to_string()));
    }
    Ok(found)
}

/// Who has done something lately, devices left aside.
pub async fn audit_actors(state: &ServerState) -> AppResult<Vec<String>> {
    Ok(state.store.audit_actors(ACTORS_LOOKED_AT).await?)
}

pub async fn verify_audit(state: &ServerState) -> AppResult<wire::AuditVerification> {
    Ok(match state.store.audit_verify().await? {
        Ok(records) => wire::AuditVerification { intact: true, records, broken_at: None },
        Err(seq) => {
            let records = u64::try_from(seq.saturating_sub(1)).unwrap_or(0);
            wire::AuditVerification { intact: false, records, broken_at: Some(seq) }
        }
    })
}

fn audit_to_wire(record: AuditRecord) -> wire::AuditRecord {
    let AuditRecord { seq, at, actor, reason, request_id, action, subject, before, after, previous_hash, hash } =
        record;
    let at = at.to_string();
    wire::AuditRecord { seq, at, actor, reason, request_id, action, subject, before, after, previous_hash, hash }
}

fn token_to_wire(token: ApiToken, secret: Option<String>) -> wire::Token {
    wire::Token {
        id: token.id.to_string(),
        name: token.name,
        created_at: token.created_at.to_string(),
        expires_at: token.expires_at.map(|at| at.to_string()),
        revoked_at: token.revoked_at.map(|at| at.to_string()),
        secret,
    }
}
