//! Descriptions of application versions, parsed once and cached: they are immutable, because they are named by digest.

use indexmap::IndexMap;
use margo::description::ApplicationDescription;
use margo::digest::Digest;
use margrave_core::model::ApplicationVersion;
use margrave_store::{Store, StoreError};
use parking_lot::Mutex;
use std::sync::Arc;

/// More versions than a fleet uses at a time; the oldest is evicted first.
const CACHED_MAX: usize = 256;

#[derive(Debug, Default)]
pub struct Descriptions {
    stored: Mutex<IndexMap<Digest, Arc<ApplicationDescription>>>,
}

impl Descriptions {
    /// The description of a version in the catalog.
    pub async fn get(
        &self,
        store: &Store,
        version: &ApplicationVersion,
    ) -> Result<Arc<ApplicationDescription>, StoreError> {
        if let Some(stored) = self.stored.lock().get(&version.description_digest) {
            return Ok(Arc::clone(stored));
        }
        let bytes = store
            .blob_get(&version.description_digest)
            .await?
            .ok_or_else(|| inconsistent(version, "its description is missing".to_owned()))?;
        let read =
            ApplicationDescription::read(&bytes).map_err(|findings| inconsistent(version, findings.to_string()))?;
        let description = Arc::new(read.document);
        self.keep(&version.description_digest, &description);
        Ok(description)
    }

    fn keep(&self, digest: &Digest, description: &Arc<ApplicationDescription>) {
        let mut stored = self.stored.lock();
        if stored.len() >= CACHED_MAX {
            stored.shift_remove_index(0);
        }
        stored.insert(digest.clone(), Arc::clone(description));
    }
}

fn inconsistent(version: &ApplicationVersion, problem: String) -> StoreError {
    StoreError::Inconsistent {
        table: "application_versions",
        problem: format!("`{}` {}: {problem}", version.application, version.version),
    }
}
