//! The device agent: polls a Margo WFM, verifies, plans, applies, observes and reports.
//!
//! [`machine`] decides without any I/O; the rest of the crate carries its decisions out. Works with any Margo WFM.

// Suggested reading order.
pub mod codes;
pub mod machine;
pub mod disk;
pub mod config;
pub mod runtimes;

pub use codes::Code;
