//! The Margo specification as code: documents, rules, digests, bundles, identities.
//!
//! Pure: nothing here reads a file, opens a socket, reads a clock or draws a random number.
//! Rules are cited by their id (`// DS-23`). Readers are lenient, writers are strict.

// In reading order: names and findings, text into trees and back, documents, decisions, packaging, identity.
pub mod digest;
pub mod finding;
pub mod ids;

pub mod json;
pub mod node;
pub mod reader;
pub mod similar;
pub mod tree;
pub mod yaml;

pub mod capabilities;
pub mod deployment;
pub mod description;
pub mod manifest;
pub mod problem;
pub mod status;

pub mod constraints;
pub mod parameters;
pub mod quantity;

pub mod archive;
pub mod bundle;
pub mod package;

pub mod spiffe;
pub mod trust_bundle;

pub use digest::Digest;
pub use finding::{Finding, Findings, Read, ReadResult, Severity};
pub use ids::{ApplicationId, ClientId, DeploymentId, DeviceId, DeviceTarget, IdError};
