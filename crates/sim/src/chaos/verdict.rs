//! Looks up every promise in the ledger, and what the fleet came to.

use super::agents::Agent;
use super::ledger::Ledger;
use super::site::Site;
use super::wait;
use anyhow::Context as _;
use margo::{DeploymentId, Digest};
use margrave_api::client::{ApiClient, DeploymentQuery, PageQuery};
use margrave_api::deployments::{Convergence, Deployment};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// After the last kill: backoffs run out, publishing resumes, agents apply what is left.
const CONVERGE_WITHIN: Duration = Duration::from_mins(2);

/// Every 2xx is still true.
pub async fn promises(site: &Site, api: &ApiClient, ledger: &Ledger) -> anyhow::Result<()> {
    anyhow::ensure!(ledger.server_errors.is_empty(), "the server failed by itself: {:?}", ledger.server_errors);
    changes(api, ledger).await?;
    for (client, device, label, value) in &ledger.labels {
        let found = api.device(client, device).await?;
        let kept = found.operator_labels.get(label);
        anyhow::ensure!(kept == Some(value), "label {label} of {client}/{device} is {kept:?}, {value} was promised");
    }
    for (id, secret) in &ledger.tokens {
        let who = site.api_with(secret)?.whoami().await.with_context(|| format!("token {id} was promised"))?;
        anyhow::ensure!(!who.actor.is_empty(), "token {id} belongs to nobody");
    }
    for (name, selector) in &ledger.groups {
        let group = api.group(name).await.with_context(|| format!("group {name} was promised"))?;
        anyhow::ensure!(group.selector == *selector, "group {name} selects `{}`", group.selector);
    }
    reports(api, ledger).await?;
    let audit = api.verify_audit().await?;
    anyhow::ensure!(audit.intact, "the audit chain breaks at {:?}", audit.broken_at);
    anyhow::ensure!(audit.records as usize >= ledger.changes.len(), "the audit has only {} records", audit.records);
    Ok(())
}

/// Every acknowledged change was carried out exactly once, or says why not.
async fn changes(api: &ApiClient, ledger: &Ledger) -> anyhow::Result<()> {
    for (id, deployment) in &ledger.changes {
        let change = wait::until("a change being carried out", CONVERGE_WITHIN, async || {
            let change = api.change(id).await.with_context(|| format!("change {id} was promised"))?;
            Ok(if change.finished { Ok(change) } else { Err(format!("{} of {}", change.published, change.total)) })
        })
        .await?;
        let skipped = change.skipped.len() as u64;
        anyhow::ensure!(
            change.published + skipped == change.total || change.published == change.total,
            "change {id}: {} published, {skipped} skipped of {}",
            change.published,
            change.total
        );
        if let Some(deployment) = deployment {
            let revisions = api.deployment_revisions(deployment).await?.items;
            let times = revisions.iter().filter(|revision| revision.change == *id).count() as u64;
            anyhow::ensure!(times + skipped == 1, "change {id} made {times} revisions of {deployment}");
        }
    }
    Ok(())
}

async fn reports(api: &ApiClient, ledger: &Ledger) -> anyhow::Result<()> {
    for (client, series) in &ledger.capabilities {
        let device = api.device(client, client).await?;
        let found = device.device_labels.get("kill.example/report").and_then(serde_json::Value::as_u64);
        anyhow::ensure!(series.allows(found), "capabilities of {client}: {found:?} is there, {series:?}");
    }
    for (id, series) in &ledger.statuses {
        let deployment = api.deployment(id).await.with_context(|| format!("deployment {id} was reported on"))?;
        let message = deployment.status.and_then(|status| status.error).map(|error| error.message);
        let found = message.and_then(|message| message.parse().ok());
        anyhow::ensure!(series.allows(found), "status of {id}: {found:?} is there, {series:?}");
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

/// The server says that everything is as wished.
pub async fn converged(api: &ApiClient) -> anyhow::Result<()> {
    wait::until("the fleet converging", CONVERGE_WITHIN, async || {
        let summary = api.summary().await?;
        let open: u64 =
            summary.deployments.0.iter().filter(|(how, _)| **how != Convergence::Converged).map(|(_, n)| n).sum();
        if open == 0 && summary.changes_unfinished == 0 {
            return Ok(Ok(()));
        }
        let stuck = all_deployments(api).await?.into_iter().find(|one| one.convergence != Convergence::Converged);
        let stuck = stuck.map(|one| format!("{} on {}: {}", one.id, one.client, one.explanation));
        Ok(Err(format!("{:?}, {} changes unfinished, {stuck:?}", summary.deployments.0, summary.changes_unfinished)))
    })
    .await
}

/// What each agent's runtime holds is what the server wants there: nothing missing, nothing left behind.
pub async fn no_orphans(api: &ApiClient, agents: &[Agent]) -> anyhow::Result<()> {
    let mut wanted: BTreeMap<String, BTreeMap<DeploymentId, Digest>> = BTreeMap::new();
    for deployment in all_deployments(api).await? {
        let entry = wanted.entry(deployment.client).or_default();
        entry.insert(deployment.id.parse()?, deployment.digest.parse()?);
    }
    for agent in agents {
        let wanted = wanted.remove(&agent.client).unwrap_or_default();
        let runs = wait::until("an agent removing what is left over", CONVERGE_WITHIN, async || {
            let world = agent.world()?;
            let ids: BTreeSet<_> = world.deployments.keys().copied().collect();
            let same = ids == wanted.keys().copied().collect();
            Ok(if same { Ok(world) } else { Err(format!("{} runs {ids:?}", agent.client)) })
        })
        .await?;
        for (id, placed) in runs.deployments {
            let whole = placed.components.values().all(|one| one.complete && wanted.get(&id) == Some(&one.digest));
            anyhow::ensure!(whole, "{}: {id} does not run as the server wants it", agent.client);
        }
    }
    Ok(())
}
