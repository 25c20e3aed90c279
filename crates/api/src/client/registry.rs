//! The embedded registry and pull credentials.

use super::{ApiClient, PageQuery, Result, Terms};
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

    /// `POST /api/registry/collection`
    pub async fn collect_registry(&self) -> Result<Collection> {
        self.send(Method::POST, self.url(["registry", "collection"]), Terms::default(), &serde_json::json!({})).await
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
