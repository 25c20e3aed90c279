//! The preloaded desired state: read once, and again only if it or the identity has changed.

use super::connection::ConnectionManager;
use crate::identity::IdentityFiles;
use crate::preload::{self, Preload};
use margo::Digest;
use std::sync::Arc;
use std::time::SystemTime;

#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The identity and the file at the last read.
    seen: Option<(Digest, Option<SystemTime>, u64)>,
    found: Option<Arc<Preload>>,
}

impl ConnectionManager {
    /// The preloaded desired state; a rejection is returned once. `None` without an identity to verify it.
    pub(super) fn preload(&mut self) -> Option<Result<Arc<Preload>, String>> {
        let path = self.config.boot.preload.clone()?;
        let metadata = std::fs::metadata(&path).ok()?;
        let identity = IdentityFiles::of(&self.config).load().ok()?;
        let now = (identity.fingerprint.clone(), metadata.modified().ok(), metadata.len());
        if self.preload.seen.as_ref() == Some(&now) {
            return self.preload.found.clone().map(Ok);
        }
        self.preload.seen = Some(now);
        let read = preload::read(&path, &identity).map(Arc::new).map_err(|error| error.to_string());
        self.preload.found = read.as_ref().ok().cloned();
        Some(read)
    }

    /// There is a desired state now; frees the preloaded one.
    pub(super) fn forget_preload(&mut self) {
        self.preload.found = None;
    }
}
