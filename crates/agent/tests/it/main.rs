//! The whole agent against a server over real sockets and real mutual TLS.
//!
//! The server is a fake written for these tests: it has to misbehave on purpose, which a real one never would.

#![expect(clippy::unwrap_used, reason = "in a test, what goes wrong is a failed test")]

mod behavior;
mod command;
mod connections;
mod disk_full;
mod enrollment;
mod fake;
mod long_polls;
mod misbehavior;
mod pki;
mod preload;
#[expect(dead_code, reason = "shared with the tests with real engines, which need images too")]
mod preloaded;
mod proxy;
mod support;
mod transport;
mod upgrades;
