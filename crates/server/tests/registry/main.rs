//! The embedded registry over real sockets: the protocol call by call, then with the clients people use.

mod support;

mod access;
mod blobs;
mod collection;
mod durability;
mod kills;
mod lists;
mod manifests;
mod quotas;
mod uploads;

mod clients;
mod hosted;
