//! Changes over one or many devices.

use super::{ApiClient, PageQuery, Result, Terms};
use crate::changes::{CallOffChange, CalledOff, CancelChange, Cancelled, Change, CreateChange, Plan, RetryChange};
use crate::page::Page;
use reqwest::Method;

impl ApiClient {
    /// `POST /api/changes`
    pub async fn create_change(&self, body: &CreateChange) -> Result<Change> {
        self.send(Method::POST, self.url(["changes"]), Terms::default(), body).await
    }

    /// `POST /api/changes?dryRun=true`
    pub async fn plan_change(&self, body: &CreateChange) -> Result<Plan> {
        self.send(Method::POST, self.url(["changes"]), Terms { dry_run: true, ..Terms::default() }, body).await
    }

    /// `GET /api/changes`: newest first.
    pub async fn changes(&self, page: &PageQuery) -> Result<Page<Change>> {
        self.get(self.url(["changes"]), &[("limit", page.limit_text()), ("after", page.after.clone())]).await
    }

    /// `GET /api/changes/{id}`
    pub async fn change(&self, id: &str) -> Result<Change> {
        self.get(self.url(["changes", id]), &[]).await
    }
    /// `POST /api/changes/{id}/cancel`: devices that are not told yet stay as they are.
    pub async fn cancel_change(&self, id: &str, body: &CancelChange) -> Result<Cancelled> {
        self.send(Method::POST, self.url(["changes", id, "cancel"]), Terms::default(), body).await
    }

    /// `POST /api/changes/{id}/call-off`: devices that do not call find what they had before instead.
    pub async fn call_off_change(&self, id: &str, body: &CallOffChange) -> Result<CalledOff> {
        self.send(Method::POST, self.url(["changes", id, "call-off"]), Terms::default(), body).await
    }

    /// `POST /api/changes/{id}/retry`: everything of it that has failed once more, as one change.
    pub async fn retry_change(&self, id: &str, body: &RetryChange) -> Result<Change> {
        self.send(Method::POST, self.url(["changes", id, "retry"]), Terms::default(), body).await
    }
}
