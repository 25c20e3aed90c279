//! Content-addressed bytes.

use crate::{Result, Store};
use margo::digest::Digest;

impl Store {
    pub async fn blob_get(&self, digest: &Digest) -> Result<Option<Vec<u8>>> { let _ = digest; todo!() }
}
