//! What a draft comes to. A few devices are looked at while the page is made; a fleet is looked at beside the request, once for
//! each state of a draft, and the page says that it is being done (ADR 31).

use super::beside::{AT_ONCE_MAX, Beside, PAGE_WAITS};
use super::changes::{self, Review};
use super::drafts::{self, Kept};
use super::error::{AppError, AppResult};
use crate::state::ServerState;
use margrave_api::problem::FieldProblem;
use margrave_core::time::Timestamp;
use std::collections::HashSet;
use std::sync::Arc;
use uuid::Uuid;

/// One review for each set of answers.
#[derive(Debug, Clone)]
pub struct Reviewed {
    pub reviews: Vec<Review>,
    pub at: Timestamp,
}

/// Why it cannot be done as it is.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub detail: String,
    pub errors: Vec<FieldProblem>,
}

pub type Outcome = Result<Reviewed, Refusal>;

#[derive(Debug)]
pub enum Look {
    Done(Arc<Outcome>),
    /// Being worked out, for so many devices at most.
    UnderWay(u64),
}

/// By draft and its revision.
pub type Reviews = Beside<(Uuid, i64), Arc<Outcome>>;

/// As far as it can be told without waiting long.
pub async fn look(state: &ServerState, kept: &Kept) -> AppResult<Look> {
    let reach = drafts::reach(state, &kept.draft).await?;
    if reach <= AT_ONCE_MAX {
        return match work_out(state, kept).await {
            Ok(reviewed) => Ok(Look::Done(Arc::new(Ok(reviewed)))),
            Err(AppError::Refused { detail, errors, .. }) => Ok(Look::Done(Arc::new(Err(Refusal { detail, errors })))),
            Err(error) => Err(error),
        };
    }
    let (own, wanted) = (state.clone(), kept.clone());
    let work = |_| async move { Arc::new(outcome(&own, &wanted).await) };
    let sight = state.reviews.look((kept.id, kept.revision), PAGE_WAITS, work).await;
    Ok(sight.value.map_or(Look::UnderWay(reach), Look::Done))
}

async fn outcome(state: &ServerState, kept: &Kept) -> Outcome {
    match work_out(state, kept).await {
        Ok(reviewed) => Ok(reviewed),
        Err(AppError::Refused { detail, errors, .. }) => Err(Refusal { detail, errors }),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot work out what a draft comes to");
            let detail = "it could not be worked out; the log of the server says why".to_owned();
            Err(Refusal { detail, errors: Vec::new() })
        }
    }
}

async fn work_out(state: &ServerState, kept: &Kept) -> AppResult<Reviewed> {
    let (mut reviews, mut except) = (Vec::new(), HashSet::new());
    let at = state.now();
    for request in drafts::requests(&kept.draft)? {
        match changes::review(state, &request, &except).await {
            Ok(review) => reviews.push(review),
            Err(error) if !reviews.is_empty() && drafts::is_nothing_left(&error) => {}
            Err(error) => return Err(error),
        }
        // Those with answers of their own have a change of their own.
        except.extend(request.scope.devices.unwrap_or_default());
    }
    Ok(Reviewed { reviews, at })
}
