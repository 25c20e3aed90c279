//! Activity in the fleet while programs are killed: an operator, a third-party device, and watchers.

mod operator;
mod third_party_device;
mod watcher;

pub use operator::{APPLICATIONS, operate};
pub use third_party_device::{ThirdPartyDevice, report_all_installed};
pub use watcher::{WatchResult, watch};

use super::ledger::Ledger;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// State shared by all participants.
#[derive(Clone)]
pub struct RunContext {
    pub ledger: Arc<Mutex<Ledger>>,
    /// Whether the server is expected to be up; no requests otherwise.
    pub up: watch::Receiver<bool>,
    pub stop: watch::Receiver<bool>,
}

impl RunContext {
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_over(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until the server is up or the run has ended.
    pub async fn ready(&mut self) {
        tokio::select! {
            _ = self.up.wait_for(|up| *up) => {}
            _ = self.stop.wait_for(|stop| *stop) => {}
        }
    }
}
