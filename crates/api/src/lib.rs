//! Wire types of the operator API and a typed client for it.
//!
//! The server and the command line share these types, so they cannot drift apart.

// Suggested reading order.
pub mod page;
pub mod problem;
pub mod clients;
pub mod devices;
pub mod applications;
pub mod deployments;
pub mod changes;
pub mod summary;
pub mod access;
pub mod client;
