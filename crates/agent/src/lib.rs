//! The device agent: polls a Margo WFM, verifies, plans, applies, observes and reports.
//!
//! [`machine`] decides without any I/O; the rest of the crate executes its decisions. Works with any Margo WFM.

// Suggested reading order.
pub mod arguments;
pub mod artifacts;
pub mod codes;
pub mod config;
pub mod disk;
pub mod enroll;
pub mod facts;
pub mod hold;
pub mod http;
pub mod identity;
pub mod machine;
pub mod preload;
pub mod runtimes;
pub mod shell;
pub mod tls;
pub mod trust;

pub use codes::Code;
pub use config::AgentConfig;
pub use shell::{AgentError, SystemClock, once, run};
