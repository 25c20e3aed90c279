//! Changes as people look for them: of an application, and whether devices are still at it.

use super::{Position, Told, device, to_wire};
use crate::app::applications::application_id;
use crate::app::error::AppResult;
use crate::app::overview;
use crate::app::paging::{Paging, cursor};
use crate::state::ServerState;
use margrave_api::deployments::Convergence;
use margrave_api::page::Page;

/// Changes read at a time, and looked at for one page when few are wanted.
const PAGE: u32 = 50;
const LOOKED_AT_MAX: usize = 400;
/// Targets counted to find those that are wanted: somebody waits for the page.
const COUNTED_MAX: usize = 10_000;

/// Which changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    pub application: Option<String>,
    /// Whether every device is done with it, or has failed.
    pub over: Option<bool>,
}

/// Newest first, with how far each is; what they answer is left to the page of each. A page may have few or none while there are
/// more: then many were looked at.
pub async fn list_wanted(state: &ServerState, wanted: &Wanted, paging: &Paging) -> AppResult<Page<Told>> {
    let application = wanted.application.as_deref().map(application_id).transpose()?;
    let limit = paging.limit()? as usize;
    let mut before: Option<Position> = paging.after()?;
    let (mut items, mut looked_at, mut counted) = (Vec::new(), 0, 0);
    loop {
        let rows = state.store.changes_page(before.as_ref().map(|position| position.0), PAGE).await?;
        let last = rows.len() < PAGE as usize;
        for change in rows {
            if items.len() == limit || looked_at >= LOOKED_AT_MAX || counted >= COUNTED_MAX {
                let next = before.map(|position| cursor(&position.to_string()));
                return Ok(Page { items, next });
            }
            looked_at += 1;
            before = Some(Position((change.created_at, change.id)));
            if application.as_ref().is_some_and(|wanted| *wanted != change.application) {
                continue;
            }
            let counts = overview::change_counts(state, change.id, change.total).await?;
            if let Some(over) = wanted.over {
                counted += change.total;
                let open = counts.total() - counts.of(Convergence::Failed) - counts.of(Convergence::Converged);
                if over != (change.finished_at.is_some() && open == 0) {
                    continue;
                }
            }
            let mut change = to_wire(&change);
            change.deployments = Some(counts);
            items.push(Told { device: device(state, &change).await?, change });
        }
        if last {
            return Ok(Page { items, next: None });
        }
    }
}
