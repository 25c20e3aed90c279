//! Deployments, one by one and listed.

use super::{ApiClient, PageQuery, Result, Terms};
use crate::deployments::{
    Deployment, DeploymentState, RetryDeployment, Revision, RollbackDeployment, Status, UpdateDeployment,
};
use crate::diff::DeploymentDiff;
use crate::explain::Explanation;
use crate::page::Page;
use crate::rollouts::{CreateRollout, Plan, Rollout};
use reqwest::Method;

/// Filter for deployments; absent fields match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeploymentQuery {
    pub application: Option<String>,
    pub version: Option<String>,
    pub client: Option<String>,
    pub device: Option<String>,
    pub rollout: Option<String>,
    pub state: Option<DeploymentState>,
    /// Also removed ones that are kept for their history.
    pub with_absent: bool,
    /// A column, with `-` in front to sort descending.
    pub sort: Option<String>,
}

impl ApiClient {
    /// `POST /api/deployments`: a rollout of kind create.
    pub async fn create_deployments(&self, body: &CreateRollout) -> Result<Rollout> {
        self.send(Method::POST, self.url(["deployments"]), Terms::default(), body).await
    }

    /// `POST /api/deployments?dryRun=true`
    pub async fn plan_deployments(&self, body: &CreateRollout) -> Result<Plan> {
        self.send(Method::POST, self.url(["deployments"]), Terms { dry_run: true, ..Terms::default() }, body).await
    }

    /// `GET /api/deployments`
    pub async fn deployments(&self, query: &DeploymentQuery, page: &PageQuery) -> Result<Page<Deployment>> {
        let DeploymentQuery { application, version, client, device, rollout, state, with_absent, sort } = query.clone();
        let query = [
            ("application", application),
            ("version", version),
            ("client", client),
            ("device", device),
            ("rollout", rollout),
            ("state", state.map(|state| state.as_str().to_owned())),
            ("withAbsent", with_absent.then(|| "true".to_owned())),
            ("sort", sort),
            ("limit", page.limit_text()),
            ("after", page.after.clone()),
        ];
        self.get(self.url(["deployments"]), &query).await
    }

    /// `GET /api/deployments/{id}`
    pub async fn deployment(&self, id: &str) -> Result<Deployment> {
        self.get(self.url(["deployments", id]), &[]).await
    }

    /// `POST /api/deployments/{id}/retry`: makes the device retry at once.
    pub async fn retry_deployment(&self, id: &str, body: &RetryDeployment) -> Result<Deployment> {
        self.send(Method::POST, self.url(["deployments", id, "retry"]), Terms::default(), body).await
    }

    /// `POST /api/deployments/{id}/rollback`: back to an earlier revision, as a new one.
    pub async fn rollback_deployment(&self, id: &str, body: &RollbackDeployment) -> Result<Rollout> {
        self.send(Method::POST, self.url(["deployments", id, "rollback"]), Terms::default(), body).await
    }

    /// `POST /api/deployments/{id}/rollback?dryRun=true`
    pub async fn plan_revert(&self, id: &str, body: &RollbackDeployment) -> Result<Plan> {
        let terms = Terms { dry_run: true, ..Terms::default() };
        self.send(Method::POST, self.url(["deployments", id, "rollback"]), terms, body).await
    }

    /// `PATCH /api/deployments/{id}`
    pub async fn update_deployment(&self, id: &str, body: &UpdateDeployment, if_match: Option<i64>) -> Result<Rollout> {
        let terms = Terms { if_match, ..Terms::default() };
        self.send(Method::PATCH, self.url(["deployments", id]), terms, body).await
    }

    /// `PATCH /api/deployments/{id}?dryRun=true`
    pub async fn plan_update_deployment(
        &self,
        id: &str,
        body: &UpdateDeployment,
        if_match: Option<i64>,
    ) -> Result<Plan> {
        let terms = Terms { if_match, dry_run: true, ..Terms::default() };
        self.send(Method::PATCH, self.url(["deployments", id]), terms, body).await
    }

    /// `DELETE /api/deployments/{id}`
    pub async fn remove_deployment(&self, id: &str, reason: Option<&str>, if_match: Option<i64>) -> Result<Rollout> {
        let terms = Terms { if_match, reason, ..Terms::default() };
        self.json(self.request(Method::DELETE, self.url(["deployments", id]), terms)).await
    }

    /// `DELETE /api/deployments/{id}?dryRun=true`
    pub async fn plan_remove_deployment(&self, id: &str, if_match: Option<i64>) -> Result<Plan> {
        let terms = Terms { if_match, dry_run: true, ..Terms::default() };
        self.json(self.request(Method::DELETE, self.url(["deployments", id]), terms)).await
    }

    /// `GET /api/deployments/{id}/revisions`: newest first.
    pub async fn deployment_revisions(&self, id: &str) -> Result<Page<Revision>> {
        self.get(self.url(["deployments", id, "revisions"]), &[]).await
    }

    /// `GET /api/deployments/{id}/status-history`: newest first.
    pub async fn deployment_status_history(&self, id: &str) -> Result<Page<Status>> {
        self.get(self.url(["deployments", id, "status-history"]), &[]).await
    }

    /// `GET /api/deployments/{id}/diff`: `from` and `to` are revisions, `desired` or `reported`.
    pub async fn deployment_diff(&self, id: &str, from: Option<&str>, to: Option<&str>) -> Result<DeploymentDiff> {
        let query = [("from", from.map(str::to_owned)), ("to", to.map(str::to_owned))];
        self.get(self.url(["deployments", id, "diff"]), &query).await
    }

    /// `GET /api/deployments/{id}/explain`
    pub async fn explain_deployment(&self, id: &str) -> Result<Explanation> {
        self.get(self.url(["deployments", id, "explain"]), &[]).await
    }

    /// `GET /api/deployments/{id}/document`: the YAML of this revision (default: the current one), sensitive values
    /// masked.
    pub async fn deployment_document(&self, id: &str, revision: Option<i64>) -> Result<String> {
        let mut request = self.request(Method::GET, self.url(["deployments", id, "document"]), Terms::default());
        if let Some(revision) = revision {
            request = request.query(&[("revision", revision.to_string())]);
        }
        let (_, _, bytes) = self.bytes(request).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
