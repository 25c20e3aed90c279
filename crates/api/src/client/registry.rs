//! The embedded registry and pull credentials.

use super::{ApiClient, PageQuery, Result, Terms};
use crate::copies::{Copy, CreateCopy};
use crate::page::Page;
use crate::registry::{Collection, PullCredentials, Registry, ReplacePullCredentials, Repository};
use reqwest::Method;

impl ApiClient {
    /// `GET /api/registry`
    pub async fn registry(&self) -> Result<Registry> {
        self.get(self.url(["registry"]), &[]).await
    }

    /// `GET /api/registry/repositories`
    pub async fn repositories(&self, page: &PageQuery) -> Result<Page<Repository>> {
        let url = self.url(["registry", "repositories"]);
        self.get(url, &[("limit", page.limit_text()), ("after", page.after.clone())]).await
    }

    /// `POST /api/registry/garbage-collection`
    pub async fn run_registry_garbage_collection(&self) -> Result<Collection> {
        self.send(Method::POST, self.url(["registry", "garbage-collection"]), Terms::default(), &serde_json::json!({}))
            .await
    }

    /// `POST /api/registry/copies`
    pub async fn create_copy(&self, body: &CreateCopy) -> Result<Copy> {
        self.send(Method::POST, self.url(["registry", "copies"]), Terms::default(), body).await
    }

    /// `GET /api/registry/copies`
    pub async fn copies(&self) -> Result<Page<Copy>> {
        self.get(self.url(["registry", "copies"]), &[]).await
    }

    /// `GET /api/registry/copies/{id}`
    pub async fn copy(&self, id: &str) -> Result<Copy> {
        self.get(self.url(["registry", "copies", id]), &[]).await
    }

    /// `DELETE /api/registry/copies/{id}`
    pub async fn cancel_copy(&self, id: &str, reason: Option<&str>) -> Result<()> {
        self.delete(self.url(["registry", "copies", id]), Terms { reason, ..Terms::default() }).await
    }

    /// `GET /api/clients/{id}/pull-credentials`
    pub async fn pull_credentials(&self, client: &str) -> Result<PullCredentials> {
        self.get(self.url(["clients", client, "pull-credentials"]), &[]).await
    }

    /// `POST /api/clients/{id}/pull-credentials`
    pub async fn replace_pull_credentials(
        &self,
        client: &str,
        body: &ReplacePullCredentials,
    ) -> Result<PullCredentials> {
        self.send(Method::POST, self.url(["clients", client, "pull-credentials"]), Terms::default(), body).await
    }
}
