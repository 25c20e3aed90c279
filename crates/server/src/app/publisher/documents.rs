//! The documents of a batch, composed in memory before the transaction begins.

use super::Parts;
use crate::app::compose::{ExistingDeployment, compose};
use crate::app::mask::Sensitive;
use margo::description::ApplicationDescription;
use margo::ids::{ApplicationId, ClientId, DeploymentId, DeviceTarget};
use margo::parameters::ValueError;
use margrave_core::model::{Deployment, Rollout, RolloutKind, RolloutTarget};
use margrave_core::skips::{SkipReason, ValueProblem};
use margrave_store::{BatchItem, BatchWrite, StoreError};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

pub(super) async fn items(
    parts: &Parts,
    rollout: &Rollout,
    targets: &[RolloutTarget],
) -> Result<Vec<BatchItem>, StoreError> {
    let mut known = VersionCache::default();
    // Two rollouts may have been planned before either was published; the second finds the place taken.
    let taken = match rollout.kind {
        RolloutKind::Create => taken(parts, rollout, targets).await?,
        RolloutKind::Remove | RolloutKind::Reconfigure | RolloutKind::Upgrade => HashMap::new(),
    };
    let mut items = Vec::with_capacity(targets.len());
    for target in targets {
        let write = match rollout.kind {
            RolloutKind::Remove => BatchWrite::Remove,
            RolloutKind::Create => match taken.get(&(&target.client, &target.target)) {
                Some(id) => BatchWrite::Skip(SkipReason::AlreadyDeployed { deployment: Some(*id) }),
                None => create(parts, &mut known, rollout, target).await?,
            },
            RolloutKind::Reconfigure | RolloutKind::Upgrade => replace(parts, &mut known, rollout, target).await?,
        };
        items.push(BatchItem { target: target.clone(), write });
    }
    Ok(items)
}

/// The targets of these that already have the application.
async fn taken<'t>(
    parts: &Parts,
    rollout: &Rollout,
    targets: &'t [RolloutTarget],
) -> Result<HashMap<(&'t ClientId, &'t DeviceTarget), DeploymentId>, StoreError> {
    let clients: BTreeSet<&ClientId> = targets.iter().map(|target| &target.client).collect();
    let clients: Vec<ClientId> = clients.into_iter().cloned().collect();
    let found = parts.store.application_locations(&rollout.application, &clients).await?;
    let place = |target: &'t RolloutTarget| {
        let at = found.iter().find(|place| place.client == target.client && place.target == target.target)?;
        Some(((&target.client, &target.target), at.deployment))
    };
    Ok(targets.iter().filter_map(place).collect())
}

async fn create(
    parts: &Parts,
    known: &mut VersionCache,
    rollout: &Rollout,
    target: &RolloutTarget,
) -> Result<BatchWrite, StoreError> {
    let Some(described) = known.version(parts, &rollout.application, &rollout.version).await? else {
        return Ok(gone(rollout, &rollout.version));
    };
    Ok(put(rollout, target, &rollout.version, &described, None))
}

async fn replace(
    parts: &Parts,
    known: &mut VersionCache,
    rollout: &Rollout,
    target: &RolloutTarget,
) -> Result<BatchWrite, StoreError> {
    let Some(view) = parts.store.deployment_get(target.deployment).await? else {
        return Ok(BatchWrite::Skip(SkipReason::DeploymentGone));
    };
    let Deployment { version: present, values, policy, .. } = view.deployment;
    let Some(old) = known.version(parts, &rollout.application, &present).await? else {
        return Ok(gone(rollout, &present));
    };
    // A reconfiguration keeps the version of the deployment.
    let version = if rollout.kind == RolloutKind::Upgrade { rollout.version.as_str() } else { present.as_str() };
    let Some(new) = known.version(parts, &rollout.application, version).await? else {
        return Ok(gone(rollout, version));
    };
    Ok(put(
        rollout,
        target,
        version,
        &new,
        Some(ExistingDeployment { values: &values, description: &old.description, policy }),
    ))
}

fn put(
    rollout: &Rollout,
    target: &RolloutTarget,
    version: &str,
    Described { description, sensitive }: &Described,
    before: Option<ExistingDeployment<'_>>,
) -> BatchWrite {
    let Rollout { values, policy, .. } = rollout;
    let composed = compose(target.deployment, &target.target, description, &target.profile, values, *policy, before);
    match composed {
        Ok(composed) => BatchWrite::Put {
            document: Box::new(composed.document),
            yaml: composed.yaml,
            version: version.to_owned(),
            sensitive: sensitive.is_in(&composed.values),
            values: composed.values,
        },
        Err(errors) => {
            let problem = |ValueError { field, message, .. }| ValueProblem {
                message: (!sensitive.has(&field)).then_some(message),
                field,
            };
            BatchWrite::Skip(SkipReason::InvalidValues { problems: errors.into_iter().map(problem).collect() })
        }
    }
}

fn gone(rollout: &Rollout, version: &str) -> BatchWrite {
    let (application, version) = (rollout.application.to_string(), version.to_owned());
    BatchWrite::Skip(SkipReason::VersionNotFound { application, version })
}

/// A version as needed by a batch.
struct Described {
    description: Arc<ApplicationDescription>,
    sensitive: Sensitive,
}

/// Versions loaded for this batch; most targets share one. A rollout has one application.
#[derive(Default)]
struct VersionCache(HashMap<String, Option<Arc<Described>>>);

impl VersionCache {
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
