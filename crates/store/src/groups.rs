//! Groups: named label selectors.

use crate::{Result, Store};
use margrave_core::model::{Actor, Group};
use margrave_core::time::Timestamp;

impl Store {
    /// Creates (`expected` none) or changes (`expected` some) a group.
    pub async fn group_put(&self, actor: &Actor, name: &str, selector: &str, description: Option<&str>, expected: Option<i64>, now: Timestamp) -> Result<Group> { let _ = (actor, name, selector, description, expected, now); todo!() }
    pub async fn group_get(&self, name: &str) -> Result<Option<Group>> { let _ = name; todo!() }
    pub async fn groups_page(&self, after: Option<&str>, limit: u32) -> Result<Vec<Group>> { let _ = (after, limit); todo!() }
    pub async fn group_delete(&self, actor: &Actor, name: &str, expected: Option<i64>, now: Timestamp) -> Result<bool> { let _ = (actor, name, expected, now); todo!() }
}
