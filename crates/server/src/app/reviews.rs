//! Reviews of drafts. A few devices are checked within the request; a fleet is checked in the background, once for each revision of
//! the draft, and the page says so (ADR 31).

use super::background::{AT_ONCE_MAX, BackgroundCache, PAGE_WAITS};
use super::drafts::{self, StoredDraft};
use super::error::{AppError, AppResult};
use super::rollouts::{self, Review};
use crate::state::ServerState;
use margrave_api::problem::FieldProblem;
use margrave_core::time::Timestamp;
use std::collections::HashSet;
use std::sync::Arc;
use uuid::Uuid;

/// One review for each distinct configuration.
#[derive(Debug, Clone)]
pub struct Reviewed {
    pub reviews: Vec<Review>,
    pub at: Timestamp,
}

/// Why the draft cannot be submitted.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub detail: String,
    pub errors: Vec<FieldProblem>,
}

pub type Outcome = Result<Reviewed, Refusal>;

#[derive(Debug)]
pub enum ReviewProgress {
    Done(Arc<Outcome>),
    /// Still being computed, for at most this many devices.
    InProgress(u64),
}

/// By draft and its revision.
pub type Reviews = BackgroundCache<(Uuid, i64), Arc<Outcome>>;

/// The review, if it is available without a long wait.
pub async fn get_or_start(state: &ServerState, stored: &StoredDraft) -> AppResult<ReviewProgress> {
    let target_count = drafts::target_count(state, &stored.draft).await?;
    if target_count <= AT_ONCE_MAX {
        return match compute_review(state, stored).await {
            Ok(reviewed) => Ok(ReviewProgress::Done(Arc::new(Ok(reviewed)))),
            Err(AppError::Refused { detail, errors, .. }) => {
                Ok(ReviewProgress::Done(Arc::new(Err(Refusal { detail, errors }))))
            }
            Err(error) => Err(error),
        };
    }
    let (own, requested) = (state.clone(), stored.clone());
    let work = |_| async move { Arc::new(outcome(&own, &requested).await) };
    let progress = state.reviews.get_or_start((stored.id, stored.revision), PAGE_WAITS, work).await;
    Ok(progress.value.map_or(ReviewProgress::InProgress(target_count), ReviewProgress::Done))
}

async fn outcome(state: &ServerState, stored: &StoredDraft) -> Outcome {
    match compute_review(state, stored).await {
        Ok(reviewed) => Ok(reviewed),
        Err(AppError::Refused { detail, errors, .. }) => Err(Refusal { detail, errors }),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot compute the review of a draft");
            let detail = "the review could not be computed; see the server log".to_owned();
            Err(Refusal { detail, errors: Vec::new() })
        }
    }
}

async fn compute_review(state: &ServerState, stored: &StoredDraft) -> AppResult<Reviewed> {
    let (mut reviews, mut except) = (Vec::new(), HashSet::new());
    let at = state.now();
    for request in drafts::requests(&stored.draft)? {
        match rollouts::review(state, &request, &except).await {
            Ok(review) => reviews.push(review),
            Err(error) if !reviews.is_empty() && drafts::is_nothing_left(&error) => {}
            Err(error) => return Err(error),
        }
        // Devices with overrides have a rollout of their own.
        except.extend(request.scope.devices.unwrap_or_default());
    }
    Ok(Reviewed { reviews, at })
}
