//! Margrave's decisions: placement, desired-state assembly, publishing, the agent's planner.
//!
//! Pure: no async, no I/O, no clock, no randomness. Time and randomness come in as parameters.

// Suggested reading order.
pub mod assemble;
pub mod audit;
pub mod deployment_state;
pub mod events;
pub mod hold;
pub mod model;
pub mod names;
pub mod placement;
pub mod plan;
pub mod policy;
pub mod preload;
pub mod publish;
pub mod registries;
pub mod runtime;
pub mod selector;
pub mod settings;
pub mod skips;
pub mod sort;
pub mod time;
