//! Seeds the demo at its first start: catalog, labels, groups, a few deployments. Every step is idempotent.

use super::fleet::DemoClient;
use super::samples::SAMPLES;
use anyhow::Context as _;
use indexmap::IndexMap;
use margrave_api::client::{ApiClient, DeploymentQuery, PageQuery};
use margrave_api::devices::{DeviceRef, PutGroup, UpdateDevice};
use margrave_api::policies::PolicyPatch;
use margrave_api::rollouts::{CreateRollout, RolloutKind, Scope};
use serde_json::{Value, json};

const REASON: &str = "set up by the demo";

/// Groups by name, with selector and description.
const GROUPS: [(&str, &str, &str); 3] = [
    ("graz", "site=graz", "Everything in Graz"),
    ("packaging", "plant.example/zone=packaging", "Packaging lines of all sites"),
    ("pressing", "plant.example/zone=pressing", "Presses of all sites"),
];

/// Imports missing samples.
pub(super) async fn catalog(api: &ApiClient) -> anyhow::Result<()> {
    for sample in SAMPLES {
        let archive = sample.archive().context("pack a sample application")?;
        let source = format!("samples/{}/{}", sample.application, sample.version);
        api.upload_application(archive, Some(&source), Some(REASON))
            .await
            .with_context(|| format!("import {source}"))?;
    }
    Ok(())
}

/// Sets operator labels.
pub(super) async fn labels(api: &ApiClient, clients: &[DemoClient]) -> anyhow::Result<()> {
    for client in clients {
        let labels = client.labels.iter().map(|(name, value)| ((*name).to_owned(), Some(value.clone()))).collect();
        let body = UpdateDevice { labels, comment: Some(REASON.to_owned()) };
        let children = client.children.iter().map(|(child, _)| format!("{}/{child}", client.id));
        for device in std::iter::once(client.id.clone()).chain(children) {
            api.update_device(&client.id, &device, &body, None)
                .await
                .with_context(|| format!("label device {device}"))?;
        }
    }
    Ok(())
}

pub(super) async fn groups(api: &ApiClient) -> anyhow::Result<()> {
    for (name, selector, description) in GROUPS {
        match api.group(name).await {
            Ok(_) => continue,
            Err(error) if error.code() == Some("not-found") => {}
            Err(error) => return Err(error).with_context(|| format!("get group {name}")),
        }
        let body = PutGroup {
            selector: selector.to_owned(),
            description: Some(description.to_owned()),
            comment: Some(REASON.to_owned()),
        };
        api.put_group(name, &body, None).await.with_context(|| format!("create group {name}"))?;
    }
    Ok(())
}

/// Three rollouts: one that succeeds, one with a failing device, one for an offline device.
pub(super) async fn deployments(api: &ApiClient) -> anyhow::Result<()> {
    let line = |name: &str| values(&[("lineName", json!(name))]);
    let selector = |text: &str| Scope { selector: Some(text.to_owned()), ..Scope::default() };
    let offline = DeviceRef { client: "offline-01".to_owned(), device: "offline-01".to_owned() };
    let desired = [
        ("line-monitor", "1.0.0", selector("site=linz"), line("Linz")),
        (
            "vibration-analytics",
            "2.3.0",
            Scope { group: Some("pressing".to_owned()), ..Scope::default() },
            values(&[("machineClass", json!("class-2"))]),
        ),
        ("line-monitor", "1.0.0", Scope { devices: Some(vec![offline]), ..Scope::default() }, line("Brno 2")),
    ];
    let there = api.rollouts(&PageQuery::default()).await.context("list rollouts")?.items.len();
    // Rollouts are created in this order, so existing ones are the first.
    for (application, version, scope, values) in desired.into_iter().skip(there) {
        let rollout = CreateRollout {
            kind: RolloutKind::Create,
            application: application.to_owned(),
            version: Some(version.to_owned()),
            profile: None,
            skip_incompatible: scope.devices.is_none(),
            scope,
            values,
            policy: PolicyPatch::default(),
            comment: Some(REASON.to_owned()),
        };
        api.create_rollout(&rollout).await.with_context(|| format!("deploy {application}"))?;
    }
    Ok(())
}

fn values(pairs: &[(&str, Value)]) -> IndexMap<String, Value> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// All devices on the server, by client.
pub(super) async fn devices(api: &ApiClient) -> anyhow::Result<Vec<(String, String)>> {
    let mut devices = Vec::new();
    let mut page = PageQuery::default();
    loop {
        let answer = api.devices(None, None, &page).await.context("list devices")?;
        devices.extend(answer.items.into_iter().map(|device| (device.client, device.device)));
        match answer.next {
            Some(next) => page.after = Some(next),
            None => return Ok(devices),
        }
    }
}

/// All current deployments.
pub(super) async fn all_deployments(api: &ApiClient) -> anyhow::Result<Vec<margrave_api::deployments::Deployment>> {
    let mut deployments = Vec::new();
    let mut page = PageQuery::default();
    loop {
        let answer = api.deployments(&DeploymentQuery::default(), &page).await.context("list deployments")?;
        deployments.extend(answer.items);
        match answer.next {
            Some(next) => page.after = Some(next),
            None => return Ok(deployments),
        }
    }
}
