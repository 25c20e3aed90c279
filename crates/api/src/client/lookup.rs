//! Resolves names and beginnings of ids.

use super::{ApiClient, Result};
use crate::lookup::{Lookup, LookupKind};

impl ApiClient {
    /// `GET /api/lookup`
    pub async fn lookup(&self, kind: LookupKind, name: &str) -> Result<Lookup> {
        let query = [("kind", Some(kind.as_str().to_owned())), ("name", Some(name.to_owned()))];
        self.get(self.url(["lookup"]), &query).await
    }
}
