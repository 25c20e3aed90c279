//! Application packages: from a folder, an OCI layout, an OCI registry.
