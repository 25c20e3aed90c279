//! The Margrave server: device API, trust listener, operator API, web front end, loops.
//!
//! `run::start` is the entry point. Handlers are thin: they extract, call one function in `app`, and convert.

// Suggested reading order.
pub mod config;
pub mod run;
pub mod state;
pub mod clock;
pub mod secrets;
pub mod files;
pub mod body;
pub mod problems;
pub mod manifest_cache;
pub mod precedence;
pub mod identity;
pub mod net;
pub mod devices;
pub mod trust;
pub mod app;
pub mod catalog;
pub mod registry;
pub mod copies;
pub mod operators;
pub(crate) mod ui;
pub mod telemetry;
