//! `/api/lookup`.

use crate::app::lookup;
use crate::operators::extract::Query;
use crate::operators::problems::Answer;
use crate::state::ServerState;
use axum::Json;
use axum::extract::State;
use margrave_api::lookup::{Lookup, LookupKind};

/// What to look up.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LookupQuery {
    #[param(inline)]
    kind: LookupKind,
    /// The beginning of an id, or a name.
    #[param(min_length = 1, max_length = 200)]
    name: String,
}

/// Resolves the beginning of an id or a name, and suggests similar names.
#[utoipa::path(get, path = "/api/lookup", tag = "fleet", params(LookupQuery), responses((status = 200, body = Lookup)))]
pub(super) async fn lookup(State(state): State<ServerState>, Query(query): Query<LookupQuery>) -> Answer<Json<Lookup>> {
    Ok(Json(lookup::find(&state, query.kind, &query.name).await?))
}
