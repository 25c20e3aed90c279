//! Verifies everything in the ledger and the final state of the fleet.

use super::agents::Agent;
use super::ledger::Ledger;
use super::site::Site;
use super::wait;
use anyhow::Context as _;
use margo::{DeploymentId, Digest};
use margrave_api::client::{ApiClient, DeploymentQuery, PageQuery};
use margrave_api::deployments::Deployment;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time after the last kill for backoffs, publishing and the remaining work of agents.
const CONVERGE_WITHIN: Duration = Duration::from_mins(2);

/// Verifies that everything acknowledged with 2xx is still stored.
pub async fn promises(site: &Site, api: &ApiClient, ledger: &Ledger) -> anyhow::Result<()> {
    anyhow::ensure!(ledger.server_errors.is_empty(), "server errors: {:?}", ledger.server_errors);
    rollouts(api, ledger).await?;
    for (client, device, label, value) in &ledger.labels {
        let found = api.device(client, device).await?;
        let kept = found.operator_labels.get(label);
        anyhow::ensure!(
            kept == Some(value),
            "label {label} of {client}/{device} is {kept:?}, but {value} was acknowledged"
        );
    }
    for (id, secret) in &ledger.tokens {
        let who = site.api_with(secret)?.whoami().await.with_context(|| format!("token {id} was acknowledged"))?;
        anyhow::ensure!(!who.actor.is_empty(), "token {id} has no owner");
    }
    for (name, selector) in &ledger.groups {
        let group = api.group(name).await.with_context(|| format!("group {name} was acknowledged"))?;
        anyhow::ensure!(group.selector == *selector, "group {name} selects `{}`", group.selector);
    }
    reports(api, ledger).await?;
    let audit = api.verify_audit().await?;
    anyhow::ensure!(audit.intact, "the audit chain is broken at {:?}", audit.broken_at);
    anyhow::ensure!(audit.records as usize >= ledger.rollouts.len(), "the audit has only {} records", audit.records);
    Ok(())
}

/// Verifies that every acknowledged rollout completed exactly once or records why it was skipped.
async fn rollouts(api: &ApiClient, ledger: &Ledger) -> anyhow::Result<()> {
    for (id, deployment) in &ledger.rollouts {
        let rollout = wait::until("completion of a rollout", CONVERGE_WITHIN, async || {
            let rollout = api.rollout(id).await.with_context(|| format!("rollout {id} was acknowledged"))?;
            Ok(if rollout.finished { Ok(rollout) } else { Err(format!("{} of {}", rollout.published, rollout.total)) })
        })
        .await?;
        let skipped = rollout.skipped.len() as u64;
        anyhow::ensure!(
            rollout.published + skipped == rollout.total || rollout.published == rollout.total,
            "rollout {id}: {} published, {skipped} skipped of {}",
            rollout.published,
            rollout.total
        );
        if let Some(deployment) = deployment {
            let revisions = api.deployment_revisions(deployment).await?.items;
            let times = revisions.iter().filter(|revision| revision.rollout == *id).count() as u64;
            anyhow::ensure!(times + skipped == 1, "rollout {id} created {times} revisions of {deployment}");
        }
    }
    Ok(())
}

async fn reports(api: &ApiClient, ledger: &Ledger) -> anyhow::Result<()> {
    for (client, series) in &ledger.capabilities {
        let device = api.device(client, client).await?;
        let found = device.device_labels.get("kill.example/report").and_then(serde_json::Value::as_u64);
        anyhow::ensure!(series.allows(found), "capabilities of {client}: found {found:?}, expected {series:?}");
    }
    for (id, series) in &ledger.statuses {
        let deployment = api.deployment(id).await.with_context(|| format!("deployment {id} was reported on"))?;
        let message = deployment.reported.and_then(|status| status.error).map(|error| error.message);
        let found = message.and_then(|message| message.parse().ok());
        anyhow::ensure!(series.allows(found), "status of {id}: found {found:?}, expected {series:?}");
    }
    Ok(())
}

pub async fn all_deployments(api: &ApiClient) -> anyhow::Result<Vec<Deployment>> {
    let mut found = Vec::new();
    let mut page = PageQuery { limit: Some(1000), after: None };
    loop {
        let answer = api.deployments(&DeploymentQuery::default(), &page).await?;
        found.extend(answer.items);
        match answer.next {
            Some(next) => page.after = Some(next),
            None => return Ok(found),
        }
    }
}

/// Waits until the server reports that everything is up to date.
pub async fn converged(api: &ApiClient) -> anyhow::Result<()> {
    wait::until("convergence of the fleet", CONVERGE_WITHIN, async || {
        let summary = api.summary().await?;
        let open: u64 = summary.deployments.0.iter().filter(|(how, _)| !how.is_done()).map(|(_, n)| n).sum();
        if open == 0 && summary.rollouts_unfinished == 0 {
            return Ok(Ok(()));
        }
        let stuck = all_deployments(api).await?.into_iter().find(|one| !one.state.is_done());
        let stuck = stuck.map(|one| format!("{} on {}: {}", one.id, one.client, one.explanation));
        Ok(Err(format!("{:?}, {} rollouts unfinished, {stuck:?}", summary.deployments.0, summary.rollouts_unfinished)))
    })
    .await
}

/// Verifies that each runtime has exactly the desired workloads: none missing, none left over.
pub async fn no_orphans(api: &ApiClient, agents: &[Agent]) -> anyhow::Result<()> {
    let mut desired: BTreeMap<String, BTreeMap<DeploymentId, Digest>> = BTreeMap::new();
    for deployment in all_deployments(api).await? {
        let entry = desired.entry(deployment.client).or_default();
        entry.insert(deployment.id.parse()?, deployment.digest.parse()?);
    }
    for agent in agents {
        let desired = desired.remove(&agent.client).unwrap_or_default();
        let runs = wait::until("removal of leftover workloads by an agent", CONVERGE_WITHIN, async || {
            let world = agent.world()?;
            let ids: BTreeSet<_> = world.deployments.keys().copied().collect();
            let same = ids == desired.keys().copied().collect();
            Ok(if same { Ok(world) } else { Err(format!("{} runs {ids:?}", agent.client)) })
        })
        .await?;
        for (id, placed) in runs.deployments {
            let whole = placed.components.values().all(|one| one.complete && desired.get(&id) == Some(&one.digest));
            anyhow::ensure!(whole, "{}: {id} does not match the desired state", agent.client);
        }
    }
    Ok(())
}
