//! Several engines and one ledger, as one runtime.

use super::engine::{Engine, component, failed, unavailable};
use super::ledger::{Entry, Ledger};
use super::{Future, LogsQuery, Runtime};
use crate::disk::DiskError;
use crate::machine::io::{ApplyWork, Observation, ObservedComponent, ObservedDeployment, RemoveWork, Run, WorkFailure};
use crate::preload::Preload;
use indexmap::IndexMap;
use margo::DeploymentId;
use margrave_core::policy::{OnRemoval, Policy};
use std::path::Path;

/// All engines of this agent.
pub struct Engines {
    all: Vec<Box<dyn Engine>>,
    ledger: Ledger,
    types: &'static [&'static str],
}

impl Engines {
    /// The ledger is in `folder`.
    pub fn open(folder: &Path, engines: Vec<Box<dyn Engine>>) -> Result<Self, DiskError> {
        crate::disk::create_private_dir(folder).map_err(|source| DiskError::Io { path: folder.to_owned(), source })?;
        let types: Vec<_> = engines.iter().map(|engine| engine.deployment_type()).collect();
        // Once per agent process.
        Ok(Self { all: engines, ledger: Ledger::open(folder)?, types: types.leak() })
    }

    fn engine(&self, deployment_type: &str) -> Option<&dyn Engine> {
        self.all.iter().map(AsRef::as_ref).find(|engine| engine.deployment_type() == deployment_type)
    }

    async fn apply_one(&self, work: &ApplyWork) -> Result<(), WorkFailure> {
        let deployment_type = work.document.spec.deployment_profile.profile_type.as_str();
        let engine = self.engine(deployment_type).ok_or_else(|| failed(not_switched_on(deployment_type)))?;
        let name = &component(work).name;
        let mut before = self.ledger.get(work.deployment, name);
        if let Some(other) = before.take_if(|entry| entry.deployment_type != deployment_type) {
            self.remove_one(&other).await?;
        }
        let data = engine.prepare(work, before.as_ref()).await?;
        let entry = Entry {
            deployment: work.deployment,
            device: work.device.clone(),
            component: name.clone(),
            deployment_type: deployment_type.to_owned(),
            digest: work.digest.clone(),
            purge: Policy::of(&work.document).on_removal == OnRemoval::Purge,
            finished: false,
            data,
        };
        self.ledger.put(entry.clone()).map_err(|error| failed(error.chain()))?;
        engine.apply(work, &entry).await?;
        self.ledger.put(Entry { finished: true, ..entry }).map_err(|error| failed(error.chain()))
    }

    async fn remove_one(&self, entry: &Entry) -> Result<(), WorkFailure> {
        let engine =
            self.engine(&entry.deployment_type).ok_or_else(|| unavailable(not_switched_on(&entry.deployment_type)))?;
        engine.remove(entry).await?;
        self.ledger.remove(entry.deployment, &entry.component).map_err(|error| failed(error.chain()))
    }

    async fn look(&self) -> Result<Observation, String> {
        let entries = self.ledger.entries();
        let mut seen: IndexMap<DeploymentId, ObservedDeployment> = IndexMap::new();
        let mut restarted = Vec::new();
        let mut problems = Vec::new();
        let mut answered = self.all.is_empty();
        for engine in &self.all {
            let of_it = |entry: &&Entry| entry.deployment_type == engine.deployment_type();
            let own: Vec<Entry> = entries.iter().filter(of_it).cloned().collect();
            match engine.observe(&own).await {
                Ok(found) => {
                    answered = true;
                    if engine.has_restarted() {
                        restarted.extend(own.iter().map(|entry| entry.deployment));
                    }
                    for (entry, found) in own.iter().zip(found) {
                        note(&mut seen, entry, Some(found));
                    }
                }
                Err(problem) => {
                    problems.push(problem);
                    for entry in &own {
                        note(&mut seen, entry, None);
                    }
                }
            }
        }
        for entry in entries.iter().filter(|entry| self.engine(&entry.deployment_type).is_none()) {
            note(&mut seen, entry, None);
        }
        if answered { Ok(Observation { deployments: seen, restarted }) } else { Err(problems.join("; ")) }
    }

    fn of_deployment(&self, deployment: DeploymentId, component: Option<&str>) -> Vec<Entry> {
        let mut entries = self.ledger.entries();
        entries.retain(|entry| {
            entry.deployment == deployment && component.is_none_or(|component| entry.component == component)
        });
        entries
    }
}

/// A deployment with a component in unknown state is unknown.
fn note(seen: &mut IndexMap<DeploymentId, ObservedDeployment>, entry: &Entry, found: Option<ObservedComponent>) {
    let device = entry.device.clone();
    let Some(mut found) = found else {
        seen.insert(entry.deployment, ObservedDeployment::Unknown { device });
        return;
    };
    if !entry.finished {
        // It was not applied completely, so it is applied again.
        found.run = Run::Stopped { message: "was not applied completely".to_owned() };
    }
    let known = seen
        .entry(entry.deployment)
        .or_insert_with(|| ObservedDeployment::Known { device, components: IndexMap::new() });
    if let ObservedDeployment::Known { components, .. } = known {
        components.insert(entry.component.clone(), found);
    }
}

fn not_switched_on(deployment_type: &str) -> String {
    format!("deployments of type `{deployment_type}` are not switched on in this agent's settings")
}

impl Runtime for Engines {
    fn apply(&self, work: ApplyWork) -> Future<'_, Result<(), WorkFailure>> {
        Box::pin(async move { self.apply_one(&work).await })
    }

    fn remove(&self, work: RemoveWork) -> Future<'_, Result<(), WorkFailure>> {
        Box::pin(async move {
            // In reverse order of installation.
            for entry in self.of_deployment(work.deployment, work.component.as_deref()).iter().rev() {
                self.remove_one(entry).await?;
            }
            Ok(())
        })
    }

    fn observe(&self) -> Future<'_, Result<Observation, String>> {
        Box::pin(self.look())
    }

    fn changed(&self) -> Future<'_, ()> {
        Box::pin(async move {
            let waiting: Vec<_> = self.all.iter().map(|engine| engine.changed()).collect();
            if waiting.is_empty() {
                return std::future::pending().await;
            }
            futures_util::future::select_all(waiting).await;
        })
    }

    fn hold(&self, held: bool) {
        self.all.iter().for_each(|engine| engine.hold(held));
    }

    fn logs(&self, desired: LogsQuery) -> Future<'_, Result<String, String>> {
        Box::pin(async move {
            let LogsQuery { deployment, component, lines } = desired;
            let entries = self.of_deployment(deployment, component.as_deref());
            if entries.is_empty() {
                return Err(format!("deployment {deployment} is not on this device"));
            }
            let mut text = String::new();
            for entry in &entries {
                let engine = self.engine(&entry.deployment_type);
                let engine = engine.ok_or_else(|| not_switched_on(&entry.deployment_type))?;
                text.push_str(&engine.logs(entry, lines).await?);
            }
            Ok(text)
        })
    }

    fn preload(&self, preload: &Preload) -> Result<(), String> {
        self.all.iter().try_for_each(|engine| engine.preload(preload))
    }

    fn deployment_types(&self) -> &'static [&'static str] {
        self.types
    }
}
