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

/// Which records.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// Only about this: `client/press-07`, `deployment/<id>`, `change/<id>`, ...
    subject: Option<String>,
    /// Only records with a smaller number than this.
    before: Option<i64>,
}

/// Who changed what and why, newest first.
#[utoipa::path(get, path = "/api/audit", tag = "access", params(AuditQuery, Paging),
    responses((status = 200, body = Page<AuditRecord>)))]
pub(super) async fn list_audit(
    State(state): State<ServerState>,
    Query(query): Query<AuditQuery>,
    Query(paging): Query<Paging>,
) -> Answer<Json<Page<AuditRecord>>> {
    Ok(Json(access::audit(&state, query.subject.as_deref(), query.before, &paging).await?))
}

/// Walks the whole hash chain of the audit.
#[utoipa::path(get, path = "/api/audit/verify", tag = "access", responses((status = 200, body = AuditVerification)))]
pub(super) async fn verify_audit(State(state): State<ServerState>) -> Answer<Json<AuditVerification>> {
    Ok(Json(access::verify_audit(&state).await?))
}
