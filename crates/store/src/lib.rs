//! Every SQL statement of Margrave, in one text for SQLite and PostgreSQL.
//!
//! # What do we store?
//!
//! Durable, because nobody else knows it:
//! clients and what each of them is told (manifests with their exact bytes, artifacts and blobs);
//! devices as they were reported, with the operator's labels; groups; the catalog;
//! changes (intents over many devices, with how far they got), deployments and their revisions;
//! the last word of each client about each deployment; API tokens, enrolment tokens, web sessions and passwords of operators, as hashes;
//! other registries and what they are asked with;
//! the audit chain and the events, in the same transaction as whatever they tell of.
//!
//! Kept for a while, then pruned: replaced artifacts, old revisions, the history of status reports, finished changes,
//! deployments that were removed, blobs nobody refers to, what calls with an idempotency key answered, events beyond the
//! newest, web sessions that have ended, drafts nobody came back to.
//!
//! Rebuilt, never stored on their own: who belongs to a group, which devices fit an application, how far a deployment has
//! converged, the heads the server keeps in memory (read page by page at start), the label index (from the device row).
//!
//! Sealed, wherever a value in it is marked sensitive: drafts, the answers of changes, deployments and revisions, and the blobs with
//! their documents and bundles. Sealed without exception: passwords of other registries. The key is not in here, only its id.
//!
//! # Which calls are hot?
//!
//! A poll that finds nothing new calls nothing here. [`Store::manifest`], [`Store::deployment_yaml`] and [`Store::bundle`] are
//! one indexed read each. [`Store::statuses_put`] and [`Store::seen_write`] take many at once, since on SQLite all writing goes
//! through one connection. [`Store::change_apply`] is bounded by [`BATCH_TARGETS_MAX`]; [`Store::change_apply_soon`] does not
//! wait for the disk.
//!
//! # How is it kept honest?
//!
//! Rows are taken by `UPDATE .. SET x = x .. RETURNING`, which locks them on PostgreSQL and is free on SQLite, where writers
//! queue anyway. Lists are pages by key, in the order the database gives text. The suite in `tests/` runs every call on both
//! engines; since no statement is checked when compiling, it is what checks them.

// In suggested reading order, group by group: the ground, what is kept for everybody, the nouns, keeping it small.
mod checkpoints;
mod durable;
mod error;
mod many;
mod open;
mod rows;
mod seal;

mod audit;
mod blobs;
mod events;

mod applications;
mod changes;
mod clients;
mod deployments;
mod devices;
mod drafts;
mod enrolments;
mod groups;
mod idempotency;
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
pub use changes::{BATCH_TARGETS_MAX, BatchItem, BatchWrite, Coming};
pub use clients::{ClientSearch, Head};
pub use deployments::{DeploymentFilter, DeploymentView, Place};
pub use devices::{DeviceFilter, DevicePut, DeviceSearch, DeviceWrite, Runs, RunsVersion};
pub use drafts::Draft;
pub use enrolments::{Enrolment, EnrolmentUse};
pub use error::StoreError;
pub use events::{EventBounds, EventFilter, EventOrder, EventRange};
pub use idempotency::{KEYS_PER_TOKEN_MAX, KeyEntry, KeyOwner, KeyWrite};
pub use open::{Store, StoreOptions, without_password};
pub use operators::{Credential, Operator};
pub use registries::{LoginWrite, REGISTRIES_MAX, RegistryAccess, RegistryWrite};
pub use removals::{RemovalFilter, RemovalPlace};
pub use retention::{PRUNE_ROWS_MAX, Retention};
pub use seal::{SEAL_KEY_BYTES, Seal, SealError};
pub use seen::{SILENT_MAX, SeenAt};
pub use sessions::{SessionOwner, SignedIn, WebSession};
pub use statuses::{STATUS_HISTORY_MAX, StatusOutcome, StatusWrite};
pub use summary::{SilentPlace, Summary};
pub use trend::Slot;

pub type Result<T> = std::result::Result<T, StoreError>;
