//! Every SQL statement of Margrave, in one text for SQLite and PostgreSQL.

// Suggested reading order.
mod error;
mod open;
mod clients;
mod devices;
mod groups;
mod applications;
mod changes;
mod deployments;
mod statuses;
mod summary;
mod audit;
mod tokens;
mod enrolments;
mod blobs;
mod retention;

pub use changes::{BatchItem, BatchWrite};
pub use clients::{Head, SeenAt};
pub use deployments::{DeploymentFilter, DeploymentView};
pub use devices::{DeviceFilter, DevicePut};
pub use enrolments::EnrolmentUse;
pub use error::StoreError;
pub use open::{Store, StoreOptions};
pub use retention::Retention;
pub use statuses::{StatusOutcome, StatusWrite};
pub use summary::Summary;

pub type Result<T> = std::result::Result<T, StoreError>;
