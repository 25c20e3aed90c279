//! The operator API and the status page.
