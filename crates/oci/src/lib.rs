//! Client side of OCI registries: references, pulling, pushing, and building the artifacts to push.
//!
//! Used by the server (imports, copies) and by the command (`margrave app push`). Every digest is verified, every size
//! bounded, and credentials never get into a message.

// Suggested reading order.
pub mod reference;
pub mod mirror;
pub mod manifest;
pub mod client;
pub mod objects;
pub mod build;
pub mod images;

pub use client::{Connection, Credentials, Kind, OciError, Registry};
pub use manifest::{Descriptor, Manifest, Platform};
pub use reference::{Reference, Tag, is_loopback_url};
