//! Compose deployments with the real agent program, a real Docker engine, and a real registry with TLS and passwords.
//! The manager is a server that serves what the test publishes. These tests run as root.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../it/agent.rs"]
mod agent;
#[expect(dead_code, reason = "the other tests use more of it")]
#[path = "../it/fake.rs"]
mod fake;
#[expect(dead_code, reason = "the other tests use more of it")]
#[path = "../it/pki.rs"]
mod pki;
#[path = "../it/tokens.rs"]
mod token_service;
#[path = "../it/preloaded.rs"]
mod preloaded;

mod bench;
mod credentials;
mod drift;
mod engine;
mod images;
mod kills;
mod life;
mod neighbors;
#[cfg(feature = "soak")]
mod podman;
mod policies;
mod preload;
mod refusals;
mod technician;
mod tokens;
