//! Clients and identities for virtual devices, by the operator API: many at once, and away again.

use super::Options;
use crate::chaos::wait;
use anyhow::Context as _;
use indexmap::IndexMap;
use margrave_agent::identity::Identity;
use margrave_api::changes::{ChangeKind, CreateChange, Scope};
use margrave_api::client::{ApiClient, ClientError, DeploymentQuery, PageQuery};
use margrave_api::clients::{ClientState, CreateClient, IssueSvid};
use margrave_api::page::LIMIT_MAX;
use margrave_api::policies::PolicyWish;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::task::JoinSet;

/// Calls under way: enough to fill the server's group of writers, few enough to leave it to others.
const AT_ONCE: usize = 32;
/// A server that has too much to do is asked again, so often and so much later.
const TRIES: u32 = 8;
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// A removal from the largest fleet is published by then, or the server is stuck.
const REMOVED_WITHIN: Duration = Duration::from_mins(10);
const REASON: &str = "simulated device";

/// Gives every device an identity; each is handed over as soon as it is there.
pub(super) async fn make(
    api: &ApiClient,
    options: &Options,
    mut made: impl FnMut(usize, Identity) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut under_way: JoinSet<anyhow::Result<(usize, Identity)>> = JoinSet::new();
    let mut next = 0;
    loop {
        while next < options.devices && under_way.len() < AT_ONCE {
            let (api, id, index) = (api.clone(), options.client(next), next);
            under_way.spawn(async move {
                let identity = one(&api, &id).await.with_context(|| format!("give `{id}` an identity"))?;
                Ok((index, identity))
            });
            next += 1;
        }
        match under_way.join_next().await {
            None => return Ok(()),
            Some(done) => {
                let (index, identity) = done.context("make an identity")??;
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
        reason: Some(REASON.to_owned()),
    };
    match patiently(|| api.create_client(&body)).await {
        Ok(_) => {}
        // Left by an earlier run, perhaps taken out of service by it.
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

/// Asks again while the server says that it is busy.
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

/// Whether a client is one of this prefix: its number follows.
fn is_ours(id: &str, prefix: &str) -> bool {
    let number = id.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Ends what is meant to run on the devices of the prefix.
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
        let change = CreateChange {
            kind: ChangeKind::Remove,
            application: application.clone(),
            version: None,
            profile: None,
            scope: Scope { selector: Some(format!("simulation={prefix}")), ..Scope::default() },
            answers: IndexMap::new(),
            policy: PolicyWish::default(),
            skip_unfit: true,
            reason: Some(REASON.to_owned()),
        };
        let change = api.create_change(&change).await.with_context(|| format!("remove `{application}`"))?;
        wait::until("publishing the removal", REMOVED_WITHIN, async || {
            let change = api.change(&change.id).await.context("ask for a change")?;
            if change.finished {
                return Ok(Ok(()));
            }
            tokio::time::sleep(AGAIN_AFTER).await;
            Ok(Err(format!(
                "{} of {} devices; `margrave sim --devices 0 --clean` goes on",
                change.published, change.total
            )))
        })
        .await?;
    }
    Ok(())
}

/// Takes every client of the prefix out of service, with what it has reported; says how many.
pub(super) async fn retire(api: &ApiClient, prefix: &str) -> anyhow::Result<usize> {
    undeploy(api, prefix).await?;
    let mut ids = Vec::new();
    let mut page = PageQuery { limit: Some(LIMIT_MAX), ..PageQuery::default() };
    loop {
        let clients = api.clients(&page).await.context("list the clients")?;
        let present = clients.items.into_iter().filter(|client| client.state != ClientState::Retired);
        ids.extend(present.map(|client| client.id).filter(|id| is_ours(id, prefix)));
        match clients.next {
            Some(next) => page = PageQuery { limit: Some(LIMIT_MAX), ..PageQuery::after(Some(next)) },
            None => break,
        }
    }
    let count = ids.len();
    let mut under_way: JoinSet<anyhow::Result<()>> = JoinSet::new();
    let mut ids = ids.into_iter();
    loop {
        while under_way.len() < AT_ONCE
            && let Some(id) = ids.next()
        {
            let api = api.clone();
            under_way.spawn(async move {
                // One that never reported has no device.
                match patiently(|| api.delete_device(&id, &id, Some(REASON))).await {
                    Err(error) if error.code() != Some("not-found") => return Err(error.into()),
                    _ => {}
                }
                patiently(|| api.retire_client(&id, Some(REASON)))
                    .await
                    .with_context(|| format!("take `{id}` out of service"))?;
                Ok(())
            });
        }
        match under_way.join_next().await {
            None => return Ok(count),
            Some(done) => done.context("take a client out of service")??,
        }
    }
}
