//! `/api/audit`.

use crate::app::audit;
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
    /// Only about something with this in its name, in small letters or capitals: an application, a device, a client, a group,
    /// a deployment or change by what it is of and where.
    about: Option<String>,
    /// Only what this actor did: `operator:admin`, `token:ci`, `client:press-07`, `system`.
    actor: Option<String>,
    /// Only this action, or all that begin with it up to a dot: `token.create`, `token`.
    action: Option<String>,
    /// Not older than this time (RFC 3339, or a day in UTC).
    since: Option<String>,
    /// Older than this time, or not younger than this day.
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
    let search = audit::Query { actor, action, about, of: None, since, until };
    Ok(Json(if search == audit::Query::default() {
        audit::list(&state, subject.as_deref(), before, &paging).await?
    } else {
        audit::search(&state, &audit::Query { of: subject, ..search }, before, &paging).await?
    }))
}

/// Walks the whole hash chain of the audit.
#[utoipa::path(get, path = "/api/audit/verify", tag = "access", responses((status = 200, body = AuditVerification)))]
pub(super) async fn verify_audit(State(state): State<ServerState>) -> Answer<Json<AuditVerification>> {
    Ok(Json(audit::verify(&state).await?))
}
