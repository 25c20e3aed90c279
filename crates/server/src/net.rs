//! Accepting connections: TLS, peer identity, hot reload, drain.
