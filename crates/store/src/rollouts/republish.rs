//! A client whose manifest version is ahead of the server: after a restore of the database from a backup, only the
//! clients know the versions issued since (invariant 2).

use super::publish::{Publishing, load};
use crate::audit::{self, Entry};
use crate::clients::Head;
use crate::error::During;
use crate::open::{WriteTransaction, commit};
use crate::rows::version_column;
use crate::{Result, Store, blobs};
use margo::ids::{ClientId, DeploymentId};
use margo::manifest::MANIFEST_VERSION_ISSUED_MAX;
use margrave_core::model::Actor;
use margrave_core::publish::{Publication, RAISE_MAX, next};
use margrave_core::time::Timestamp;
use serde_json::json;
use std::collections::BTreeMap;

/// Skips one version: a client that detects a gap reports all of its deployments again, changed or not.
const STEP: u64 = 2;

impl Store {
    /// Republishes the unchanged desired state of a client under a new version: the client retries failed deployments
    /// at once and reports everything again. Returns the resulting head; `None` for an unknown client, or if no such
    /// version can be issued.
    pub async fn manifest_republish(&self, actor: &Actor, client: &ClientId, now: Timestamp) -> Result<Option<Head>> {
        let mut transaction = self.begin().await?;
        let mut publishings = Publishing::begin(&mut transaction, &[client]).await?;
        let Some(publishing) = publishings.first() else { return Ok(None) };
        let before = publishing.version();
        if before > MANIFEST_VERSION_ISSUED_MAX - STEP {
            return Ok(None);
        }
        load_one(&mut transaction, &mut publishings).await?;
        let publication = next(before + STEP - 1, &publishings[0].served())?;
        write(&mut transaction, client, &publication, publishings[0].is_sensitive(), now).await?;
        ask(&mut transaction, ASK_AGAIN, client, &publication).await?;
        let entry = Entry {
            actor,
            action: "manifest.republish",
            subject: format!("client/{client}"),
            before: Some(json!({ "version": before })),
            after: Some(json!({ "version": publication.version })),
        };
        audit::append(&mut transaction, vec![entry], now).await?;
        commit(transaction).await?;
        Ok(self.client_with_head(client).await?.map(|(_, head)| head))
    }

    /// Publishes the desired state of a client under a version above the one that it reports for one of its deployments,
    /// and expects that version from each of them.
    pub async fn manifest_publish_above(
        &self,
        client: &ClientId,
        deployment: DeploymentId,
        adopted: u64,
        now: Timestamp,
    ) -> Result<PublishAbove> {
        let mut transaction = self.begin().await?;
        let mut publishings = Publishing::begin(&mut transaction, &[client]).await?;
        let Some(publishing) = publishings.first() else { return Ok(PublishAbove::UnknownDeployment) };
        if !is_assigned(&mut transaction, client, deployment).await? {
            return Ok(PublishAbove::UnknownDeployment);
        }
        let before = publishing.version();
        if adopted.saturating_sub(before) > RAISE_MAX || adopted > MANIFEST_VERSION_ISSUED_MAX - STEP {
            return Ok(PublishAbove::TooFarAhead { version: before });
        }
        if before < adopted {
            load_one(&mut transaction, &mut publishings).await?;
            let publication = next(adopted + STEP - 1, &publishings[0].served())?;
            write(&mut transaction, client, &publication, publishings[0].is_sensitive(), now).await?;
            ask(&mut transaction, ASK_ANEW, client, &publication).await?;
            let actor = Actor { name: format!("client:{client}"), comment: None, request_id: None };
            let entry = Entry {
                actor: &actor,
                action: "manifest.raise",
                subject: format!("client/{client}"),
                before: Some(json!({ "version": before })),
                after: Some(json!({ "version": publication.version, "adopted": adopted })),
            };
            audit::append(&mut transaction, vec![entry], now).await?;
        }
        commit(transaction).await?;
        let head = self.client_with_head(client).await?.map(|(_, head)| head);
        Ok(head.map_or(PublishAbove::UnknownDeployment, PublishAbove::Head))
    }
}

