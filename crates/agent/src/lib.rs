//! The device agent: polls a Margo WFM, verifies, plans, applies, observes and reports.
//!
//! [`machine`] decides without any I/O; the rest of the crate carries its decisions out. Works with any Margo WFM.

// Suggested reading order.
pub mod codes;
pub mod machine;
pub mod disk;
pub mod config;
pub mod runtimes;
pub mod identity;
pub mod tls;
pub mod http;
pub mod facts;
pub mod trust;
pub mod enrol;
pub mod shell;

pub use codes::Code;
pub use config::AgentConfig;
pub use shell::{AgentError, SystemClock, once, run};
