//! Authentication of callers: a bearer token, found by its hash.

use super::problems::ApiError;
use crate::app::access::{self, Caller};
use crate::app::error::{AppError, Code};
use crate::app::events::stream::StreamToken;
use crate::secrets;
use crate::state::ServerState;
use crate::telemetry::RequestId;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::AUTHORIZATION;

/// Passes a request on with its [`Caller`], or answers 401.
pub(super) async fn require(
    State(state): State<ServerState>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let Some(secret) = bearer(&request) else {
        return Err(refusal("send an API token as `Authorization: Bearer <token>`; `margrave login` does it for you"));
    };
    let Some(token) = access::authenticate(&state, secret).await? else {
        return Err(refusal("this token is unknown, expired or revoked; ask an administrator for a new one"));
    };
    let request_id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone());
    let opener = StreamToken { token: token.id, secret_hash: secrets::hash(secret) };
    request.extensions_mut().insert(opener);
    let caller = Caller { id: token.id, name: format!("token:{}", token.name), request_id, call: None };
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

pub(super) fn bearer(request: &Request) -> Option<&str> {
    let (scheme, secret) = request.headers().get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(secret.trim()).filter(|secret| !secret.is_empty())
}

fn refusal(detail: &str) -> ApiError {
    ApiError(AppError::refused(Code::Unauthenticated, detail))
}
