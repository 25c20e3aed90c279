//! Kill loops: the real programs over real mutual TLS, killed with -9 at random points while the fleet is being changed.
//!
//! A [`ledger`] keeps every promise the server made with a 2xx; [`verdict`] looks each of them up afterwards.

pub mod agents;
pub mod daemon;
pub mod device;
pub mod ledger;
pub mod life;
pub mod programs;
pub mod site;
pub mod small_disk;
pub mod verdict;
pub mod wait;
