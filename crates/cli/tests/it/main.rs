//! The binary as people use it: stdout, stderr and exit code, against a real server.

mod catalog;
mod demo;
mod deploy;
mod help;
mod identity;
mod imports;
mod login;
mod serve;
mod support;
