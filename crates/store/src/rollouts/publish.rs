//! The next manifest of each client of a batch: one new version, however many of its deployments change.

use super::apply::{Running, Write};
use super::rows::{ArtifactRow, ManifestRow};
use super::{BatchItem, read_state_from_last_report};
use crate::batched::{select_either, select_in};
use crate::clients::Head;
use crate::deployments::read_deployment;
use crate::open::WriteTransaction;
use crate::rows::Columns;
use crate::seal::Sealing;
use crate::{Result, StoreError, blobs};
use margo::digest::Digest;
use margo::ids::{ClientId, DeploymentId};
use margrave_core::deployment_state::DeploymentState;
use margrave_core::model::{ClientState, Deployment, Desired};
use margrave_core::publish::{Publication, ServedDeployment, next};
use std::collections::{BTreeMap, BTreeSet};

/// A deployment that an item names, as stored.
pub(super) struct Named {
    pub(super) deployment: Deployment,
    pub(super) deployment_state: DeploymentState,
}

/// What one client runs; its manifest row is locked until the transaction ends.
pub(super) struct Publishing {
    client: ClientId,
    state: ClientState,
    revision: i64,
    version: u64,
    bundle: Option<String>,
    standing: BTreeMap<DeploymentId, Deployment>,
    served: BTreeMap<DeploymentId, ServedDeployment>,
    writes: Vec<Write>,
    /// Why it cannot be published.
    problem: Option<StoreError>,
}

impl Publishing {
    /// One for each of these clients that exists, in order of id. Locks the manifest rows first: the next transaction
    /// that publishes for these clients sees what this one wrote.
    pub(super) async fn begin(writing: &mut WriteTransaction, clients: &[&ClientId]) -> Result<Vec<Self>> {
        let ids: Vec<String> = clients.iter().map(ToString::to_string).collect();
        let lock = if writing.is_shared() { LOCK_MANIFESTS } else { "" };
        let rows = select_in(writing, SELECT_MANIFESTS, &ids, lock, "lock manifests").await?;
        let read = |row| {
            let row = Columns::of("manifests", row);
            Ok(Self {
                client: row.parsed("client_id")?,
                state: row.named("state", ClientState::parse)?,
                revision: row.number("revision")?,
                version: row.unsigned("version")?,
                bundle: row.text_maybe("bundle_digest")?,
                standing: BTreeMap::new(),
                served: BTreeMap::new(),
                writes: Vec::new(),
                problem: None,
            })
        };
        let mut publishings: Vec<Self> = rows.iter().map(read).collect::<Result<_>>()?;
        publishings.sort_by(|one, other| one.client.cmp(&other.client));
        Ok(publishings)
    }

