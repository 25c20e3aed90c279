//! Seals: sensitive values are stored only encrypted with AES-256-GCM, under a key that is kept elsewhere.
//!
//! A sealed value is bound to its cell (table, column, row): moved to another, it does not open. It names its key, so
//! that a wrong key is distinguished from a modified value. Callers of the store see none of this.

mod key;

use crate::{Result, StoreError};
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::digest::{self, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use std::fmt::{self, Debug, Display};
use std::sync::Arc;

pub const SEAL_KEY_BYTES: usize = 32;

/// Prefix of a sealed text: `sealed:v1:<key id>:<base64 of nonce, sealed text and tag>`. No JSON begins like this.
const PREFIX: &str = "sealed:v1:";

/// Separates the id of a key from any other value derived from it.
const KEY_ID_PURPOSE: &[u8] = b"margrave seal key id v1\n";
/// 64 bits distinguish keys; nothing depends on more.
const KEY_ID_BYTES: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("this program has no key to open it with")]
    NoKey,
    #[error(
        "it is sealed with key `{sealed_with}`, this server has `{held}`: start the server with the right key file"
    )]
    OtherKey { sealed_with: String, held: String },
    #[error("it was modified, truncated or moved from another row: restore it from a backup")]
    Broken,
}

/// A sealing key.
pub struct Seal {
    id: String,
    key: RandomizedNonceKey,
}

impl Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Seal {
    pub fn new(key: &[u8; SEAL_KEY_BYTES]) -> Self {
        let mut context = digest::Context::new(&SHA256);
        context.update(KEY_ID_PURPOSE);
        context.update(key);
        let id = margo::digest::hex(&context.finish().as_ref()[..KEY_ID_BYTES]);
        let key = RandomizedNonceKey::new(&AES_256_GCM, key).expect("the key has the right length");
        Self { id, key }
    }

    /// Identifies the key without revealing it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Nonce, sealed bytes, tag. Nonces are random: 2^32 of them may be used before a collision becomes likely.
    fn seal(&self, cell: Cell<'_>, clear: &[u8]) -> Vec<u8> {
        let mut text = clear.to_vec();
        let nonce = self.key.seal_in_place_append_tag(cell.aad(), &mut text).expect("values are short");
        [nonce.as_ref().as_slice(), &text].concat()
    }

    fn open(&self, cell: Cell<'_>, mut sealed: Vec<u8>) -> Option<Vec<u8>> {
        if sealed.len() < NONCE_LEN {
            return None;
        }
        let mut text = sealed.split_off(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(&sealed).ok()?;
        let length = self.key.open_in_place(nonce, cell.aad(), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

/// The cell of a sealed value; it opens in no other.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'a> {
    /// With its table.
    pub(crate) column: &'static str,
    pub(crate) row: &'a dyn Display,
}

impl<'a> Cell<'a> {
    pub(crate) fn new(column: &'static str, row: &'a dyn Display) -> Self {
        Self { column, row }
    }

    fn aad(&self) -> Aad<Vec<u8>> {
        Aad::from(format!("{}\n{}", self.column, self.row).into_bytes())
    }

    fn failed(&self, source: SealError) -> StoreError {
        StoreError::Sealed { what: format!("`{}` of `{}`", self.column, self.row), source }
    }
}

pub(crate) fn is_sealed(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// The key of a store, if it was opened with one; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sealing(Option<Arc<Seal>>);

impl Sealing {
    /// Without a key no sensitive value is stored.
    fn held(&self, cell: Cell<'_>) -> Result<&Seal> {
        let missing = || StoreError::Misuse(format!("there is no key to seal `{}` with", cell.column));
        self.0.as_deref().ok_or_else(missing)
    }

    pub(crate) fn text(&self, cell: Cell<'_>, clear: &str) -> Result<String> {
        let seal = self.held(cell)?;
        let sealed = seal.seal(cell, clear.as_bytes());
        Ok(format!("{PREFIX}{}:{}", seal.id, STANDARD_NO_PAD.encode(sealed)))
    }

    /// The sealed bytes, and the id of the key.
    pub(crate) fn bytes(&self, cell: Cell<'_>, clear: &[u8]) -> Result<(String, Vec<u8>)> {
        let seal = self.held(cell)?;
        Ok((seal.id.clone(), seal.seal(cell, clear)))
    }

    /// Returns unsealed text as it is.
    pub(crate) fn open_text(&self, cell: Cell<'_>, text: String) -> Result<String> {
        let Some(sealed) = text.strip_prefix(PREFIX) else { return Ok(text) };
        let broken = || cell.failed(SealError::Broken);
        let (key, sealed) = sealed.split_once(':').ok_or_else(broken)?;
        let sealed = STANDARD_NO_PAD.decode(sealed).map_err(|_| broken())?;
        String::from_utf8(self.open_bytes(cell, key, sealed)?).map_err(|_| broken())
    }

    pub(crate) fn open_bytes(&self, cell: Cell<'_>, sealed_with: &str, sealed: Vec<u8>) -> Result<Vec<u8>> {
        let seal = self.0.as_deref().ok_or_else(|| cell.failed(SealError::NoKey))?;
        if seal.id != sealed_with {
            let other = SealError::OtherKey { sealed_with: sealed_with.to_owned(), held: seal.id.clone() };
            return Err(cell.failed(other));
        }
        seal.open(cell, sealed).ok_or_else(|| cell.failed(SealError::Broken))
    }
}

#[cfg(test)]
mod tests;
