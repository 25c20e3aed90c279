//! Clients, devices, documents and rollouts for tests.

use indexmap::IndexMap;
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::deployment::{ApplicationDeployment, DeployedProfile, DeploymentMetadata, DeploymentSpec, ParameterValue};
use margo::description::{Component, ComponentProperties, ComponentSource, Extensions, ProfileType};
use margo::ids::{ApplicationId, ClientId, DeploymentId, DeviceTarget};
use margo::parameters::{ParameterValues, Target};
use margo::status::{DeploymentStatus, State};
use margrave_core::model::{Actor, ClientState, DeviceKey, Rollout, RolloutKind, RolloutTarget};
use margrave_core::time::Timestamp;
use margrave_store::{BatchItem, BatchWrite, Head, StatusWrite, Store};
use serde_json::{Value, json};
use std::time::Duration;
use uuid::Uuid;

pub(crate) const T0: Timestamp = Timestamp(1_790_000_000_000_000);

pub(crate) fn at(seconds: u64) -> Timestamp {
    T0.plus(Duration::from_secs(seconds))
}

pub(crate) fn actor() -> Actor {
    Actor { name: "token:test".into(), comment: Some("to see".into()), request_id: Some("r-1".into()) }
}

pub(crate) fn client(number: usize) -> ClientId {
    format!("client-{number:05}").parse().unwrap()
}

pub(crate) fn deployment(number: u128) -> DeploymentId {
    DeploymentId(Uuid::from_u128(number))
}

pub(crate) fn application() -> ApplicationId {
    "digitron".parse().unwrap()
}

pub(crate) async fn accept(store: &Store, number: usize) -> ClientId {
    let client = client(number);
    store.client_create(&actor(), &client, ClientState::Accepted, None, T0).await.unwrap();
    client
}

/// A capabilities document with these labels.
pub(crate) fn capabilities(device: &str, labels: &Value) -> (DeviceCapabilities, Vec<u8>) {
    let body = json!({
        "properties": { "id": device, "vendor": "Example", "modelNumber": "E-1", "serialNumber": "1" },
        "labels": labels,
    });
    let body = serde_json::to_vec(&body).unwrap();
    (DeviceCapabilities::read(&body, UnknownTypes::Refuse).unwrap().document, body)
}

pub(crate) fn key(client: &ClientId, device: &str) -> DeviceKey {
    DeviceKey { client: client.clone(), device: device.parse().unwrap() }
}

pub(crate) async fn report_device(store: &Store, client: &ClientId, device: &str, labels: &Value) {
    let (capabilities, body) = capabilities(device, labels);
    store.device_put(&key(client, device), &capabilities, &body, T0).await.unwrap();
}

/// A document whose content depends on `greeting` alone.
pub(crate) fn document(id: DeploymentId, target: &DeviceTarget, greeting: &str) -> ApplicationDeployment {
    let component = Component {
        name: "web".into(),
        properties: ComponentProperties {
            source: ComponentSource::Oci { repository: "oci://registry.example/web".into(), revision: "1.0.0".into() },
            wait: None,
            timeout: None,
        },
        extensions: Extensions::new(),
    };
    let targets = vec![Target { pointer: "greeting".into(), components: vec!["web".into()] }];
    ApplicationDeployment {
        id,
        metadata: DeploymentMetadata {
            name: "digitron".into(),
            namespace: "digitron".into(),
            device_id: Some(target.clone()),
            labels: IndexMap::new(),
        },
        spec: DeploymentSpec {
            application_id: application(),
            deployment_profile: DeployedProfile {
                profile_type: ProfileType::Helm,
                components: vec![component],
                device_constraints: None,
                extensions: Extensions::new(),
            },
            parameters: IndexMap::from([("greeting".to_owned(), ParameterValue { value: json!(greeting), targets })]),
            extensions: Extensions::new(),
        },
    }
}

pub(crate) fn values(greeting: &str) -> ParameterValues {
    ParameterValues::from([("greeting".to_owned(), json!(greeting))])
}

pub(crate) fn target(client: &ClientId, id: DeploymentId, expected_revision: Option<i64>) -> RolloutTarget {
    RolloutTarget {
        deployment: id,
        client: client.clone(),
        target: client.as_str().parse().unwrap(),
        profile: "helm".into(),
        expected_revision,
    }
}

pub(crate) fn put(target: RolloutTarget, greeting: &str) -> BatchItem {
    put_as(target, greeting, false)
}

/// The greeting is sensitive.
pub(crate) fn put_sensitive(target: RolloutTarget, greeting: &str) -> BatchItem {
    put_as(target, greeting, true)
}

fn put_as(target: RolloutTarget, greeting: &str, sensitive: bool) -> BatchItem {
    let document = Box::new(document(target.deployment, &target.target, greeting));
    let yaml = document.to_yaml().into_bytes();
    let (version, values) = ("1.0.0".into(), values(greeting));
    BatchItem { target, write: BatchWrite::Put { document, yaml, version, values, sensitive } }
}

pub(crate) fn remove(target: RolloutTarget) -> BatchItem {
    BatchItem { target, write: BatchWrite::Remove }
}

pub(crate) fn yaml_of(item: &BatchItem) -> Vec<u8> {
    match &item.write {
        BatchWrite::Put { yaml, .. } => yaml.clone(),
        other => panic!("no document in {other:?}"),
    }
}

pub(crate) fn rollout(kind: RolloutKind, targets: Vec<RolloutTarget>, created_at: Timestamp) -> Rollout {
    Rollout {
        id: Uuid::new_v4(),
        kind,
        application: application(),
        version: "1.0.0".into(),
        values: values("hello"),
        sensitive: false,
        policy: margrave_core::policy::PolicyUpdate::default(),
        targets,
        done: 0,
        skipped: vec![],
        actor: actor(),
        created_at,
        finished_at: None,
        rollback_to: None,
    }
}

/// Records a rollout for these items and carries it out in one batch.
pub(crate) async fn apply(store: &Store, kind: RolloutKind, items: &[BatchItem], now: Timestamp) -> (Uuid, Vec<Head>) {
    let rollout = rollout(kind, items.iter().map(|item| item.target.clone()).collect(), now);
    store.rollout_create(&rollout).await.unwrap();
    let heads = store.rollout_apply(rollout.id, 0, items, now).await.unwrap();
    (rollout.id, heads)
}

/// Deploys number `id` to a client.
pub(crate) async fn deploy(store: &Store, client: &ClientId, id: u128, greeting: &str) -> DeploymentId {
    let id = deployment(id);
    apply(store, RolloutKind::Create, &[put(target(client, id, None), greeting)], T0).await;
    id
}

pub(crate) fn report(
    client: &ClientId,
    id: DeploymentId,
    state: State,
    adopted: u64,
    received_at: Timestamp,
) -> StatusWrite {
    let status = DeploymentStatus {
        deployment_id: id,
        device_id: None,
        adopted_manifest_version: adopted,
        state,
        error: None,
        components: vec![],
    };
    StatusWrite { client: client.clone(), body: status.to_json(), status, received_at }
}
