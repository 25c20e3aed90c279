//! Any manager: the agent against a second server that behaves as servers in the field do (W-01, W-03, W-07, W-12,
//! W-26), and devices that come into the world without an identity, or as a copy of another.

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
