//! The preloaded desired state: looked at when there is one, and again only when it or the identity has changed.

use super::keeper::Keeper;
use crate::identity::IdentityFiles;
use crate::preload::{self, Preload};
use margo::Digest;
use std::sync::Arc;
use std::time::SystemTime;

#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Of the identity, and the file as it was.
    seen: Option<(Digest, Option<SystemTime>, u64)>,
    found: Option<Arc<Preload>>,
}

impl Keeper {
    /// A desired state to begin with; why it is refused is said once. Nothing while there is no identity to verify it.
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

    /// There is a desired state now; the other one is not needed in memory any more.
    pub(super) fn forget_preload(&mut self) {
        self.preload.found = None;
    }
}
