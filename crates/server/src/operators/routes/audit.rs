//! `/api/audit`.

use crate::app::audit;
use crate::app::events::Order;
use crate::app::paging::Paging;
use crate::operators::extract::Query;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use margrave_api::access::{AuditRecord, AuditVerification};
use margrave_api::page::Page;

/// Filter for records; all conditions must match.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// Only records with exactly this target: `client/press-07`, `deployment/<id>`, `rollout/<id>`, ...
    subject: Option<String>,
    /// Only records whose target contains this, case-insensitive: an application, a device, a client, a group,
    /// or a deployment or rollout by its application and device.
    about: Option<String>,
    /// Only records of this actor: `operator:admin`, `token:ci`, `client:press-07`, `system`.
    actor: Option<String>,
    /// Only this action, or all actions with this prefix up to a dot: `token.create`, `token`.
    action: Option<String>,
    /// Not older than this time (RFC 3339, or a day in UTC).
    since: Option<String>,
    /// Older than this time, or not newer than this day.
    until: Option<String>,
    /// Only records with a smaller number than this.
    before: Option<i64>,
}

/// Lists audit records, newest first. A search scans the chain in parts: a page may have fewer records than requested,
/// even none, and still have a `next`.
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
        audit::search(&state, &audit::Query { of: subject, ..search }, before, Order::Newest, &paging).await?
    }))
}

/// Verifies the integrity of the whole audit log.
#[utoipa::path(get, path = "/api/audit/verify", tag = "access", responses((status = 200, body = AuditVerification)))]
pub(super) async fn verify_audit(State(state): State<ServerState>) -> Answer<Json<AuditVerification>> {
    Ok(Json(audit::verify(&state).await?))
}
