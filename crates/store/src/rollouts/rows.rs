//! The rows of a batch, table by table.

use super::apply::{Running, Write};
use crate::batched::{Insert, StatementBatch};
use crate::deployments::{RevisionName, values_cell};
use crate::rows::{to_json, version_column};
use crate::seal::{Cell, Sealing};
use crate::{Result, blobs};
use margo::digest::Digest;
use margo::ids::ClientId;
use margrave_core::model::Deployment;
use margrave_core::policy::PolicyUpdate;
use margrave_core::publish::Publication;
use margrave_core::time::Timestamp;
use std::collections::BTreeMap;

pub(super) struct ArtifactRow {
    pub(super) client: ClientId,
    pub(super) kind: &'static str,
    /// Empty for a bundle.
    pub(super) deployment: String,
    pub(super) digest: String,
    pub(super) replaced_at: Option<Timestamp>,
}

pub(super) struct ManifestRow {
    pub(super) client: ClientId,
    pub(super) publication: Publication,
    /// Whether the bundle contains sensitive values.
    pub(super) sensitive: bool,
}

pub(super) struct Rows<'a> {
    pub(super) running: &'a Running,
    pub(super) writes: &'a [Write],
    pub(super) artifacts: &'a [ArtifactRow],
    pub(super) manifests: &'a [ManifestRow],
}

impl<'a> Rows<'a> {
    pub(super) fn add_to_batch(&self, statements: &mut StatementBatch<'a>, sealing: &Sealing) -> Result<()> {
        blobs::add_to_batch(statements, self.blobs(false), self.running.now);
        blobs::batch_sealed(statements, &self.blobs(true), sealing, self.running.now)?;
        self.write_deployments(statements, sealing)?;
        self.write_revisions(statements, sealing)?;
        self.write_statuses(statements);
        self.write_artifacts(statements);
        self.write_manifests(statements)
    }

