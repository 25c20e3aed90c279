//! Clients with a valid identity of this server's namespace that are not accepted: rejected (WID-05), and recorded
//! once, so that an operator finds them pending.

use crate::state::ServerState;
use margo::ids::ClientId;
use margrave_core::model::Actor;
use margrave_core::time::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tracing::Instrument as _;

/// Limit for pending clients: more than an operator reads through, and few enough that an issuer with endless client
/// names does not fill the database.
pub const WAITING_MAX: u64 = 1_000;
/// Clients recorded concurrently; others are recorded when they connect again.
const RECORDING_MAX: usize = 16;
/// When the limit is reached or the store fails, recording pauses for this long, with one log entry.
const PAUSE: Duration = Duration::from_mins(2);

/// The heads contain the known clients; this only limits the writes.
#[derive(Debug)]
pub struct UnacceptedClients {
    recording: Arc<Semaphore>,
    paused_until: AtomicI64,
}

impl Default for UnacceptedClients {
    fn default() -> Self {
        Self { recording: Arc::new(Semaphore::new(RECORDING_MAX)), paused_until: AtomicI64::new(i64::MIN) }
    }
}

impl UnacceptedClients {
    /// Records a client whose identity was verified by the handshake, in the background: the answer does not wait.
    pub(super) fn note(&self, state: &ServerState, client: &ClientId, request_id: Option<String>) {
        if state.now() < Timestamp(self.paused_until.load(Ordering::Relaxed)) {
            return;
        }
        let Ok(place) = Arc::clone(&self.recording).try_acquire_owned() else { return };
        let (state, client) = (state.clone(), client.clone());
        let work = async move {
            record(&state, &client, request_id).await;
            drop(place);
        };
        tokio::spawn(work.in_current_span());
    }

    fn pause(&self, now: Timestamp) {
        self.paused_until.store(now.plus(PAUSE).0, Ordering::Relaxed);
    }
}

async fn record(state: &ServerState, client: &ClientId, request_id: Option<String>) {
    let actor = Actor {
        name: format!("client:{client}"),
        comment: Some("connected with a valid identity that is not accepted".to_owned()),
        request_id,
    };
    let (unaccepted, now) = (&state.unaccepted, state.now());
    match state.store.client_record_pending(&actor, client, WAITING_MAX, now).await {
        // Later requests of this client are answered from memory, without another write.
        Ok(Some(head)) => state.heads.put(head),
        Ok(None) => {
            unaccepted.pause(now);
            tracing::warn!(%client, waiting = WAITING_MAX, "too many pending clients; further ones are not recorded");
        }
        Err(error) => {
            unaccepted.pause(now);
            state.metrics.store_error();
            tracing::warn!(%client, error = &error as &dyn std::error::Error, "cannot record a pending client");
        }
    }
}
