//! Being told to stop: Ctrl-C or SIGTERM.

use crate::failure::{Failure, Outcome};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// From when it is made on, a signal ends nothing by itself; it waits to be taken.
pub(crate) struct Told {
    interrupt: Signal,
    terminate: Signal,
}

impl Told {
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
