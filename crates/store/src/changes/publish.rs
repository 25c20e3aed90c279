//! The next manifest of one client within a batch: however many of its deployments change, it grows by one version.

use super::apply::{Running, Write};
use crate::Result;
use crate::blobs;
use crate::clients::Head;
use crate::deployments::read_deployment;
use crate::error::During;
use crate::rows::{Columns, to_json, version_column};
use margo::digest::Digest;
use margo::ids::{ClientId, DeploymentId};
use margrave_core::model::{ClientState, Deployment, Desired};
use margrave_core::publish::{Publication, ServedDeployment, next};
use sqlx::AnyConnection;
use std::collections::BTreeMap;

/// What one client runs, its manifest row held until the transaction ends.
pub(super) struct Publishing {
    client: ClientId,
    state: ClientState,
    revision: i64,
    version: u64,
    standing: BTreeMap<DeploymentId, Deployment>,
    before: BTreeMap<DeploymentId, Digest>,
    served: BTreeMap<DeploymentId, ServedDeployment>,
}

impl Publishing {
    /// Takes the manifest row first: whoever publishes for this client next sees what this transaction wrote.
    pub(super) async fn begin(connection: &mut AnyConnection, client: &ClientId) -> Result<Option<Self>> {
        let row = sqlx::query(
            "UPDATE manifests SET version = version WHERE client_id = $1
             RETURNING version, (SELECT state FROM clients WHERE clients.id = manifests.client_id) AS state,
                 (SELECT revision FROM clients WHERE clients.id = manifests.client_id) AS revision",
        )
        .bind(client.as_str())
        .fetch_optional(&mut *connection)
        .await
        .during("take a manifest")?;
        let Some(row) = row else { return Ok(None) };
        let row = Columns::of("manifests", &row);
        let rows = sqlx::query(
            "SELECT d.*, b.body FROM deployments d JOIN blobs b ON b.digest = d.yaml_digest
             WHERE d.client_id = $1 AND d.desired = 'present'",
        )
        .bind(client.as_str())
        .fetch_all(connection)
        .await
        .during("read the deployments of a client")?;
        let mut publishing = Self {
            client: client.clone(),
            state: row.named("state", ClientState::parse)?,
            revision: row.number("revision")?,
            version: row.unsigned("version")?,
            standing: BTreeMap::new(),
            before: BTreeMap::new(),
            served: BTreeMap::new(),
        };
        for row in &rows {
            let row = Columns::of("deployments", row);
            let deployment = read_deployment(row)?;
            let (id, digest) = (deployment.id, deployment.yaml_digest.clone());
            publishing.before.insert(id, digest.clone());
            publishing.served.insert(id, ServedDeployment { id, digest, yaml: row.bytes("body")? });
            publishing.standing.insert(id, deployment);
        }
        Ok(Some(publishing))
    }

    pub(super) fn present(&self, id: DeploymentId) -> Option<&Deployment> {
        self.standing.get(&id)
    }

    pub(super) fn stage(&mut self, write: &Write) {
        let id = write.after.id;
        match &write.yaml {
            Some(yaml) => {
                let served = ServedDeployment { id, digest: write.after.yaml_digest.clone(), yaml: yaml.clone() };
                self.served.insert(id, served);
            }
            None => {
                self.served.remove(&id);
            }
        }
    }

    /// The next manifest, or `None` when it would say what the present one says.
    fn next(&self) -> Result<Option<Publication>> {
        let after: BTreeMap<_, _> = self.served.iter().map(|(id, served)| (*id, served.digest.clone())).collect();
        if after == self.before {
            return Ok(None);
        }
        let served: Vec<ServedDeployment> = self.served.values().cloned().collect();
        Ok(Some(next(self.version, &served)?))
    }
}

/// Writes deployments, revisions, statuses, artifacts and the manifest; the head when the manifest changed.
pub(super) async fn publish(
    connection: &mut AnyConnection,
    running: &Running,
    publishing: Publishing,
    mut writes: Vec<Write>,
) -> Result<(Vec<Write>, Option<Head>)> {
    let publication = publishing.next()?;
    let version = publication.as_ref().map_or(publishing.version, |publication| publication.version);
    for write in &mut writes {
        let digest = write.yaml.as_ref().map(|_| &write.after.yaml_digest);
        if publishing.before.get(&write.after.id) != digest {
            // ST-06: the version at which this deployment last changed.
            write.after.target_version = version;
        }
        if let Some(yaml) = &write.yaml {
            blobs::put(connection, &write.after.yaml_digest, yaml, running.now).await?;
        }
        write_deployment(connection, write).await?;
        write_revision(connection, running, &write.after, version).await?;
        write_status(connection, write).await?;
        write_artifact(connection, running, write).await?;
    }
    let Some(publication) = publication else { return Ok((writes, None)) };
    if let Some((digest, bytes)) = &publication.bundle {
        blobs::put(connection, digest, bytes, running.now).await?;
    }
    replace_bundle(connection, running, &publishing.client, publication.bundle.as_ref().map(|(digest, _)| digest))
        .await?;
    write_manifest(connection, running, &publishing.client, &publication).await?;
    let Publication { version, digest, .. } = publication;
    let Publishing { client, state, revision, .. } = publishing;
    Ok((writes, Some(Head { client, state, revision, version, digest })))
}

