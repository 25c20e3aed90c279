//! What failed of a change, tried again as one.

use super::{Request, submit};
use crate::app::access::Caller;
use crate::app::error::{AppError, AppResult, Code};
use crate::state::ServerState;
use margrave_api::changes as wire;
use margrave_core::convergence::Convergence;
use margrave_core::model::{ChangeKind, Deployment};
use margrave_core::policy::Wish;
use margrave_store::DeploymentFilter;
use uuid::Uuid;

/// Deployments read at a time.
const PAGE: u32 = 100;
/// Deployments tried again at once; as many as may be named in a change.
pub(super) const AGAIN_MAX: usize = 10_000;

/// Everything of a change that has failed and is to run, once more under a new revision: one change over all of them. A device
/// that tries by itself takes that up at once, and so does one that has stopped or gone back.
pub async fn again(state: &ServerState, caller: &Caller, id: &str, reason: Option<String>) -> AppResult<wire::Change> {
    let failed = of_change(state, id, Some(Convergence::Failed), AGAIN_MAX).await?;
    let Some(first) = failed.first() else {
        return Err(AppError::refused(Code::Unchanged, "nothing of it has failed, so there is nothing to try again"));
    };
    let attempt = failed.iter().map(|deployment| deployment.policy.attempt).max().unwrap_or_default();
    let request = Request {
        kind: ChangeKind::Reconfigure,
        application: first.application.clone(),
        version: None,
        profile: None,
        scope: wire::Scope {
            deployments: Some(failed.iter().map(|deployment| deployment.id.to_string()).collect()),
            ..wire::Scope::default()
        },
        answers: indexmap::IndexMap::new(),
        // One number for all: it only has to be another than each had.
        policy: Wish { attempt: Some(attempt.saturating_add(1)), ..Wish::default() },
        skip_unfit: true,
        movers: false,
        called_off: None,
    };
    submit(state, caller, request, reason).await
}

/// Deployments a change was the last to touch and that are to run; refused when they are more than `max`.
pub async fn touched(state: &ServerState, id: &str, max: usize) -> AppResult<Vec<String>> {
    let all = of_change(state, id, None, max).await?;
    Ok(all.into_iter().map(|deployment| deployment.id.to_string()).collect())
}

/// Deployments a change was the last to touch and that are to run, or those of them in one state.
pub(super) async fn of_change(
    state: &ServerState,
    id: &str,
    convergence: Option<Convergence>,
    max: usize,
) -> AppResult<Vec<Deployment>> {
    let missing = || AppError::not_found(format_args!("change `{id}`"));
    let uuid = Uuid::try_parse(id).map_err(|_| missing())?;
    state.store.change_get(uuid).await?.ok_or_else(missing)?;
    let filter = DeploymentFilter { change: Some(uuid), convergence, ..DeploymentFilter::default() };
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = state.store.deployments_page(&filter, state.silent_since(), after, PAGE).await?;
        let last = page.len() < PAGE as usize;
        after = page.last().map(|view| view.deployment.id);
        found.extend(page.into_iter().map(|view| view.deployment));
        if found.len() > max {
            let detail = format!("it is about more than {max} devices; choose them on the page of the application");
            return Err(AppError::refused(Code::Invalid, detail));
        }
        if last {
            return Ok(found);
        }
    }
}