/// What became of a client that reports a later version than it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishAbove {
    /// Its manifest is above the reported version now.
    Head(Head),
    /// The report is about no deployment of this client, so it raises nothing.
    UnknownDeployment,
    /// The reported version is further above the version of the manifest than a restore explains.
    TooFarAhead { version: u64 },
}

/// The desired state of the only client of `publishings`.
async fn load_one(writing: &mut WriteTransaction, publishings: &mut [Publishing]) -> Result<()> {
    load(writing, publishings, &[]).await?;
    publishings.iter_mut().find_map(Publishing::take_problem).map_or(Ok(()), Err)
}

async fn is_assigned(writing: &mut WriteTransaction, client: &ClientId, deployment: DeploymentId) -> Result<bool> {
    let row = sqlx::query("SELECT 1 AS found FROM deployments WHERE id = $1 AND client_id = $2")
        .bind(deployment.to_string())
        .bind(client.as_str())
        .fetch_optional(&mut **writing)
        .await
        .during("check the owner of a deployment")?;
    Ok(row.is_some())
}

/// Earlier reports of the client about its revisions remain valid; only a report about this version is awaited.
const ASK_AGAIN: &str = "UPDATE deployments SET target_version = $2 WHERE client_id = $1 AND desired = 'present'";
/// ST-06: a report about a version from before the restore says nothing about the current desired state.
const ASK_ANEW: &str =
    "UPDATE deployments SET target_version = $2, changed_version = $2 WHERE client_id = $1 AND desired = 'present'";

async fn ask(
    writing: &mut WriteTransaction,
    how: &'static str,
    client: &ClientId,
    publication: &Publication,
) -> Result<()> {
    sqlx::query(how)
        .bind(client.as_str())
        .bind(version_column(publication.version)?)
        .execute(&mut **writing)
        .await
        .during("raise the target versions of deployments")?;
    Ok(())
}

async fn write(
    writing: &mut WriteTransaction,
    client: &ClientId,
    publication: &Publication,
    sensitive: bool,
    now: Timestamp,
) -> Result<()> {
    let version = version_column(publication.version)?;
    let bundle = publication.bundle.as_ref().map(|(digest, _)| digest.to_string());
    sqlx::query(
        "UPDATE manifests SET version = $2, digest = $3, body = $4, bundle_digest = $5, published_at = $6
         WHERE client_id = $1",
    )
    .bind(client.as_str())
    .bind(version)
    .bind(publication.digest.as_str())
    .bind(publication.body.as_slice())
    .bind(bundle.clone())
    .bind(now.0)
    .execute(&mut **writing)
    .await
    .during("raise a manifest")?;
    let Some(((digest, bytes), name)) = publication.bundle.as_ref().zip(bundle) else { return Ok(()) };
    let bundle = BTreeMap::from([(digest.clone(), bytes.as_slice())]);
    if sensitive {
        let sealing = writing.sealing();
        blobs::put_sealed(writing, &bundle, &sealing, now).await?;
    } else {
        blobs::put(writing, &bundle, now).await?;
    }
    sqlx::query(
        "UPDATE artifacts SET replaced_at = $3
         WHERE client_id = $1 AND kind = 'bundle' AND digest <> $2 AND replaced_at IS NULL",
    )
    .bind(client.as_str())
    .bind(name.clone())
    .bind(now.0)
    .execute(&mut **writing)
    .await
    .during("mark a replaced bundle")?;
    sqlx::query(
        "INSERT INTO artifacts (client_id, kind, deployment_id, digest, replaced_at) VALUES ($1, 'bundle', '', $2, NULL)
         ON CONFLICT (client_id, kind, deployment_id, digest) DO UPDATE SET replaced_at = NULL",
    )
    .bind(client.as_str())
    .bind(name)
    .execute(&mut **writing)
    .await
    .during("write a bundle")?;
    Ok(())
}
