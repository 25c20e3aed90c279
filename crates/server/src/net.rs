//! Accepting connections: TLS, peer identity, hot reload, drain.

// Suggested reading order.
pub mod serve;
mod lifetime;
mod rest;
mod site;
pub mod tls;
mod verify;

pub use lifetime::{Lifetime, Reason};
pub use serve::{Bound, Options};
pub use site::{BoxFuture, Connected, Front, Site};
pub use tls::Tls;
pub use verify::ClientVerifier;

use margo::spiffe::ClientIdentity;
use std::net::SocketAddr;

/// Who is on the other end of a mutual TLS connection, as the handshake proved it (GEN-10).
/// Handlers find it among the request's extensions; nothing in path or body can replace it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer(pub ClientIdentity);

/// Where a connection comes from.
#[derive(Debug, Clone, Copy)]
pub struct RemoteAddress(pub SocketAddr);
