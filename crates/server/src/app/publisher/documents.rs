//! What a batch writes: the documents of its targets, composed in memory before the transaction begins.

use super::Parts;
use crate::app::compose::{Before, compose};
use crate::app::mask::Sensitive;
use margo::description::ApplicationDescription;
use margo::ids::ApplicationId;
use margo::problem::FieldError;
use margrave_core::model::{Change, ChangeKind, ChangeTarget, Deployment};
use margrave_store::{BatchItem, BatchWrite, DeploymentFilter, StoreError};
use std::sync::Arc;

pub(super) async fn items(
    parts: &Parts,
    change: &Change,
    targets: &[ChangeTarget],
) -> Result<Vec<BatchItem>, StoreError> {
    let mut items = Vec::with_capacity(targets.len());
    for target in targets {
        let write = match change.kind {
            ChangeKind::Remove => BatchWrite::Remove,
            ChangeKind::Create => create(parts, change, target).await?,
            ChangeKind::Reconfigure | ChangeKind::Upgrade => replace(parts, change, target).await?,
        };
        items.push(BatchItem { target: target.clone(), write });
    }
    Ok(items)
}

async fn create(parts: &Parts, change: &Change, target: &ChangeTarget) -> Result<BatchWrite, StoreError> {
    let Some(description) = description(parts, &change.application, &change.version).await? else {
        return Ok(gone(change, &change.version));
    };
    // Two changes may have been planned before either was published; the second finds the place taken.
    let filter = DeploymentFilter {
        application: Some(change.application.clone()),
        client: Some(target.client.clone()),
        target: Some(target.target.clone()),
        ..DeploymentFilter::default()
    };
    if let Some(view) = parts.store.deployments_page(&filter, parts.clock.now(), None, 1).await?.first() {
        let reason = format!("the device has it already, as deployment {}", view.deployment.id);
        return Ok(BatchWrite::Skip { reason });
    }
    Ok(put(change, target, &change.version, &description, None))
}

async fn replace(parts: &Parts, change: &Change, target: &ChangeTarget) -> Result<BatchWrite, StoreError> {
    let Some(view) = parts.store.deployment_get(target.deployment).await? else {
        return Ok(BatchWrite::Skip { reason: "the deployment does not exist any more".to_owned() });
    };
    let Deployment { version: present, values, .. } = view.deployment;
    let Some(old) = description(parts, &change.application, &present).await? else {
        return Ok(gone(change, &present));
    };
    // A reconfiguration stays on the version the deployment is on.
    let version = if change.kind == ChangeKind::Upgrade { change.version.as_str() } else { present.as_str() };
    let Some(new) = description(parts, &change.application, version).await? else {
        return Ok(gone(change, version));
    };
    Ok(put(change, target, version, &new, Some(Before { values: &values, description: &old })))
}

fn put(
    change: &Change,
    target: &ChangeTarget,
    version: &str,
    description: &ApplicationDescription,
    before: Option<Before<'_>>,
) -> BatchWrite {
    let composed = compose(target.deployment, &target.target, description, &target.profile, &change.answers, before);
    match composed {
        Ok(composed) => BatchWrite::Put {
            document: Box::new(composed.document),
            yaml: composed.yaml,
            version: version.to_owned(),
            values: composed.values,
        },
        Err(errors) => {
            let sensitive = Sensitive::of(Some(description));
            let say = |error: &FieldError| {
                let hidden = sensitive.has(&error.field);
                let message = if hidden { "its value is not accepted" } else { &error.message };
                format!("{}: {message}", error.field)
            };
            let reasons: Vec<String> = errors.iter().map(say).collect();
            BatchWrite::Skip { reason: reasons.join("; ") }
        }
    }
}

fn gone(change: &Change, version: &str) -> BatchWrite {
    BatchWrite::Skip { reason: format!("`{}` {version} is not in the catalog any more", change.application) }
}

async fn description(
    parts: &Parts,
    application: &ApplicationId,
    version: &str,
) -> Result<Option<Arc<ApplicationDescription>>, StoreError> {
    match parts.store.version_get(application, version).await? {
        Some(version) => Ok(Some(parts.descriptions.get(&parts.store, &version).await?)),
        None => Ok(None),
    }
}
