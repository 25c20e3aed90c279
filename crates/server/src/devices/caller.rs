//! Authorization of a client: the accepted-client policy, checked for every request (WID-05).

use crate::manifest_cache::run_to_completion;
use crate::net::Peer;
use crate::problems::Refusal;
use crate::state::ServerState;
use crate::telemetry::RequestId;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use margo::ids::ClientId;
use margrave_core::model::{Actor, ClientState};
use margrave_store::{Head, StoreError};
use std::sync::Arc;

/// An accepted client. Only [`admit`] creates one.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) client: ClientId,
    /// As of the arrival of the request.
    pub(super) head: Arc<Head>,
    pub(super) request_id: Option<String>,
}

impl Caller {
    pub(super) fn actor(&self) -> Actor {
        Actor { name: format!("client:{}", self.client), comment: None, request_id: self.request_id.clone() }
    }
}

/// Handlers extract the caller that [`admit`] put into the extensions.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Refusal> {
        parts.extensions.get::<Self>().cloned().ok_or_else(Refusal::internal)
    }
}

/// Middleware: accepts requests of accepted clients, answers all others with 403 (GEN-14, W-26).
/// Uses memory only: an unchanged poll must not wait for a database (invariant 3).
pub(super) async fn admit(State(state): State<ServerState>, mut request: Request, next: Next) -> Response {
    // A request body cannot be shared between threads, so nothing of the request is held across an await.
    let peer = request.extensions().get::<Peer>().cloned();
    let request_id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.clone());
    match caller(&state, peer, request_id).await {
        Ok(caller) => {
            state.heads.seen(&caller.client, state.now());
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

async fn caller(state: &ServerState, peer: Option<Peer>, request_id: Option<String>) -> Result<Caller, Refusal> {
    let Some(Peer(identity)) = peer else {
        // The listener requires a certificate, so this cannot happen.
        return Err(Refusal::not_authorized("The connection carries no client identity."));
    };
    let client = identity.client_id;
    let any = state.config.clients.accept_any;
    let head = match state.heads.get(&client) {
        // A client that connected before `accept_any` was enabled is accepted now.
        Some(head) if !any || head.state != ClientState::Pending => head,
        _ if any => welcome(state, &client, request_id.clone()).await?,
        _ => {
            state.unaccepted.note(state, &client, request_id);
            return Err(denied());
        }
    };
    match head.state {
        ClientState::Accepted => Ok(Caller { client, head, request_id }),
        ClientState::Pending | ClientState::Rejected | ClientState::Decommissioned => {
            state.heads.requested(&client, state.now());
            Err(denied())
        }
    }
}

/// The same for unknown, pending, rejected and decommissioned clients: an outsider learns nothing from it.
fn denied() -> Refusal {
    Refusal::not_authorized("This client is not accepted. An operator of this server can accept it.")
}

/// First contact when the whole namespace is accepted explicitly (WID-05).
async fn welcome(state: &ServerState, client: &ClientId, request_id: Option<String>) -> Result<Arc<Head>, Refusal> {
    let actor = Actor {
        name: "system".to_owned(),
        comment: Some("accepted on first contact (clients.accept_any)".to_owned()),
        request_id,
    };
    let (own, id) = (state.clone(), client.clone());
    let created = run_to_completion(async move {
        let (_, head) = own.store.client_create(&actor, &id, ClientState::Accepted, None, own.now()).await?;
        own.heads.put(head);
        Ok(())
    });
    match created.await.map_err(|_| Refusal::internal())? {
        Ok(()) => {}
        // Another request of the same client was faster; its head is in memory or about to be.
        Err(StoreError::Exists { .. }) => crate::trust::refresh_head(state, client).await?,
        Err(error) => {
            state.metrics.store_error();
            return Err(Refusal::store(&error));
        }
    }
    state.heads.get(client).ok_or_else(Refusal::internal)
}
