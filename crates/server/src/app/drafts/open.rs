//! Drafts that somebody began and did not finish.

use super::{Draft, Kept, Kind};
use crate::app::access::Caller;
use crate::app::error::AppResult;
use crate::state::ServerState;
use margrave_core::time::Timestamp;

/// Drafts offered to be gone on with, the newest.
const OPEN_MAX: u32 = 5;

/// A draft with when it was last touched.
#[derive(Debug, Clone)]
pub struct Open {
    pub kept: Kept,
    pub at: Timestamp,
}

/// What this person has begun, newest first. Nobody sees another's.
pub async fn open(state: &ServerState, caller: &Caller) -> AppResult<Vec<Open>> {
    let found = state.store.drafts(caller.id, OPEN_MAX).await?;
    let read = |draft: margrave_store::Draft| {
        let body = serde_json::from_str(&draft.body).ok()?;
        Some(Open { kept: Kept { id: draft.id, revision: draft.revision, draft: body }, at: draft.updated_at })
    };
    Ok(found.into_iter().filter_map(read).collect())
}

impl Draft {
    /// The step to go on with.
    pub fn step(&self) -> &'static str {
        let placed = !self.devices.is_empty() || self.selector.is_some();
        match self.kind {
            _ if self.answered => "review",
            Kind::Create if !placed => "version",
            Kind::Upgrade => "version",
            Kind::Remove => "devices",
            Kind::Reconfigure if self.is_wide() => "devices",
            Kind::Create | Kind::Reconfigure => "answers",
        }
    }
}
