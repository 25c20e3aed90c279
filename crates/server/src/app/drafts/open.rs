//! Unfinished drafts.

use super::{Draft, Kind, StoredDraft};
use crate::app::access::Caller;
use crate::app::error::AppResult;
use crate::state::ServerState;
use margrave_core::time::Timestamp;

/// Number of drafts offered to continue, newest first.
const OPEN_MAX: u32 = 5;

/// A draft with the time of its last change.
#[derive(Debug, Clone)]
pub struct Open {
    pub stored: StoredDraft,
    pub at: Timestamp,
}

/// The drafts of the caller, newest first. Drafts are private.
pub async fn open(state: &ServerState, caller: &Caller) -> AppResult<Vec<Open>> {
    let found = state.store.drafts(caller.id, OPEN_MAX).await?;
    let read = |draft: margrave_store::Draft| {
        let body = serde_json::from_str(&draft.body).ok()?;
        Some(Open { stored: StoredDraft { id: draft.id, revision: draft.revision, draft: body }, at: draft.updated_at })
    };
    Ok(found.into_iter().filter_map(read).collect())
}

impl Draft {
    /// The step to continue with.
    pub fn step(&self) -> &'static str {
        let placed = !self.devices.is_empty() || self.selector.is_some();
        match self.kind {
            _ if self.configured => "review",
            Kind::Create if !placed => "version",
            Kind::Upgrade => "version",
            Kind::Remove => "devices",
            Kind::Reconfigure if self.is_by_device() => "devices",
            Kind::Create | Kind::Reconfigure => "configuration",
        }
    }
}
