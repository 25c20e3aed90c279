//! Black-box tests of the binary: stdout, stderr and exit code, against a real server.
#![expect(clippy::unwrap_used, reason = "a panic in a helper fails the test too")]

mod catalog;
mod config;
mod copies;
mod demo;
mod deploy;
mod explain;
mod events;
mod help;
mod identity;
mod imports;
mod login;
mod names;
mod origin;
mod people;
mod preload;
mod programs;
mod push;
mod registries;
mod removal;
mod serve;
mod shell;
mod sim;
mod support;
mod terminal;
mod watch;
