//! Shutdown signals: Ctrl-C and SIGTERM.

use crate::failure::{Failure, Outcome};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives shutdown signals. Once created, signals no longer end the process; they wait for [`Self::recv`].
pub(crate) struct ShutdownSignal {
    interrupt: Signal,
    terminate: Signal,
}

impl ShutdownSignal {
    pub(crate) fn new() -> Outcome<Self> {
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    pub(crate) async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

pub(crate) fn listen(kind: SignalKind) -> Outcome<Signal> {
    signal(kind).map_err(|error| Failure::failed("listen for signals").caused_by(&error))
}
