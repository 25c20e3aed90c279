//! Creates and decommissions clients and identities for virtual devices through the operator API, many at once.

use super::Options;
use crate::chaos::wait;
use anyhow::Context as _;
use indexmap::IndexMap;
use margrave_agent::identity::Identity;
use margrave_api::client::{ApiClient, ClientError, DeploymentQuery, PageQuery};
use margrave_api::clients::{ClientState, CreateClient, IssueSvid};
use margrave_api::page::LIMIT_MAX;
use margrave_api::policies::PolicyPatch;
use margrave_api::rollouts::{CreateRollout, RolloutKind, Scope};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::task::JoinSet;

/// Concurrent calls: enough to fill the server's group commit, few enough to leave room for others.
const AT_ONCE: usize = 32;
/// Number of attempts and delay while the server is overloaded.
const TRIES: u32 = 8;
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Enough to publish a removal for the largest fleet.
const REMOVED_WITHIN: Duration = Duration::from_mins(10);
const REASON: &str = "simulated device";

/// Creates an identity for every device and passes each on as soon as it is ready.
pub(super) async fn make(
    api: &ApiClient,
    options: &Options,
    mut made: impl FnMut(usize, Identity) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut in_progress: JoinSet<anyhow::Result<(usize, Identity)>> = JoinSet::new();
    let mut next = 0;
    loop {
        while next < options.devices && in_progress.len() < AT_ONCE {
            let (api, id, index) = (api.clone(), options.client(next), next);
            in_progress.spawn(async move {
                let identity = one(&api, &id).await.with_context(|| format!("create an identity for `{id}`"))?;
                Ok((index, identity))
            });
            next += 1;
        }
        match in_progress.join_next().await {
            None => return Ok(()),
            Some(done) => {
                let (index, identity) = done.context("create an identity")??;
                made(index, identity)?;
            }
        }
    }
}

async fn one(api: &ApiClient, id: &str) -> anyhow::Result<Identity> {
    let body = CreateClient {
        id: id.to_owned(),
        state: Some(ClientState::Accepted),
        note: Some("simulated".to_owned()),
        comment: Some(REASON.to_owned()),
    };
    match patiently(|| api.create_client(&body)).await {
        Ok(_) => {}
        // Left by an earlier run, and possibly decommissioned.
        Err(error) if error.code() == Some("exists") => {
            let client = patiently(|| api.client(id)).await?;
            if client.state != ClientState::Accepted {
                patiently(|| api.accept_client(id, Some(REASON))).await?;
            }
        }
        Err(error) => return Err(error.into()),
    }
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let csr = CertificateParams::default().serialize_request(&key)?.pem()?;
    let body = IssueSvid { csr, valid_for_seconds: None };
    let issued = patiently(|| api.issue_svid(id, &body)).await?;
    let key = key.serialize_pem();
    Ok(Identity::from_parts(issued.certificate.as_bytes(), key.as_bytes(), issued.trust_bundle.as_bytes())?)
}

/// Retries while the server is busy.
async fn patiently<T, F: Future<Output = Result<T, ClientError>>>(ask: impl Fn() -> F) -> Result<T, ClientError> {
    let mut tries = 1;
    loop {
        match ask().await {
            Err(error) if tries < TRIES && error.code() == Some("unavailable") => {
                tokio::time::sleep(AGAIN_AFTER * tries).await;
                tries += 1;
            }
            answer => return answer,
        }
    }
}

/// Whether a client id is the prefix followed by a number.
fn is_ours(id: &str, prefix: &str) -> bool {
    let number = id.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Removes all deployments from the devices with the prefix.
async fn undeploy(api: &ApiClient, prefix: &str) -> anyhow::Result<()> {
    let mut applications = BTreeSet::new();
    let mut page = PageQuery { limit: Some(LIMIT_MAX), ..PageQuery::default() };
    loop {
        let found = api.deployments(&DeploymentQuery::default(), &page).await.context("list the deployments")?;
        let ours = found.items.into_iter().filter(|deployment| is_ours(&deployment.client, prefix));
        applications.extend(ours.map(|deployment| deployment.application));
        match found.next {
            Some(next) => page = PageQuery { limit: Some(LIMIT_MAX), ..PageQuery::after(Some(next)) },
            None => break,
        }
    }
    for application in applications {
        let rollout = CreateRollout {
            kind: RolloutKind::Remove,
            application: application.clone(),
            version: None,
            profile: None,
            scope: Scope { selector: Some(format!("simulation={prefix}")), ..Scope::default() },
            values: IndexMap::new(),
            policy: PolicyPatch::default(),
            skip_incompatible: true,
            comment: Some(REASON.to_owned()),
        };
        let rollout = api.create_rollout(&rollout).await.with_context(|| format!("remove `{application}`"))?;
        wait::until("publication of the removal", REMOVED_WITHIN, async || {
            let rollout = api.rollout(&rollout.id).await.context("get a rollout")?;
            if rollout.finished {
                return Ok(Ok(()));
            }
            tokio::time::sleep(AGAIN_AFTER).await;
            Ok(Err(format!(
                "{} of {} devices; `margrave sim --devices 0 --clean` continues",
                rollout.published, rollout.total
            )))
        })
        .await?;
    }
    Ok(())
}

/// Decommissions every client with the prefix and deletes its devices; returns the number of clients.
pub(super) async fn decommission(api: &ApiClient, prefix: &str) -> anyhow::Result<usize> {
    undeploy(api, prefix).await?;
    let mut ids = Vec::new();
    let mut page = PageQuery { limit: Some(LIMIT_MAX), ..PageQuery::default() };
    loop {
        let clients = api.clients(&page).await.context("list the clients")?;
        let present = clients.items.into_iter().filter(|client| client.state != ClientState::Decommissioned);
        ids.extend(present.map(|client| client.id).filter(|id| is_ours(id, prefix)));
        match clients.next {
            Some(next) => page = PageQuery { limit: Some(LIMIT_MAX), ..PageQuery::after(Some(next)) },
            None => break,
        }
    }
    let count = ids.len();
    let mut in_progress: JoinSet<anyhow::Result<()>> = JoinSet::new();
    let mut ids = ids.into_iter();
    loop {
        while in_progress.len() < AT_ONCE
            && let Some(id) = ids.next()
        {
            let api = api.clone();
            in_progress.spawn(async move {
                // A client that never reported has no device.
                match patiently(|| api.delete_device(&id, &id, Some(REASON))).await {
                    Err(error) if error.code() != Some("not-found") => return Err(error.into()),
                    _ => {}
                }
                patiently(|| api.decommission_client(&id, Some(REASON)))
                    .await
                    .with_context(|| format!("decommission `{id}`"))?;
                Ok(())
            });
        }
        match in_progress.join_next().await {
            None => return Ok(count),
            Some(done) => done.context("decommission a client")??,
        }
    }
}
