//! The Margo specification as code: documents, rules, digests, bundles, identities.
//!
//! Pure: nothing here reads a file, opens a socket, asks a clock or draws a random number.
//! Rules are cited by their id (`// DS-23`). Readers are lenient, writers are strict.

// Suggested reading order.
pub mod finding;
pub mod digest;
pub mod ids;
pub mod node;
pub mod tree;
pub mod yaml;
pub mod json;
pub mod reader;
pub mod quantity;
pub mod description;
pub mod deployment;
pub mod capabilities;
pub mod manifest;
pub mod status;
pub mod problem;
pub mod parameters;
pub mod constraints;
pub mod archive;
pub mod bundle;
pub mod spiffe;
pub mod trust_bundle;
pub mod package;

pub use digest::Digest;
pub use finding::{Finding, Findings, Read, ReadResult, Severity};
pub use ids::{ApplicationId, ClientId, DeploymentId, DeviceId, DeviceTarget, IdError};
