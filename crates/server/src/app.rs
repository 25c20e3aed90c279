//! What operators and loops can do, apart from how they ask for it.

pub mod access;
pub mod applications;
pub mod changes;
pub mod clients;
pub(crate) mod compose;
pub mod deployments;
pub mod devices;
pub mod diff;
pub mod error;
pub mod events;
pub mod explain;
pub mod fit;
pub mod groups;
pub mod idempotency;
pub mod mask;
pub mod paging;
pub mod preload;
pub mod publisher;
pub mod registry;
pub mod summary;
pub mod trust;
pub(crate) mod turns;
