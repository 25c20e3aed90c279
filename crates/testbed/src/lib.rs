//! Real parts for tests: a Docker engine, a Kubernetes cluster, registries with TLS and passwords, images from
//! scratch, small disks.
//!
//! Every part starts on request only and ends with the process that started it, however that ends. A missing program
//! fails the test that needs it.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a panic is how a test fails")]

pub mod authority;
pub mod cluster;
pub mod disk;
pub mod docker;
pub mod images;
mod network;
pub mod registry;
pub mod tools;

pub use cluster::Cluster;
pub use docker::Docker;
pub use registry::{Registry, Tokens, User};
pub use tools::tool;
