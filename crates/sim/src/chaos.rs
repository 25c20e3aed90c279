//! Kill loops: the real programs over real mutual TLS, killed with -9 at random points while the fleet is being changed.
//!
//! A [`ledger`] records everything the server acknowledged with a 2xx; [`verdict`] verifies all of it afterwards.

pub mod agents;
pub mod daemon;
pub mod device;
pub mod ledger;
pub mod activity;
pub mod programs;
pub mod site;
pub mod small_disk;
pub mod verdict;
pub mod wait;
