//! The Margo specification as code: documents, rules, digests, bundles, identities.
//!
//! Pure: nothing here reads a file, opens a socket, asks a clock or draws a random number.
//! Rules are cited by their id (`// DS-23`). Readers are lenient, writers are strict.

// Suggested reading order.
pub mod archive;
pub mod bundle;
pub mod capabilities;
pub mod constraints;
pub mod deployment;
pub mod description;
pub mod digest;
pub mod finding;
pub mod ids;
pub mod json;
pub mod manifest;
pub mod node;
pub mod package;
pub mod parameters;
pub mod problem;
pub mod quantity;
pub mod reader;
pub mod spiffe;
pub mod status;
pub mod tree;
pub mod trust_bundle;
pub mod yaml;

pub use digest::Digest;
pub use finding::{Finding, Findings, Read, ReadResult, Severity};
pub use ids::{ApplicationId, ClientId, DeploymentId, DeviceId, DeviceTarget, IdError};
