//! Deployments found by where they are: devices are looked for through their indexes, and what should run on them is listed.

use super::deployments::{Query, all_to_wire};
use super::error::AppResult;
use super::fleet::{self, Search};
use super::paging::Paging;
use crate::state::ServerState;
use margrave_api::deployments as wire;
use margrave_api::page::Page;
use std::collections::HashSet;

/// What of it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What should be there.
    Present,
    /// What is being removed.
    Going,
    /// What was removed.
    Gone,
}

impl Part {
    fn has(self, deployment: &wire::Deployment) -> bool {
        let over = deployment.convergence == wire::Convergence::Converged;
        match deployment.desired {
            wire::Desired::Present => self == Self::Present,
            wire::Desired::Absent => self == if over { Self::Gone } else { Self::Going },
        }
    }
}

/// What is on these devices; a page is so many devices, with all that is on them. Application, version and convergence of the
/// query count.
pub async fn list(
    state: &ServerState,
    search: &Search,
    query: &Query,
    part: Part,
    paging: &Paging,
) -> AppResult<Page<wire::Deployment>> {
    let devices = fleet::keys(state, search, paging).await?;
    let mut clients: Vec<_> = devices.items.iter().map(|key| key.client.clone()).collect();
    clients.dedup();
    let keys: HashSet<(String, String)> =
        devices.items.into_iter().map(|key| (key.client.to_string(), key.device.to_string())).collect();
    let mut views = if clients.is_empty() { Vec::new() } else { state.store.deployments_of(&clients).await? };
    views.retain(|view| {
        let deployment = &view.deployment;
        // What a gateway places by itself is the gateway's.
        let target = deployment.target.to_string();
        let key = (deployment.client.to_string(), target.strip_suffix("/*").unwrap_or(&target).to_owned());
        let is = |wanted: Option<&String>, value: &str| wanted.is_none_or(|wanted| wanted == value);
        keys.contains(&key)
            && is(query.application.as_ref(), deployment.application.as_str())
            && is(query.version.as_ref(), &deployment.version)
    });
    views.sort_by(|one, other| {
        let place = |view: &margrave_store::DeploymentView| {
            (
                view.deployment.client.clone(),
                view.deployment.target.to_string(),
                view.deployment.application.to_string(),
            )
        };
        place(one).cmp(&place(other))
    });
    let mut items = all_to_wire(state, views).await?;
    items.retain(|deployment| {
        part.has(deployment) && query.convergence.is_none_or(|wanted| wanted == deployment.convergence)
    });
    Ok(Page { items, next: devices.next })
}
