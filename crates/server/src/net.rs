//! Accepting connections: TLS, peer identity, hot reload, drain.

// Suggested reading order.
pub mod serve;
mod lifetime;
mod idle;
mod site;
pub mod tls;
mod verify;

pub use lifetime::{CloseReason, Lifetime};
pub use serve::{Bound, Options};
pub use site::{BoxFuture, Connected, FastPath, Site};
pub use tls::Tls;
pub use verify::ClientVerifier;

use margo::spiffe::ClientIdentity;
use std::net::SocketAddr;

/// The peer of a mutual TLS connection, as proved by the handshake (GEN-10).
/// Handlers find it in the request's extensions; nothing in path or body can replace it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer(pub ClientIdentity);

/// The remote address of a connection.
#[derive(Debug, Clone, Copy)]
pub struct RemoteAddress(pub SocketAddr);