async fn write_deployment(connection: &mut AnyConnection, write: &Write) -> Result<()> {
    let deployment = &write.after;
    sqlx::query(
        "INSERT INTO deployments (id, client_id, target, application, version, profile, answers, revision, desired,
                                  yaml_digest, target_version, created_at, updated_at, change_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
         ON CONFLICT (id) DO UPDATE SET target = excluded.target, application = excluded.application,
             version = excluded.version, profile = excluded.profile, answers = excluded.answers,
             revision = excluded.revision, desired = excluded.desired, yaml_digest = excluded.yaml_digest,
             target_version = excluded.target_version, updated_at = excluded.updated_at, change_id = excluded.change_id",
    )
    .bind(deployment.id.to_string())
    .bind(deployment.client.as_str())
    .bind(deployment.target.as_str())
    .bind(deployment.application.as_str())
    .bind(&deployment.version)
    .bind(&deployment.profile)
    .bind(to_json(&deployment.values))
    .bind(deployment.revision)
    .bind(deployment.desired.as_str())
    .bind(deployment.yaml_digest.as_str())
    .bind(version_column(deployment.target_version)?)
    .bind(deployment.created_at.0)
    .bind(deployment.updated_at.0)
    .bind(deployment.change.to_string())
    .execute(connection)
    .await
    .during("write a deployment")?;
    Ok(())
}

async fn write_revision(
    connection: &mut AnyConnection,
    running: &Running,
    deployment: &Deployment,
    manifest_version: u64,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO deployment_revisions (deployment_id, revision, action, version, profile, answers, yaml_digest,
                                           manifest_version, at, actor, reason, change_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(deployment.id.to_string())
    .bind(deployment.revision)
    .bind(running.kind.as_str())
    .bind(&deployment.version)
    .bind(&deployment.profile)
    .bind(to_json(&deployment.values))
    .bind(deployment.yaml_digest.as_str())
    .bind(version_column(manifest_version)?)
    .bind(running.now.0)
    .bind(&running.actor.name)
    .bind(&running.actor.reason)
    .bind(running.id.to_string())
    .execute(connection)
    .await
    .during("write a revision of a deployment")?;
    Ok(())
}

/// W-10: the row is there from the first moment, so that every report is an update.
async fn write_status(connection: &mut AnyConnection, write: &Write) -> Result<()> {
    if write.before.is_some() {
        return Ok(());
    }
    sqlx::query("INSERT INTO statuses (deployment_id, client_id, reports) VALUES ($1, $2, 0)")
        .bind(write.after.id.to_string())
        .bind(write.after.client.as_str())
        .execute(connection)
        .await
        .during("create a status")?;
    Ok(())
}

/// Makes the new YAML fetchable and marks the replaced ones, which stay for clients in the middle of fetching them.
async fn write_artifact(connection: &mut AnyConnection, running: &Running, write: &Write) -> Result<()> {
    let deployment = &write.after;
    let keep = match deployment.desired {
        Desired::Present => deployment.yaml_digest.as_str(),
        Desired::Absent => "",
    };
    if write.before.is_some() {
        sqlx::query(
            "UPDATE artifacts SET retired_at = $4
             WHERE client_id = $1 AND kind = 'yaml' AND deployment_id = $2 AND digest <> $3 AND retired_at IS NULL",
        )
        .bind(deployment.client.as_str())
        .bind(deployment.id.to_string())
        .bind(keep)
        .bind(running.now.0)
        .execute(&mut *connection)
        .await
        .during("retire the replaced document of a deployment")?;
    }
    if deployment.desired == Desired::Present {
        insert_artifact(connection, &deployment.client, "yaml", &deployment.id.to_string(), &deployment.yaml_digest)
            .await?;
    }
    Ok(())
}

async fn insert_artifact(
    connection: &mut AnyConnection,
    client: &ClientId,
    kind: &'static str,
    deployment: &str,
    digest: &Digest,
) -> Result<()> {
    // What comes back after it was replaced is current again.
    sqlx::query(
        "INSERT INTO artifacts (client_id, kind, deployment_id, digest, retired_at) VALUES ($1, $2, $3, $4, NULL)
         ON CONFLICT (client_id, kind, deployment_id, digest) DO UPDATE SET retired_at = NULL",
    )
    .bind(client.as_str())
    .bind(kind)
    .bind(deployment)
    .bind(digest.as_str())
    .execute(connection)
    .await
    .during("write an artifact")?;
    Ok(())
}

async fn replace_bundle(
    connection: &mut AnyConnection,
    running: &Running,
    client: &ClientId,
    bundle: Option<&Digest>,
) -> Result<()> {
    sqlx::query(
        "UPDATE artifacts SET retired_at = $3
         WHERE client_id = $1 AND kind = 'bundle' AND deployment_id = '' AND digest <> $2 AND retired_at IS NULL",
    )
    .bind(client.as_str())
    .bind(bundle.map_or("", Digest::as_str))
    .bind(running.now.0)
    .execute(&mut *connection)
    .await
    .during("retire the replaced bundle")?;
    match bundle {
        Some(digest) => insert_artifact(connection, client, "bundle", "", digest).await,
        None => Ok(()),
    }
}

async fn write_manifest(
    connection: &mut AnyConnection,
    running: &Running,
    client: &ClientId,
    publication: &Publication,
) -> Result<()> {
    sqlx::query(
        "UPDATE manifests SET version = $2, digest = $3, body = $4, bundle_digest = $5, published_at = $6
         WHERE client_id = $1",
    )
    .bind(client.as_str())
    .bind(version_column(publication.version)?)
    .bind(publication.digest.as_str())
    .bind(publication.body.as_slice())
    .bind(publication.bundle.as_ref().map(|(digest, _)| digest.as_str()))
    .bind(running.now.0)
    .execute(connection)
    .await
    .during("write a manifest")?;
    Ok(())
}
