//! Keeps the counts of a large fleet fresh in the background, because counting takes longer than a request may wait.

use super::{OLD, Overview, QUICK, make};
use crate::state::ServerState;
use margrave_core::time::Timestamp;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Often enough to finish before the counts are too old.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);

pub(crate) async fn run(state: ServerState, stop: CancellationToken) {
    let mut ticks = interval(CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        if !is_due(state.board.last.lock().as_deref(), state.now()) {
            continue;
        }
        let made = async {
            let _turn = state.board.turn.lock().await;
            make(&state).await
        };
        let made = tokio::select! {
            () = stop.cancelled() => return,
            made = made => made,
        };
        if let Err(error) = made {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot count the fleet");
        }
    }
}

/// A small fleet is counted on request.
fn is_due(known: Option<&Overview>, now: Timestamp) -> bool {
    known.is_none_or(|known| known.took > QUICK && now.since(known.at) >= OLD / 2)
}
