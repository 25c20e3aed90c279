//! The catalog.

use crate::{Result, Store};
use margo::digest::Digest;
use margo::ids::ApplicationId;
use margrave_core::model::{Actor, ApplicationVersion};

impl Store {
    /// Adds a version with its blobs (description and resources). The same package again is fine and returns false;
    /// another package under the same version fails with `Exists`.
    pub async fn version_add(&self, actor: &Actor, version: &ApplicationVersion, blobs: &[(Digest, Vec<u8>)]) -> Result<bool> { let _ = (actor, version, blobs); todo!() }
    pub async fn version_get(&self, application: &ApplicationId, version: &str) -> Result<Option<ApplicationVersion>> { let _ = (application, version); todo!() }
    /// Versions of one application, newest import first.
    pub async fn versions(&self, application: &ApplicationId) -> Result<Vec<ApplicationVersion>> { let _ = application; todo!() }
    /// One entry per application (its newest import), in order of id, with the number of versions.
    pub async fn applications_page(&self, after: Option<&ApplicationId>, limit: u32) -> Result<Vec<(ApplicationVersion, u32)>> { let _ = (after, limit); todo!() }
    /// Fails with `InUse` while a deployment is on it.
    pub async fn version_delete(&self, actor: &Actor, application: &ApplicationId, version: &str, now: margrave_core::time::Timestamp) -> Result<bool> { let _ = (actor, application, version, now); todo!() }
}
