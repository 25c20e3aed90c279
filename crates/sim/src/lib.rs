//! Virtual fleets: deterministic simulation, kill loops, measurements, and the devices of the demo.

pub mod bench;
pub mod chaos;
pub mod simulation;
pub mod demo;
pub mod fleet;
