//! Jobs and single pods, which run once. They are immutable, and a failed one does not run again when it is applied
//! again; it must be replaced.

use super::apply::Keep;
use super::client::{ApiError, ApplyOptions};
use super::cluster::{Cluster, Instance, from_api};
use super::object::ObjectRef;
use super::readiness::{Health, health};
use super::set::Placed;
use crate::machine::io::WorkFailure;
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// A replaced object is deleted within a moment, its pods in the background.
const DELETE_MAX: Duration = Duration::from_secs(30);
const POLL_PERIOD: Duration = Duration::from_millis(200);

/// Messages of the API about immutable fields.
const FIXED: [&str; 2] = ["field is immutable", "updates may not change fields"];

pub(super) fn runs_once(kind: &str) -> bool {
    matches!(kind, "Job" | "Pod")
}

/// Whether the cluster rejects the change because of immutable fields. Invalid objects have other messages.
pub(super) fn is_replaced(placed: &Placed, error: &ApiError) -> bool {
    let fixed = |message: &str| FIXED.iter().any(|words| message.contains(words));
    runs_once(&placed.reference.kind)
        && matches!(error, ApiError::Refused { status: 422, message, .. } if fixed(message))
}

/// Whether it has finished, with success or failure.
pub(super) fn is_over(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut ends = conditions.filter(|condition| condition["type"] == "Complete" || condition["type"] == "Failed");
    object["kind"] != "Job" || ends.any(|condition| condition["status"] == "True")
}

impl Cluster {
    /// Deletes failed and immutable objects, so that they can be created again; returns those that had failed. Finished
    /// ones stay.
    pub(super) async fn delete_replaced(
        &self,
        set: &[Placed],
        instance: &Instance,
    ) -> Result<Vec<ObjectRef>, WorkFailure> {
        let mut again = Vec::new();
        for placed in set.iter().filter(|placed| runs_once(&placed.reference.kind)) {
            let path = placed.path();
            let Some(live) = self.client.find(&path).await.map_err(from_api)? else { continue };
            let failed = matches!(health(&live), Health::Failed(_));
            let options = ApplyOptions { force: true, dry_run: true };
            let replaced = match self.client.apply(&path, &placed.object, options).await {
                Err(error @ ApiError::Unreachable(_)) => return Err(from_api(error)),
                Err(error) => is_replaced(placed, &error),
                Ok(_) => false,
            };
            if failed && !replaced {
                again.push(placed.reference.clone());
            }
            if failed || replaced {
                self.delete_own(&placed.reference, instance, Keep::Nothing).await.map_err(from_api)?;
                self.wait_until_deleted(placed).await.map_err(from_api)?;
            }
        }
        Ok(again)
    }

    async fn wait_until_deleted(&self, placed: &Placed) -> Result<(), ApiError> {
        let started = Instant::now();
        while self.client.find(&placed.path()).await?.is_some() {
            if started.elapsed() > DELETE_MAX {
                let text = format!("{} is not deleted after {} s", placed.reference, DELETE_MAX.as_secs());
                return Err(ApiError::Failed(text));
            }
            tokio::time::sleep(POLL_PERIOD).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_is_finished_by_its_conditions() {
        let job = |conditions: Value| json!({ "kind": "Job", "status": { "conditions": conditions } });
        assert!(!is_over(&job(json!([]))));
        assert!(!is_over(&job(json!([{ "type": "Suspended", "status": "True" }]))));
        assert!(is_over(&job(json!([{ "type": "Complete", "status": "True" }]))));
        assert!(is_over(&job(json!([{ "type": "Failed", "status": "True" }]))));
    }
}
