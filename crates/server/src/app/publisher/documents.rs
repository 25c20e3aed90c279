//! What a batch writes: the documents of its targets, composed in memory before the transaction begins.

use super::Parts;
use crate::app::compose::{Before, compose};
use crate::app::mask::Sensitive;
use margo::description::ApplicationDescription;
use margo::ids::{ApplicationId, ClientId, DeploymentId, DeviceTarget};
use margo::parameters::AnswerError;
use margrave_core::model::{Change, ChangeKind, ChangeTarget, Deployment};
use margrave_store::{BatchItem, BatchWrite, StoreError};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

pub(super) async fn items(
    parts: &Parts,
    change: &Change,
    targets: &[ChangeTarget],
) -> Result<Vec<BatchItem>, StoreError> {
    let mut known = Known::default();
    // Two changes may have been planned before either was published; the second finds the place taken.
    let taken = match change.kind {
        ChangeKind::Create => taken(parts, change, targets).await?,
        ChangeKind::Remove | ChangeKind::Reconfigure | ChangeKind::Upgrade => HashMap::new(),
    };
    let mut items = Vec::with_capacity(targets.len());
    for target in targets {
        let write = match change.kind {
            ChangeKind::Remove => BatchWrite::Remove,
            ChangeKind::Create => match taken.get(&(&target.client, &target.target)) {
                Some(id) => BatchWrite::Skip { reason: format!("the device has it already, as deployment {id}") },
                None => create(parts, &mut known, change, target).await?,
            },
            ChangeKind::Reconfigure | ChangeKind::Upgrade => replace(parts, &mut known, change, target).await?,
        };
        items.push(BatchItem { target: target.clone(), write });
    }
    Ok(items)
}

/// The places of these targets at which the application is already.
async fn taken<'t>(
    parts: &Parts,
    change: &Change,
    targets: &'t [ChangeTarget],
) -> Result<HashMap<(&'t ClientId, &'t DeviceTarget), DeploymentId>, StoreError> {
    let clients: BTreeSet<&ClientId> = targets.iter().map(|target| &target.client).collect();
    let clients: Vec<ClientId> = clients.into_iter().cloned().collect();
    let found = parts.store.application_places(&change.application, &clients).await?;
    let place = |target: &'t ChangeTarget| {
        let at = found.iter().find(|place| place.client == target.client && place.target == target.target)?;
        Some(((&target.client, &target.target), at.deployment))
    };
    Ok(targets.iter().filter_map(place).collect())
}

async fn create(
    parts: &Parts,
    known: &mut Known,
    change: &Change,
    target: &ChangeTarget,
) -> Result<BatchWrite, StoreError> {
    let Some(described) = known.version(parts, &change.application, &change.version).await? else {
        return Ok(gone(change, &change.version));
    };
    Ok(put(change, target, &change.version, &described, None))
}

async fn replace(
    parts: &Parts,
    known: &mut Known,
    change: &Change,
    target: &ChangeTarget,
) -> Result<BatchWrite, StoreError> {
    let Some(view) = parts.store.deployment_get(target.deployment).await? else {
        return Ok(BatchWrite::Skip { reason: "the deployment does not exist any more".to_owned() });
    };
    let Deployment { version: present, values, policy, .. } = view.deployment;
    let Some(old) = known.version(parts, &change.application, &present).await? else {
        return Ok(gone(change, &present));
    };
    // A reconfiguration stays on the version the deployment is on.
    let version = if change.kind == ChangeKind::Upgrade { change.version.as_str() } else { present.as_str() };
    let Some(new) = known.version(parts, &change.application, version).await? else {
        return Ok(gone(change, version));
    };
    Ok(put(change, target, version, &new, Some(Before { values: &values, description: &old.description, policy })))
}

fn put(
    change: &Change,
    target: &ChangeTarget,
    version: &str,
    Described { description, sensitive }: &Described,
    before: Option<Before<'_>>,
) -> BatchWrite {
    let Change { answers, policy, .. } = change;
    let composed = compose(target.deployment, &target.target, description, &target.profile, answers, *policy, before);
    match composed {
        Ok(composed) => BatchWrite::Put {
            document: Box::new(composed.document),
            yaml: composed.yaml,
            version: version.to_owned(),
            sensitive: sensitive.is_in(&composed.values),
            values: composed.values,
        },
        Err(errors) => {
            let say = |error: &AnswerError| {
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

/// A version as a batch needs it.
struct Described {
    description: Arc<ApplicationDescription>,
    sensitive: Sensitive,
}

/// Versions looked up for this batch; most targets share one. A change has one application.
#[derive(Default)]
struct Known(HashMap<String, Option<Arc<Described>>>);

impl Known {
    async fn version(
        &mut self,
        parts: &Parts,
        application: &ApplicationId,
        version: &str,
    ) -> Result<Option<Arc<Described>>, StoreError> {
        if let Some(known) = self.0.get(version) {
            return Ok(known.clone());
        }
        let found = match parts.store.version_get(application, version).await? {
            Some(version) => {
                let description = parts.descriptions.get(&parts.store, &version).await?;
                let sensitive = Sensitive::of(Some(&description));
                Some(Arc::new(Described { description, sensitive }))
            }
            None => None,
        };
        self.0.insert(version.to_owned(), found.clone());
        Ok(found)
    }
}
