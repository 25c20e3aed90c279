//! Rollouts to one or many devices.

use super::{ApiClient, PageQuery, Result, Terms};
use crate::page::Page;
use crate::rollouts::{
    CancelRollout, Cancelled, CreateRollout, Plan, RetryRollout, Rollout, RolloutWithdrawn, WithdrawRollout,
};
use reqwest::Method;

impl ApiClient {
    /// `POST /api/rollouts`
    pub async fn create_rollout(&self, body: &CreateRollout) -> Result<Rollout> {
        self.send(Method::POST, self.url(["rollouts"]), Terms::default(), body).await
    }

    /// `POST /api/rollouts?dryRun=true`
    pub async fn plan_rollout(&self, body: &CreateRollout) -> Result<Plan> {
        self.send(Method::POST, self.url(["rollouts"]), Terms { dry_run: true, ..Terms::default() }, body).await
    }

    /// `GET /api/rollouts`: newest first.
    pub async fn rollouts(&self, page: &PageQuery) -> Result<Page<Rollout>> {
        self.get(self.url(["rollouts"]), &[("limit", page.limit_text()), ("after", page.after.clone())]).await
    }

    /// `GET /api/rollouts/{id}`
    pub async fn rollout(&self, id: &str) -> Result<Rollout> {
        self.get(self.url(["rollouts", id]), &[]).await
    }
    /// `POST /api/rollouts/{id}/cancel`: devices it was not published to yet stay unchanged.
    pub async fn cancel_rollout(&self, id: &str, body: &CancelRollout) -> Result<Cancelled> {
        self.send(Method::POST, self.url(["rollouts", id, "cancel"]), Terms::default(), body).await
    }

    /// `POST /api/rollouts/{id}/withdraw`: offline devices get their previous revision instead.
    pub async fn withdraw_rollout(&self, id: &str, body: &WithdrawRollout) -> Result<RolloutWithdrawn> {
        self.send(Method::POST, self.url(["rollouts", id, "withdraw"]), Terms::default(), body).await
    }

    /// `POST /api/rollouts/{id}/retry`: retries everything that has failed, as one rollout.
    pub async fn retry_rollout(&self, id: &str, body: &RetryRollout) -> Result<Rollout> {
        self.send(Method::POST, self.url(["rollouts", id, "retry"]), Terms::default(), body).await
    }
}
