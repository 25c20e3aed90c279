//! The embedded registry over real sockets: the protocol call by call, then with the clients people use.

#![expect(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod support;

mod access;
mod blobs;
mod collection;
mod durability;
mod kills;
mod lists;
mod manifests;
mod pushes;
mod quotas;
mod records;
mod streaming;
mod uploads;

mod clients;
mod hosted;
mod mirrors;
