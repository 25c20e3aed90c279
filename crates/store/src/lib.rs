//! Every SQL statement of Margrave, in one dialect for SQLite and PostgreSQL.
//!
//! # What do we store?
//!
//! Durable, because it exists nowhere else:
//! clients and what each of them is served (manifests with their exact bytes, artifacts and blobs);
//! devices as reported, with the operator's labels; groups; the catalog;
//! rollouts (intents for many devices, with their progress), deployments and their revisions;
//! the last report of each client about each deployment; API tokens, enrollment tokens, web sessions and passwords of
//! operators, as hashes;
//! external registries and their credentials;
//! the audit chain and the events, in the same transaction as what they describe.
//!
//! Kept for a while, then pruned: replaced artifacts, old revisions, the history of status reports, finished rollouts,
//! removed deployments, unreferenced blobs, responses to calls with an idempotency key, all but the newest
//! events, ended web sessions, abandoned drafts.
//!
//! Computed, never stored: members of a group, compatibility of devices with an application, the state of a deployment,
//! the manifest cache in the server's memory (read page by page at start), the label index (from the device row).
//!
//! Sealed if a value in it is marked sensitive: drafts, the values of rollouts, deployments and revisions, and the
//! blobs of their documents and bundles. Always sealed: passwords of external registries. The key is not stored here,
//! only its id.
//!
//! # Which calls are hot?
//!
//! A poll without news calls nothing here. [`Store::manifest`], [`Store::deployment_yaml`] and [`Store::bundle`] are
//! one indexed read each. [`Store::statuses_put`] and [`Store::seen_write`] take many items at once, since on SQLite
//! all writes go through one connection. [`Store::rollout_apply`] is bounded by [`BATCH_TARGETS_MAX`];
//! [`Store::rollout_apply_soon`] does not wait for the disk.
//!
//! # How is it kept correct?
//!
//! Rows are locked by `UPDATE .. SET x = x .. RETURNING`, which locks them on PostgreSQL and is free on SQLite, where
//! writers queue anyway. Lists are pages by key, in the text order of the database. The suite in `tests/` runs every
//! call on both engines; statements are not checked at compile time, only by this suite.

// Suggested reading order, in groups: foundations, cross-cutting records, the nouns, retention.
mod checkpoints;
mod durable;
mod error;
mod batched;
mod open;
mod rows;
mod seal;
mod sql;

mod audit;
mod blobs;
mod events;

mod applications;
mod rollouts;
mod clients;
mod deployments;
mod devices;
mod drafts;
mod enrollments;
mod groups;
mod idempotency;
mod lookup;
mod operators;
mod registries;
mod removals;
mod seen;
mod sessions;
mod statuses;
mod summary;
mod tokens;
mod trend;

mod retention;

pub use applications::Named;
pub use audit::AuditFilter;
pub use clients::{ClientSearch, Head};
pub use deployments::{DeploymentFilter, DeploymentView, Place};
pub use devices::{DeviceFilter, DevicePut, DeviceSearch, DeviceWrite, Runs, RunsVersion};
pub use drafts::Draft;
pub use enrollments::{Enrollment, EnrollmentUse};
pub use error::StoreError;
pub use events::{EventBounds, EventFilter, EventOrder, EventRange};
pub use idempotency::{KEYS_PER_TOKEN_MAX, KeyEntry, KeyOwner, KeyWrite};
pub use lookup::{IdKind, NamedId};
pub use open::{Store, StoreOptions, without_password};
pub use operators::{Credential, Operator};
pub use registries::{LoginWrite, REGISTRIES_MAX, RegistryAccess, RegistryWrite};
pub use removals::{RemovalFilter, RemovalPlace};
pub use retention::{PRUNE_ROWS_MAX, Retention};
pub use rollouts::{BATCH_TARGETS_MAX, BatchItem, BatchWrite, PublishAbove, UnfinishedRollout};
pub use seal::{SEAL_KEY_BYTES, Seal, SealError};
pub use seen::{OFFLINE_MAX, SeenAt};
pub use sessions::{SessionOwner, SignedIn, WebSession};
pub use statuses::{FailedAttempts, STATUS_HISTORY_MAX, StatusOutcome, StatusWrite};
pub use summary::{OfflineSite, Summary};
pub use trend::Slot;

pub type Result<T> = std::result::Result<T, StoreError>;
