//! Deployments by location: finds devices through their indexes and lists their deployments.

use super::deployments::{Query, all_to_wire};
use super::error::AppResult;
use super::fleet::{self, Search};
use super::paging::Paging;
use crate::state::ServerState;
use margrave_api::deployments as wire;
use margrave_api::page::Page;
use std::collections::HashSet;

/// Which deployments to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Desired deployments.
    Present,
    /// Deployments being removed.
    Going,
    /// Removed deployments.
    Gone,
}

impl Part {
    fn has(self, deployment: &wire::Deployment) -> bool {
        let over = deployment.state == wire::DeploymentState::Removed;
        match deployment.desired {
            wire::Desired::Present => self == Self::Present,
            wire::Desired::Absent => self == if over { Self::Gone } else { Self::Going },
        }
    }
}

/// Deployments on these devices; a page is a number of devices with all their deployments. Application, version and
/// state of the query apply.
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
        // A deployment placed by a gateway counts for the gateway.
        let target = deployment.target.to_string();
        let key = (deployment.client.to_string(), target.strip_suffix("/*").unwrap_or(&target).to_owned());
        let is = |requested: Option<&String>, value: &str| requested.is_none_or(|requested| requested == value);
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
    items
        .retain(|deployment| part.has(deployment) && query.state.is_none_or(|requested| requested == deployment.state));
    Ok(Page { items, next: devices.next })
}