    pub(super) fn client(&self) -> &ClientId {
        &self.client
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Takes the problem: a client with one is not published.
    pub(super) fn take_problem(&mut self) -> Option<StoreError> {
        self.problem.take()
    }

    pub(super) fn served(&self) -> Vec<ServedDeployment> {
        self.served.values().cloned().collect()
    }

    pub(super) fn stage(&mut self, write: Write) {
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
        self.writes.push(write);
    }

    /// Whether the client runs something sensitive. Deployments being removed count too: better to seal one bundle too
    /// many than one too few.
    pub(super) fn is_sensitive(&self) -> bool {
        self.standing.values().any(|deployment| deployment.sensitive)
            || self.writes.iter().any(|write| write.after.sensitive)
    }

    /// The digest of a deployment in the current manifest.
    fn published(&self, id: DeploymentId) -> Option<&Digest> {
        self.standing.get(&id).map(|deployment| &deployment.yaml_digest)
    }

    /// The next manifest, or `None` if it would equal the current one.
    fn next(&self) -> Result<Option<Publication>> {
        let unchanged = self.served.len() == self.standing.len()
            && self.served.values().all(|served| self.published(served.id) == Some(&served.digest));
        if unchanged {
            return Ok(None);
        }
        Ok(Some(next(self.version, &self.served())?))
    }
}

const SELECT_MANIFESTS: &str = "SELECT m.client_id, m.version, m.bundle_digest, c.state, c.revision
                                FROM manifests m JOIN clients c ON c.id = m.client_id WHERE m.client_id IN";

/// All transactions lock in order of id, so that two batches never deadlock.
const LOCK_MANIFESTS: &str = "ORDER BY m.client_id COLLATE \"C\" FOR UPDATE OF m";

/// By client, never by `desired`: nearly every deployment is present.
const SELECT_STANDING: [&str; 2] = [
    "SELECT d.*, b.body, b.sealed_with, s.state, s.adopted_version, s.failed_version
     FROM deployments d LEFT JOIN blobs b ON b.digest = d.yaml_digest LEFT JOIN statuses s ON s.deployment_id = d.id
     WHERE (d.desired = 'present' AND d.client_id IN",
    ") OR d.id IN",
];

/// Reads what all these clients run; a client whose rows or documents cannot be read gets a problem, and the others do
/// not. Their manifests are locked, so no other transaction publishes for them. Also
/// returns the deployments that the items name, of any client, removed or not, with their state.
pub(super) async fn load(
    writing: &mut WriteTransaction,
    publishings: &mut [Publishing],
    items: &[BatchItem],
) -> Result<BTreeMap<DeploymentId, Named>> {
    let clients: Vec<String> = publishings.iter().map(|publishing| publishing.client.to_string()).collect();
    let ids: BTreeSet<DeploymentId> = items.iter().map(|item| item.target.deployment).collect();
    let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let rows = select_either(writing, SELECT_STANDING, [&clients, &texts], "read the deployments of clients").await?;
    let mut named = BTreeMap::new();
    let mut by_client: BTreeMap<ClientId, &mut Publishing> =
        publishings.iter_mut().map(|publishing| (publishing.client.clone(), publishing)).collect();
    let sealing = writing.sealing();
    for row in &rows {
        let row = Columns::of("deployments", row);
        let client: ClientId = row.parsed("client_id")?;
        let mut publishing = by_client.get_mut(&client);
        match read_standing(row, publishing.is_some(), &sealing) {
            Ok((deployment, deployment_state, served)) => {
                if ids.contains(&deployment.id) {
                    named.insert(deployment.id, Named { deployment: deployment.clone(), deployment_state });
                }
                if let Some((publishing, served)) = publishing.as_deref_mut().zip(served) {
                    publishing.served.insert(deployment.id, served);
                    publishing.standing.insert(deployment.id, deployment);
                }
            }
            // Invariant 6: omitting it from the manifest would remove the workload.
            Err(problem) => {
                if let Some(publishing) = publishing {
                    publishing.problem.get_or_insert(problem);
                }
            }
        }
    }
    Ok(named)
}

/// A deployment with its state, and its document if it is in the manifest that is published.
fn read_standing(
    row: Columns<'_>,
    is_published: bool,
    sealing: &Sealing,
) -> Result<(Deployment, DeploymentState, Option<ServedDeployment>)> {
    let deployment = read_deployment(row, sealing)?;
    let deployment_state = read_state_from_last_report(row, &deployment)?;
    if deployment.desired != Desired::Present || !is_published {
        return Ok((deployment, deployment_state, None));
    }
    let (id, digest) = (deployment.id, deployment.yaml_digest.clone());
    let body = row.bytes_maybe("body")?.ok_or_else(|| StoreError::Inconsistent {
        table: "deployments",
        problem: format!("the document {digest} of deployment {id} is not among the blobs"),
    })?;
    let yaml = blobs::open(row, body, &digest, sealing)?;
    Ok((deployment, deployment_state, Some(ServedDeployment { id, digest, yaml })))
}

/// The result of a batch: the writes as they will be stored, and the row and head of every manifest that changes.
pub(super) struct Published {
    pub(super) writes: Vec<Write>,
    pub(super) heads: Vec<Head>,
    pub(super) artifacts: Vec<ArtifactRow>,
    pub(super) manifests: Vec<ManifestRow>,
    /// Clients that cannot be published; nothing of them is among the rest.
    pub(super) failed: Vec<(ClientId, StoreError)>,
}

pub(super) fn publish(running: &Running, publishings: Vec<Publishing>) -> Published {
    let (mut writes, mut heads, mut artifacts, mut manifests) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut failed = Vec::new();
    for mut publishing in publishings {
        let publication = match publishing.take_problem().map_or_else(|| publishing.next(), Err) {
            Ok(publication) => publication,
            Err(problem) => {
                failed.push((publishing.client, problem));
                continue;
            }
        };
        let sensitive = publishing.is_sensitive();
        let version = publication.as_ref().map_or(publishing.version, |publication| publication.version);
        for mut write in std::mem::take(&mut publishing.writes) {
            write.manifest_version = version;
            let digest = write.yaml.as_ref().map(|_| &write.after.yaml_digest);
            if publishing.published(write.after.id) != digest {
                // ST-06: the version at which this deployment last changed.
                write.after.target_version = version;
                if !write.is_retry_of() {
                    write.after.changed_version = version;
                }
            }
            artifacts.extend(document_artifacts(running, &write));
            writes.push(write);
        }
        let Some(publication) = publication else { continue };
        artifacts.extend(bundle_artifacts(running, &publishing, &publication));
        let Publishing { client, state, revision, .. } = publishing;
        heads.push(Head { client: client.clone(), state, revision, version, digest: publication.digest.clone() });
        manifests.push(ManifestRow { client, publication, sensitive });
    }
    Published { writes, heads, artifacts, manifests, failed }
}

/// The new document becomes fetchable; the replaced one is marked, and stays for clients that are still fetching it.
fn document_artifacts(running: &Running, write: &Write) -> Vec<ArtifactRow> {
    let row = |digest: &Digest, replaced_at| ArtifactRow {
        client: write.after.client.clone(),
        kind: "yaml",
        deployment: write.after.id.to_string(),
        digest: digest.to_string(),
        replaced_at,
    };
    let current = (write.after.desired == Desired::Present).then_some(&write.after.yaml_digest);
    let replaced = write.before.as_ref().map(|before| &before.yaml_digest).filter(|digest| current != Some(*digest));
    let replaced = replaced.map(|digest| row(digest, Some(running.now)));
    current.map(|digest| row(digest, None)).into_iter().chain(replaced).collect()
}

fn bundle_artifacts(running: &Running, publishing: &Publishing, publication: &Publication) -> Vec<ArtifactRow> {
    let row = |digest: String, replaced_at| ArtifactRow {
        client: publishing.client.clone(),
        kind: "bundle",
        deployment: String::new(),
        digest,
        replaced_at,
    };
    let current = publication.bundle.as_ref().map(|(digest, _)| digest.to_string());
    let replaced = publishing.bundle.clone().filter(|digest| current.as_ref() != Some(digest));
    let replaced = replaced.map(|digest| row(digest, Some(running.now)));
    current.map(|digest| row(digest, None)).into_iter().chain(replaced).collect()
}

#[cfg(test)]
mod tests {
    use super::SELECT_STANDING;
    use crate::{Store, StoreOptions};
    use sqlx::{AssertSqlSafe, Row as _};

    /// The plan of SQLite, which has no statistics here, for a statement.
    async fn plan(store: &Store, statement: &str) -> String {
        let explained = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")));
        let rows = explained.fetch_all(&store.read).await.unwrap();
        rows.iter().map(|row| row.get::<String, _>("detail")).collect::<Vec<_>>().join("; ")
    }

    #[tokio::test]
    async fn a_batch_reads_only_deployments_of_its_clients() {
        let options = StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 };
        let store = Store::open(&options).await.unwrap();
        let by_client = "USING INDEX deployments_by_client (client_id=?)";
        for statement in [
            format!("{} ('a', 'b', 'c') {} ('1', '2')", SELECT_STANDING[0], SELECT_STANDING[1]),
            "SELECT id FROM deployments WHERE desired = 'present' AND client_id IN ('a', 'b')".to_owned(),
            "UPDATE deployments SET target_version = 2 WHERE client_id = 'a' AND desired = 'present'".to_owned(),
        ] {
            let plan = plan(&store, &statement).await;
            assert!(plan.contains(by_client) && !plan.contains("SCAN"), "{statement}: {plan}");
        }
    }

    #[tokio::test]
    async fn pruning_reads_only_removed_deployments() {
        let options = StoreOptions { url: "sqlite::memory:".to_owned(), readers: 1 };
        let store = Store::open(&options).await.unwrap();
        let plan = plan(&store, crate::retention::SELECT_REMOVED).await;
        assert!(plan.contains("USING INDEX deployments_removed (updated_at<?)"), "{plan}");
    }
}
