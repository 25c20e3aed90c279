//! External registries.

use super::{ApiClient, Result, Terms};
use crate::page::Page;
use crate::registries::{CheckRegistry, PutRegistry, RegistryCheck, SavedRegistry};
use reqwest::Method;

impl ApiClient {
    /// `GET /api/registries`
    pub async fn registries(&self) -> Result<Page<SavedRegistry>> {
        self.get(self.url(["registries"]), &[]).await
    }

    /// `GET /api/registries/{host}`
    pub async fn saved_registry(&self, host: &str) -> Result<SavedRegistry> {
        self.get(self.url(["registries", host]), &[]).await
    }

    /// `PUT /api/registries/{host}`; `if_match` is the revision to update, none adds it.
    pub async fn put_registry(&self, host: &str, body: &PutRegistry, if_match: Option<i64>) -> Result<SavedRegistry> {
        let terms = Terms { if_match, ..Terms::default() };
        self.send(Method::PUT, self.url(["registries", host]), terms, body).await
    }

    /// `POST /api/registries/{host}/check`
    pub async fn check_registry(&self, host: &str, body: &CheckRegistry) -> Result<RegistryCheck> {
        self.send(Method::POST, self.url(["registries", host, "check"]), Terms::default(), body).await
    }

    /// `DELETE /api/registries/{host}`
    pub async fn delete_registry(&self, host: &str, reason: Option<&str>, if_match: Option<i64>) -> Result<()> {
        self.delete(self.url(["registries", host]), Terms { if_match, reason, ..Terms::default() }).await
    }
}
