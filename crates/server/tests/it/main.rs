//! The server as its clients see it: real sockets, real TLS, one database per test, port 0.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test by panicking")]

mod support;

mod capabilities;
mod config;
mod enrollment;
mod handshake;
mod health;
mod long_polls;
mod manifest;
mod polls;
mod problems;
mod reload;
mod start;
mod status;
mod trust;
mod operators;
