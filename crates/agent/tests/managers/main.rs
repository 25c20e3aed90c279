//! Interoperability: the agent with a second server that behaves like servers in the field (W-01, W-03, W-07, W-12,
//! W-26), and devices without an identity or with a copied disk.

#![expect(clippy::unwrap_used, reason = "in a test, what goes wrong is a failed test")]

mod clones;
#[path = "../it/fake.rs"]
#[expect(dead_code, reason = "shared with the tests in `it`, which misbehave in more ways")]
mod fake;
mod field;
mod manager;
#[path = "../it/pki.rs"]
#[expect(dead_code, reason = "shared with the tests in `it`, which issue more")]
mod pki;
#[path = "../it/support.rs"]
#[expect(dead_code, reason = "shared with the tests in `it`, which ask for more")]
mod support;
