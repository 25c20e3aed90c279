//! Desired state to fetch: a small application, published by the server's own publisher.

use super::{TestServer, actor, client_id, eventually};
use margo::digest::Digest;
use margo::ids::{ApplicationId, DeploymentId};
use margo::manifest::StateManifest;
use margo::parameters::ParameterValues;
use margrave_core::model::{ApplicationVersion, Rollout, RolloutKind, RolloutTarget};
use margrave_core::time::Clock as _;
use serde_json::json;
use uuid::Uuid;

const APPLICATION: &str = "greeter";
const VERSION: &str = "1.0.0";
const DESCRIPTION: &str = "\
apiVersion: v1
id: greeter
metadata:
  name: Greeter
  version: 1.0.0
  catalog:
    organization:
      - name: Example
deploymentProfiles:
  - type: helm
    id: greeter-helm
    components:
      - name: greeter
        properties:
          repository: oci://registry.example/greeter
          revision: 1.0.0
parameters:
  greeting:
    value: hello
    targets:
      - pointer: greeting
        components: [greeter]
";

fn application() -> ApplicationId {
    APPLICATION.parse().unwrap()
}

pub(crate) fn capabilities(device: &str) -> String {
    json!({
        "properties": {
            "id": device, "vendor": "Example", "modelNumber": "E-1", "serialNumber": "7",
            "cpus": [{ "cores": 4, "architecture": "amd64" }], "memory": "8Gi", "storage": "64Gi",
            "peripherals": [], "interfaces": [{ "type": "ethernet" }], "otelCollector": true,
            "supportedRuntimes": ["oci"], "supportedDeploymentTypes": ["helm", "compose"],
        },
        "labels": { "example.com/site": "north" },
    })
    .to_string()
}

pub(crate) fn status(deployment: DeploymentId, version: u64, state: &str) -> serde_json::Value {
    json!({
        "deploymentId": deployment, "adoptedManifestVersion": version,
        "status": { "state": state }, "components": [{ "name": "greeter", "state": state }],
    })
}

impl TestServer {
    pub(crate) async fn manifest(&self, client: &str) -> (u64, StateManifest) {
        let (version, _, body) = self.state().store.manifest(&client_id(client)).await.unwrap().unwrap();
        (version, StateManifest::read(&body).unwrap().document)
    }

    /// Adds the application to the catalog.
    async fn fill_catalog(&self) {
        let store = &self.state().store;
        let digest = Digest::of(DESCRIPTION.as_bytes());
        let version = ApplicationVersion {
            application: application(),
            version: VERSION.to_owned(),
            name: "Greeter".to_owned(),
            tagline: None,
            vendor: "Example".to_owned(),
            package_digest: digest.clone(),
            description_digest: digest.clone(),
            source: "test".to_owned(),
            resources: vec![],
            warnings: vec![],
            imported_at: self.clock.now(),
        };
        store.version_add(&actor(), &version, &[(digest, DESCRIPTION.as_bytes().to_vec())]).await.unwrap();
    }

    async fn rollout(
        &self,
        kind: RolloutKind,
        client: &str,
        deployment: DeploymentId,
        revision: Option<i64>,
        greeting: &str,
    ) {
        let (before, _) = self.manifest(client).await;
        let target = RolloutTarget {
            deployment,
            client: client_id(client),
            target: client.parse().unwrap(),
            profile: "greeter-helm".to_owned(),
            expected_revision: revision,
        };
        let rollout = Rollout {
            id: Uuid::new_v4(),
            kind,
            application: application(),
            version: VERSION.to_owned(),
            values: ParameterValues::from([("greeting".to_owned(), json!(greeting))]),
            sensitive: false,
            policy: margrave_core::policy::PolicyUpdate::default(),
            targets: vec![target],
            done: 0,
            skipped: vec![],
            actor: actor(),
            created_at: self.clock.now(),
            finished_at: None,
            rollback_to: None,
        };
        self.state().store.rollout_create(&rollout).await.unwrap();
        self.state().publisher.wake();
        // Devices are served from memory, so the head counts, not the row.
        eventually("the rollout is published", async || {
            (self.state().heads.get(&client_id(client)).unwrap().version > before).then_some(())
        })
        .await;
    }

    /// Assigns the application to a client's device of the same name.
    pub(crate) async fn deploy(&self, client: &str) -> DeploymentId {
        self.fill_catalog().await;
        let deployment = DeploymentId(Uuid::new_v4());
        self.rollout(RolloutKind::Create, client, deployment, None, "hello").await;
        deployment
    }

    pub(crate) async fn reconfigure(&self, client: &str, deployment: DeploymentId, greeting: &str) {
        let revision = self.revision(deployment).await;
        self.rollout(RolloutKind::Reconfigure, client, deployment, Some(revision), greeting).await;
    }

    pub(crate) async fn remove(&self, client: &str, deployment: DeploymentId) {
        let revision = self.revision(deployment).await;
        self.rollout(RolloutKind::Remove, client, deployment, Some(revision), "").await;
    }

    async fn revision(&self, deployment: DeploymentId) -> i64 {
        self.state().store.deployment_get(deployment).await.unwrap().unwrap().deployment.revision
    }
}
