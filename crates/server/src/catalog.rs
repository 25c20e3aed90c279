//! Application packages: from a folder, an OCI layout, an OCI registry.

mod descriptions;

pub use descriptions::Descriptions;
