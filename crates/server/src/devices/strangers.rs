//! Clients with a valid identity of this server's namespace that nobody has accepted: refused as ever (WID-05), and recorded once, so
//! that an operator finds them waiting.

use crate::state::ServerState;
use margo::ids::ClientId;
use margrave_core::model::Actor;
use margrave_core::time::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tracing::Instrument as _;

/// Clients that may wait to be accepted: more than anybody looks through, and few enough that an issuer which names clients without
/// end does not fill the database.
pub const WAITING_MAX: u64 = 1_000;
/// Clients recorded at the same time; whoever comes in between is recorded when it asks again.
const RECORDING_MAX: usize = 16;
/// Where there is no room, or the store fails, nothing is tried for this long, and the log is told once.
const PAUSE: Duration = Duration::from_mins(2);

/// Who is known is known from the heads; this only keeps the writing within bounds.
#[derive(Debug)]
pub struct Strangers {
    recording: Arc<Semaphore>,
    paused_until: AtomicI64,
}

impl Default for Strangers {
    fn default() -> Self {
        Self { recording: Arc::new(Semaphore::new(RECORDING_MAX)), paused_until: AtomicI64::new(i64::MIN) }
    }
}

impl Strangers {
    /// Records a client whose identity was checked by the handshake, beside its request: the answer waits for nothing.
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
        reason: Some("asked with a valid identity that nobody has accepted".to_owned()),
        request_id,
    };
    let (strangers, now) = (&state.strangers, state.now());
    match state.store.client_meet(&actor, client, WAITING_MAX, now).await {
        // From now on it is answered from memory, and nothing is written again.
        Ok(Some(head)) => state.heads.put(head),
        Ok(None) => {
            strangers.pause(now);
            tracing::warn!(%client, waiting = WAITING_MAX, "too many clients wait to be accepted; others that ask are not recorded");
        }
        Err(error) => {
            strangers.pause(now);
            state.metrics.store_error();
            tracing::warn!(%client, error = &error as &dyn std::error::Error, "a client that asks cannot be recorded");
        }
    }
}
