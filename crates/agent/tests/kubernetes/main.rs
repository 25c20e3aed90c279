//! Helm releases and plain manifests with the real agent program, a real Kubernetes cluster, real Helm 3 and 4, and a
//! real registry with TLS and passwords. These tests run as root.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../it/agent.rs"]
mod agent;
#[expect(dead_code, reason = "the other tests use more of it")]
#[path = "../it/fake.rs"]
mod fake;
#[expect(dead_code, reason = "the other tests use more of it")]
#[path = "../it/pki.rs"]
mod pki;
#[path = "../it/tokens.rs"]
mod token_service;

mod bench;
mod charts;
mod credentials;
mod drift;
mod engine;
mod helm;
mod inside;
mod kills;
mod manifests;
mod namespaces;
mod policies;
mod refusals;
mod registries;
mod samples;
mod workloads;
