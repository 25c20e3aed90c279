//! A preloaded desired state: a file with what a device runs before its first contact with its manager.
//!
//! The file is a tar. Its first entry, [`HEAD`], holds the [`Statement`], which is signed by the manager's own
//! identity, and every other entry is named after the digest of its content ([`entry`]). The statement names the
//! manifest by its digest, the manifest names the deployments by theirs, so that one signature covers all of it.

use margo::Digest;
use serde::{Deserialize, Serialize};

/// The kind of this file format.
pub const KIND: &str = "margrave-preload/1";
/// The first entry of the file.
pub const HEAD: &str = "preload.json";
/// The largest head; ample for a statement about hundreds of components.
pub const HEAD_BYTES_MAX: u64 = 4 << 20;
/// Prefix of the signed bytes, so that the signature is valid in no other context.
const CONTEXT: &[u8] = b"margrave preload statement, version 1\0";

/// The signed statement of the manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statement {
    pub kind: String,
    /// SPIFFE ID of the one client it is for.
    pub client: String,
    /// RFC 3339. The manager's identity is verified at this time: the file may wait for its device for a long time.
    pub issued_at: String,
    /// Of the state manifest's exact bytes.
    pub manifest: Digest,
    /// The ETag the manifest is served with.
    pub etag: String,
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    #[serde(default)]
    pub images: Vec<Image>,
}

/// A component in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// As deployments name it, repository and revision: `oci://registry.example/web:1.0.0`.
    pub reference: String,
    /// The layer with the component.
    pub layer: Digest,
}

/// A container image in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// As compose files name it.
    pub name: String,
    pub config: Digest,
    pub layers: Vec<Digest>,
}

/// The first entry of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// The exact text that was signed.
    pub statement: String,
    /// TLS number of the signature scheme.
    pub scheme: u16,
    /// Base64.
    pub signature: String,
    /// Base64 of DER: the manager's certificate, then its intermediate certificates.
    pub certificates: Vec<String>,
}

/// The bytes that are signed.
pub fn signed_bytes(statement: &str) -> Vec<u8> {
    [CONTEXT, statement.as_bytes()].concat()
}

/// The path of content in the file.
pub fn entry(digest: &Digest) -> String {
    format!("contents/{}", digest.hex())
}
