//! Wire types of the operator API and a typed client for it.
//!
//! The server and the command line share these types, so they cannot drift apart.

pub mod access;
pub mod applications;
pub mod rollouts;
pub mod client;
pub mod clients;
pub mod copies;
pub mod deployments;
pub mod devices;
pub mod diff;
pub mod explain;
pub mod events;
pub mod lookup;
pub mod page;
pub mod preload;
pub mod policies;
pub mod problem;
pub mod registries;
pub mod registry;
pub mod summary;
