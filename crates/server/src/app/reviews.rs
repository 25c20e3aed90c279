//! What a draft comes to. A few devices are looked at while the page is made; a fleet is looked at beside the request, once for
//! each state of a draft, and the page says that it is being done (ADR 31).

use super::changes::{self, Review};
use super::drafts::{self, Kept};
use super::error::{AppError, AppResult};
use crate::state::ServerState;
use margrave_api::problem::FieldProblem;
use margrave_core::time::Timestamp;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};
use uuid::Uuid;

/// Devices looked at while somebody waits.
const AT_ONCE_MAX: u64 = 200;
/// How long a page waits for what is being worked out before it says so.
const WAIT: Duration = Duration::from_millis(80);
/// After this time the fleet may look different, and it is worked out anew for whoever asks.
const FRESH: Duration = Duration::from_mins(2);
/// Drafts whose reviews are kept.
const KEPT_MAX: usize = 32;

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

type Outcome = Result<Reviewed, Refusal>;

#[derive(Debug)]
pub enum Look {
    Done(Arc<Outcome>),
    /// Being worked out, for so many devices at most.
    UnderWay(u64),
}

/// What is being worked out or was not long ago, by draft.
#[derive(Debug)]
pub struct Reviews {
    known: Mutex<HashMap<Uuid, Known>>,
    /// A fleet is large enough to be looked at one at a time.
    turn: Semaphore,
}

#[derive(Debug, Clone)]
struct Known {
    revision: i64,
    begun: Instant,
    outcome: watch::Receiver<Option<Arc<Outcome>>>,
}

impl Default for Reviews {
    fn default() -> Self {
        Self { known: Mutex::default(), turn: Semaphore::new(1) }
    }
}

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
    let mut outcome = begun(state, kept);
    let done = tokio::time::timeout(WAIT, outcome.wait_for(Option::is_some)).await;
    let done = done.ok().and_then(Result::ok).and_then(|outcome| outcome.clone());
    Ok(done.map_or(Look::UnderWay(reach), Look::Done))
}

/// What is being worked out for this state of the draft; begun unless somebody has.
fn begun(state: &ServerState, kept: &Kept) -> watch::Receiver<Option<Arc<Outcome>>> {
    let mut known = state.reviews.known.lock();
    if let Some(known) = known.get(&kept.id)
        && known.revision == kept.revision
        && (known.begun.elapsed() < FRESH || known.outcome.borrow().is_none())
        // Whoever worked on it is gone without a result only when the server stops or the work panicked.
        && (known.outcome.has_changed().is_ok() || known.outcome.borrow().is_some())
    {
        return known.outcome.clone();
    }
    if known.len() >= KEPT_MAX
        && let Some(oldest) = known.iter().min_by_key(|(_, known)| known.begun).map(|(id, _)| *id)
    {
        known.remove(&oldest);
    }
    let (sender, outcome) = watch::channel(None);
    known.insert(kept.id, Known { revision: kept.revision, begun: Instant::now(), outcome: outcome.clone() });
    let (state, kept) = (state.clone(), kept.clone());
    tokio::spawn(async move {
        let Ok(_turn) = state.reviews.turn.acquire().await else { return };
        let outcome = match work_out(&state, &kept).await {
            Ok(reviewed) => Ok(reviewed),
            Err(AppError::Refused { detail, errors, .. }) => Err(Refusal { detail, errors }),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot work out what a draft comes to");
                let detail = "it could not be worked out; the log of the server says why".to_owned();
                Err(Refusal { detail, errors: Vec::new() })
            }
        };
        sender.send_replace(Some(Arc::new(outcome)));
    });
    outcome
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
