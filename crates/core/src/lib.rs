//! Margrave's decisions: placement, desired-state assembly, publishing, the agent's planner.
//!
//! Pure: no async, no I/O, no clock, no randomness. Time and chance come in as parameters.

// Suggested reading order.
pub mod model;
pub mod time;
pub mod selector;
pub mod placement;
pub mod assemble;
pub mod publish;
pub mod convergence;
pub mod audit;
pub mod plan;
