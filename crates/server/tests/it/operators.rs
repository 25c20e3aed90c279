//! The operator API, through the typed client and, where that would hide something, plain HTTP.

mod access;
mod batches;
mod catalog;
mod withdrawn;
mod rollouts;
mod selected_devices;
mod clients;
mod copies;
mod deployments;
mod devices;
mod diffs;
mod explains;
mod failing;
mod events;
mod compatibility;
mod gateways;
mod idempotency;
mod wizard_input;
mod packages;
mod pages;
mod lists;
mod lookups;
mod compressed;
mod parity;
mod passwords;
mod policies;
mod problems;
mod previews;
mod registries;
mod reports;
mod sealed;
mod sensitive;
mod component_checks;
mod bulk;
mod management;
mod pending_clients;
mod wizard;
mod wording;
mod simulated;

use crate::support::client::Device;
use crate::support::{TestServer, eventually};
use margrave_api::client::{ApiClient, ClientError, ClientOptions, DeploymentQuery, PageQuery};
use margrave_api::deployments::Deployment;
use margrave_api::devices::DeviceRef;
use margrave_api::policies::PolicyPatch;
use margrave_api::problem::ApiProblem;
use margrave_api::rollouts::{CreateRollout, Rollout, RolloutKind, Scope};
use serde_json::{Value, json};

/// The API with the admin's token.
pub(crate) fn api(server: &TestServer) -> ApiClient {
    let options = ClientOptions::new(server.operators_url("")).with_token(server.admin_token());
    ApiClient::new(&options).unwrap()
}

#[track_caller]
fn problem<T: std::fmt::Debug>(result: Result<T, ClientError>) -> ApiProblem {
    match result {
        Err(ClientError::Problem(problem)) => *problem,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// The code and the fields of an error.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, ClientError>) -> (String, Vec<String>) {
    let problem = problem(result);
    (problem.code, problem.errors.into_iter().map(|error| error.field).collect())
}

/// Properties of a test device.
#[derive(Clone)]
struct Kind {
    architecture: &'static str,
    memory: &'static str,
    runtimes: &'static [&'static str],
    types: &'static [&'static str],
    labels: Value,
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            architecture: "amd64",
            memory: "8Gi",
            runtimes: &["oci"],
            types: &["compose", "helm"],
            labels: json!({ "site": "nord" }),
        }
    }
}

impl Kind {
    fn capabilities(&self, device: &str) -> String {
        json!({
            "properties": {
                "id": device, "vendor": "Example", "modelNumber": "E-1", "serialNumber": "7",
                "cpus": [{ "cores": 4, "architecture": self.architecture }], "memory": self.memory, "storage": "64Gi",
                "peripherals": [], "interfaces": [{ "type": "ethernet" }], "otelCollector": true,
                "supportedRuntimes": self.runtimes, "supportedDeploymentTypes": self.types,
            },
            "labels": self.labels,
        })
        .to_string()
    }

    async fn report(&self, client: &Device, device: &str) {
        let response = client.put(&format!("/api/v1/capabilities/{device}"), self.capabilities(device)).await;
        assert!(response.status().is_success(), "{}: {}", response.status(), response.text().await.unwrap());
    }
}

/// An accepted client with one device of the same name.
async fn press(server: &TestServer, name: &str, kind: &Kind) -> Device {
    let client = server.accepted(name).await;
    kind.report(&client, name).await;
    client
}

fn device(name: &str) -> DeviceRef {
    DeviceRef { client: name.to_owned(), device: name.to_owned() }
}

fn on(names: &[&str]) -> Scope {
    Scope { devices: Some(names.iter().map(|name| device(name)).collect()), ..Scope::default() }
}

fn selected(selector: &str) -> Scope {
    Scope { selector: Some(selector.to_owned()), ..Scope::default() }
}

/// Requests the sample application with a value for its one parameter without a default.
fn create(version: &str, scope: Scope) -> CreateRollout {
    CreateRollout {
        kind: RolloutKind::Create,
        application: packages::ID.to_owned(),
        version: Some(version.to_owned()),
        profile: None,
        scope,
        values: indexmap::IndexMap::from([("password".to_owned(), json!("s3cret-value"))]),
        policy: PolicyPatch::default(),
        skip_incompatible: false,
        comment: Some("a test".to_owned()),
    }
}

async fn finished(api: &ApiClient, rollout: &Rollout) -> Rollout {
    eventually("the rollout is published", async || {
        let now = api.rollout(&rollout.id).await.unwrap();
        now.finished.then_some(now)
    })
    .await
}

async fn all_deployments(api: &ApiClient) -> Vec<Deployment> {
    api.deployments(&DeploymentQuery::default(), &PageQuery::default()).await.unwrap().items
}

/// Deploys the sample application to one device and waits for it to be published.
async fn deployed(server: &TestServer, name: &str) -> Deployment {
    let api = api(server);
    packages::upload(&api, "1.0.0").await;
    let rollout = api.create_deployments(&create("1.0.0", on(&[name]))).await.unwrap();
    finished(&api, &rollout).await;
    let query = DeploymentQuery { client: Some(name.to_owned()), ..DeploymentQuery::default() };
    api.deployments(&query, &PageQuery::default()).await.unwrap().items.remove(0)
}

/// Reports like the device would.
async fn report(client: &Device, deployment: &str, version: u64, state: &str) {
    let body = json!({
        "deploymentId": deployment, "adoptedManifestVersion": version, "status": { "state": state },
        "components": [{ "name": "vision", "state": state }],
    });
    let response = client.post(&format!("/api/v1/deployments/{deployment}/status"), body.to_string()).await;
    assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
}