    /// Documents and bundles with sensitive values, or those without.
    fn blobs(&self, sensitive: bool) -> BTreeMap<Digest, &'a [u8]> {
        let writes = self.writes.iter().filter(|write| write.after.sensitive == sensitive);
        let documents = writes.filter_map(|write| Some((write.after.yaml_digest.clone(), write.yaml.as_deref()?)));
        let manifests = self.manifests.iter().filter(|row| row.sensitive == sensitive);
        let bundles = manifests.filter_map(|row| row.publication.bundle.as_ref());
        documents.chain(bundles.map(|(digest, bytes)| (digest.clone(), bytes.as_slice()))).collect()
    }

    fn write_deployments(&self, statements: &mut StatementBatch<'a>, sealing: &Sealing) -> Result<()> {
        const INSERT: Insert = Insert {
            into: "deployments (id, client_id, target, application, version, profile, parameter_values, policy, revision, desired, yaml_digest,
                                changed_version, target_version, created_at, updated_at, rollout_id)",
            columns: 16,
            on_conflict: "ON CONFLICT (id) DO UPDATE SET target = excluded.target, application = excluded.application,
                          version = excluded.version, profile = excluded.profile, parameter_values = excluded.parameter_values,
                          policy = excluded.policy, revision = excluded.revision, desired = excluded.desired, yaml_digest = excluded.yaml_digest,
                          changed_version = excluded.changed_version, target_version = excluded.target_version, updated_at = excluded.updated_at,
                          rollout_id = excluded.rollout_id",
            attempt: "write deployments",
        };
        let rows = self.writes.iter().map(|Write { after, .. }| {
            let sealed = sealed(sealing, after, values_cell(&after.id))?;
            Ok((after, version_column(after.changed_version)?, version_column(after.target_version)?, sealed))
        });
        let rows = rows.collect::<Result<Vec<_>>>()?;
        statements.insert(&INSERT, rows, |row, (deployment, changed_version, target_version, sealed)| {
            row.bind(deployment.id.to_string())
                .bind(deployment.client.to_string())
                .bind(deployment.target.to_string())
                .bind(deployment.application.to_string())
                .bind(deployment.version.clone())
                .bind(deployment.profile.clone())
                .bind(sealed.clone().unwrap_or_else(|| to_json(&deployment.values)))
                .bind(PolicyUpdate::from(deployment.policy).to_text())
                .bind(deployment.revision)
                .bind(deployment.desired.as_str())
                .bind(deployment.yaml_digest.to_string())
                .bind(*changed_version)
                .bind(*target_version)
                .bind(deployment.created_at.0)
                .bind(deployment.updated_at.0)
                .bind(deployment.rollout.to_string())
        });
        Ok(())
    }

    fn write_revisions(&self, statements: &mut StatementBatch<'a>, sealing: &Sealing) -> Result<()> {
        const INSERT: Insert = Insert {
            into:
                "deployment_revisions (deployment_id, revision, action, version, profile, parameter_values, yaml_digest,
                                         manifest_version, at, actor, comment, rollout_id, rollback_to)",
            columns: 13,
            on_conflict: "",
            attempt: "write revisions of deployments",
        };
        let running = self.running;
        let rows = self.writes.iter().map(|Write { after, manifest_version, .. }| {
            let sealed = sealed(sealing, after, RevisionName(after.id, after.revision).values_cell())?;
            Ok((after, version_column(*manifest_version)?, sealed))
        });
        let rows = rows.collect::<Result<Vec<_>>>()?;
        statements.insert(&INSERT, rows, move |row, (deployment, manifest_version, sealed)| {
            row.bind(deployment.id.to_string())
                .bind(deployment.revision)
                .bind(running.kind.as_str())
                .bind(deployment.version.clone())
                .bind(deployment.profile.clone())
                .bind(sealed.clone().unwrap_or_else(|| to_json(&deployment.values)))
                .bind(deployment.yaml_digest.to_string())
                .bind(*manifest_version)
                .bind(running.now.0)
                .bind(running.actor.name.clone())
                .bind(running.actor.comment.clone())
                .bind(running.id.to_string())
                .bind(running.rollback_to)
        });
        Ok(())
    }

    /// W-10: the row exists from the start, so that every report is an update.
    fn write_statuses(&self, statements: &mut StatementBatch<'a>) {
        const INSERT: Insert = Insert {
            into: "statuses (deployment_id, client_id, reports)",
            columns: 3,
            on_conflict: "",
            attempt: "create statuses",
        };
        let fresh: Vec<&Write> = self.writes.iter().filter(|write| write.before.is_none()).collect();
        statements.insert(&INSERT, fresh, |row, write| {
            row.bind(write.after.id.to_string()).bind(write.after.client.to_string()).bind(0_i64)
        });
    }

    /// A replaced artifact that is used again becomes current again.
    fn write_artifacts(&self, statements: &mut StatementBatch<'a>) {
        const INSERT: Insert = Insert {
            into: "artifacts (client_id, kind, deployment_id, digest, replaced_at)",
            columns: 5,
            on_conflict: "ON CONFLICT (client_id, kind, deployment_id, digest) DO UPDATE SET replaced_at = excluded.replaced_at",
            attempt: "write artifacts",
        };
        statements.insert(&INSERT, self.artifacts.iter().collect(), |row, artifact: &&ArtifactRow| {
            row.bind(artifact.client.to_string())
                .bind(artifact.kind)
                .bind(artifact.deployment.clone())
                .bind(artifact.digest.clone())
                .bind(artifact.replaced_at.map(|at| at.0))
        });
    }

    /// Every row exists and is locked; the insertion only serves to update many at once.
    fn write_manifests(&self, statements: &mut StatementBatch<'a>) -> Result<()> {
        const INSERT: Insert = Insert {
            into: "manifests (client_id, version, digest, body, bundle_digest, published_at)",
            columns: 6,
            on_conflict: "ON CONFLICT (client_id) DO UPDATE SET version = excluded.version, digest = excluded.digest,
                          body = excluded.body, bundle_digest = excluded.bundle_digest,
                          published_at = excluded.published_at",
            attempt: "write manifests",
        };
        let rows = self.manifests.iter().map(|row| Ok((row, version_column(row.publication.version)?)));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let now = self.running.now;
        statements.insert(&INSERT, rows, move |row, (manifest, version)| {
            let publication = &manifest.publication;
            row.bind(manifest.client.to_string())
                .bind(*version)
                .bind(publication.digest.to_string())
                .bind(publication.body.clone())
                .bind(publication.bundle.as_ref().map(|(digest, _)| digest.to_string()))
                .bind(now.0)
        });
        Ok(())
    }
}

/// The sealed form of values, where some of them are sensitive.
fn sealed(sealing: &Sealing, deployment: &Deployment, cell: Cell<'_>) -> Result<Option<String>> {
    deployment.sensitive.then(|| sealing.text(cell, &to_json(&deployment.values))).transpose()
}
