//! The server as its clients see it: real sockets, real TLS, a database of its own per test, port 0.

mod support;

mod capabilities;
mod config;
mod enrolment;
mod handshake;
mod health;
mod manifest;
mod problems;
mod reload;
mod start;
mod status;
mod trust;
