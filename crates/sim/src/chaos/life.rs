//! What goes on in the fleet while programs are being killed: an operator, a stranger's device, and watchers.

mod operator;
mod stranger;
mod watcher;

pub use operator::{APPLICATIONS, operate};
pub use stranger::{Stranger, report_to_the_end};
pub use watcher::{Watched, watch};

use super::ledger::Ledger;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// What everybody shares.
#[derive(Clone)]
pub struct Stage {
    pub ledger: Arc<Mutex<Ledger>>,
    /// Whether the server is believed to be up: no use in knocking at a closed door.
    pub up: watch::Receiver<bool>,
    pub stop: watch::Receiver<bool>,
}

impl Stage {
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_over(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until the server is up, or everything is over.
    pub async fn ready(&mut self) {
        tokio::select! {
            _ = self.up.wait_for(|up| *up) => {}
            _ = self.stop.wait_for(|stop| *stop) => {}
        }
    }
}
