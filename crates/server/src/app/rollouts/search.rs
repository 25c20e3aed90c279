//! Rollout search: by application, and by progress.

use super::{RolloutWithDevice, device, to_wire};
use crate::app::applications::application_id;
use crate::app::error::AppResult;
use crate::app::overview;
use crate::app::paging::{Paging, cursor};
use crate::app::sorting::{self, Position};
use crate::state::ServerState;
use margrave_api::deployments::DeploymentState;
use margrave_api::page::Page;
use margrave_core::sort::{RolloutColumn, Sort};
use uuid::Uuid;

/// Rollouts read at a time, and scanned for one page when few match.
const PAGE: u32 = 50;
const LOOKED_AT_MAX: usize = 400;
/// Targets counted to find matching rollouts: a page waits for the result.
const COUNTED_MAX: usize = 10_000;

/// The order unless an operator chooses another one.
pub const NEWEST_FIRST: Sort<RolloutColumn> = Sort { column: RolloutColumn::Started, descending: true };

/// Filter for rollouts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolloutFilter {
    pub application: Option<String>,
    /// Whether every device is up to date or has failed.
    pub over: Option<bool>,
}

/// With their progress; values are shown on the page of each rollout only. A page may have few or no
/// rollouts while there are more: then many were scanned.
pub async fn list_filtered_rollouts(
    state: &ServerState,
    requested: &RolloutFilter,
    sort: Sort<RolloutColumn>,
    paging: &Paging,
) -> AppResult<Page<RolloutWithDevice>> {
    let application = requested.application.as_deref().map(application_id).transpose()?;
    let limit = paging.limit()? as usize;
    let mut last = sorting::after::<_, Uuid>(sort, paging)?;
    let (mut items, mut looked_at, mut counted) = (Vec::new(), 0, 0);
    loop {
        let rows = state.store.rollouts_sorted(sort, last.as_ref(), PAGE).await?;
        let is_last = rows.len() < PAGE as usize;
        for (value, rollout) in rows {
            if items.len() == limit || looked_at >= LOOKED_AT_MAX || counted >= COUNTED_MAX {
                let next = last.map(|(value, id)| cursor(&Position(value, id).to_string()));
                return Ok(Page { items, next });
            }
            looked_at += 1;
            last = Some((value, rollout.id));
            if application.as_ref().is_some_and(|requested| *requested != rollout.application) {
                continue;
            }
            let counts = overview::rollout_counts(state, rollout.id, rollout.total).await?;
            if let Some(over) = requested.over {
                counted += rollout.total;
                let open = counts.total() - counts.done() - counts.of(DeploymentState::Failed);
                if over != (rollout.finished_at.is_some() && open == 0) {
                    continue;
                }
            }
            let rollout = to_wire(&rollout, Some(&counts));
            items.push(RolloutWithDevice { device: device(state, &rollout).await?, rollout });
        }
        if is_last {
            return Ok(Page { items, next: None });
        }
    }
}
