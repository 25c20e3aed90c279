//! The embedded registry over real sockets: the protocol call by call, then with common clients.

#![expect(clippy::unwrap_used, reason = "a test fails on any error")]

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
