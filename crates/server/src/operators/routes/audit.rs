//! `/api/audit`.

use crate::app::access;
use crate::app::paging::Paging;
use crate::operators::extract::Query;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use margrave_api::access::{AuditRecord, AuditVerification};
use margrave_api::page::Page;

/// Which records; everything given must hold.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// Only about exactly this: `client/press-07`, `deployment/<id>`, `change/<id>`, ...
    subject: Option<String>,
    /// Only about something with this in it, in small letters or capitals.
    about: Option<String>,
    /// Only what this actor did: `operator:admin`, `token:ci`, `client:press-07`, `system`.
    actor: Option<String>,
    /// Only this action, or all that begin with it up to a dot: `token.create`, `token`.
    action: Option<String>,
    /// Not older than this time (RFC 3339).
    since: Option<String>,
    /// Older than this time (RFC 3339).
    until: Option<String>,
    /// Only records with a smaller number than this.
    before: Option<i64>,
}

/// Who changed what and why, newest first. A search looks through the chain in stretches: a page may hold less than was asked
/// for, even nothing, and still have a `next`.
#[utoipa::path(get, path = "/api/audit", tag = "access", params(AuditQuery, Paging),
    responses((status = 200, body = Page<AuditRecord>)))]
pub(super) async fn list_audit(
    State(state): State<ServerState>,
    Query(query): Query<AuditQuery>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<AuditRecord>>> {
    let AuditQuery { subject, about, actor, action, since, until, before } = query;
    let search = access::AuditQuery { actor, action, subject: about, application: None, of: None, since, until };
    Ok(Json(if search == access::AuditQuery::default() {
        access::audit(&state, subject.as_deref(), before, &paging).await?
    } else {
        access::search_audit(&state, &access::AuditQuery { of: subject, ..search }, before, &paging).await?
    }))
}

/// Walks the whole hash chain of the audit.
#[utoipa::path(get, path = "/api/audit/verify", tag = "access", responses((status = 200, body = AuditVerification)))]
pub(super) async fn verify_audit(State(state): State<ServerState>) -> Answer<Json<AuditVerification>> {
    Ok(Json(access::verify_audit(&state).await?))
}
