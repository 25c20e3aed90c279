//! A random operator: creates, reconfigures, upgrades, removes, labels, and blocks clients for a while.

use super::server::{Server, actor, unexpected};
use super::violation::Violation;
use indexmap::IndexMap;
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::description::ApplicationDescription;
use margo::ids::{ApplicationId, DeploymentId, DeviceTarget};
use margo::parameters::ParameterValues;
use margrave_core::model::{Deployment, Desired, Device, Rollout, RolloutKind, RolloutTarget};
use margrave_core::placement::place;
use margrave_core::time::Timestamp;
use margrave_store::{DeploymentFilter, DeviceFilter};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{Rng, RngCore as _, SeedableRng as _};
use uuid::Uuid;

/// Most deployments at a time, so that runs stay small.
const DEPLOYMENTS_MAX: usize = 6;

pub(crate) struct Operator {
    dice: StdRng,
}

impl Operator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { dice: StdRng::seed_from_u64(seed) }
    }

    fn id(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        self.dice.fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// Draws a random valid rollout, or none.
    pub(crate) async fn draw(&mut self, server: &Server, now: Timestamp) -> Result<Option<Rollout>, Violation> {
        let present = present(server).await?;
        let kind = match self.dice.random_range(0..10) {
            _ if present.is_empty() => RolloutKind::Create,
            0..=3 if present.len() < DEPLOYMENTS_MAX => RolloutKind::Create,
            0..=5 => RolloutKind::Reconfigure,
            6..=7 => RolloutKind::Upgrade,
            _ => RolloutKind::Remove,
        };
        match kind {
            RolloutKind::Create => self.create(server, now).await,
            _ => Ok(self.rollout_some(kind, present, now)),
        }
    }

    async fn create(&mut self, server: &Server, now: Timestamp) -> Result<Option<Rollout>, Violation> {
        let store = server.store();
        let devices = store.devices_page(&DeviceFilter::default(), None, 100).await.map_err(unexpected)?;
        let (application, version) =
            *[("alpha", "1.0.0"), ("beta", "1.0.0"), ("beta", "2.0.0")].choose(&mut self.dice).expect("not empty");
        let application: ApplicationId = application.parse().expect("letters");
        let shipped = store.version_get(&application, version).await.map_err(unexpected)?.expect("in the template");
        let description = server.parts().descriptions.get(store, &shipped).await.map_err(unexpected)?;
        let mut fitting: Vec<(Device, String)> = devices
            .into_iter()
            .filter_map(|device| profile_for(&description, &device).map(|profile| (device, profile)))
            .collect();
        if fitting.is_empty() {
            return Ok(None);
        }
        fitting.shuffle(&mut self.dice);
        fitting.truncate(self.dice.random_range(1..=3));
        let targets = fitting
            .into_iter()
            .map(|(device, profile)| RolloutTarget {
                deployment: DeploymentId(self.id()),
                client: device.key.client.clone(),
                target: self.target(&device),
                profile,
                expected_revision: None,
            })
            .collect();
        let values = self.values();
        Ok(Some(self.rollout(RolloutKind::Create, application, version, values, targets, now)))
    }

    /// Sometimes the gateway selects the child (GW-04).
    fn target(&mut self, device: &Device) -> DeviceTarget {
        match device.key.device.parent() {
            Some(gateway) if self.dice.random_bool(0.3) => {
                format!("{gateway}/*").parse().expect("a device id with a star")
            }
            _ => DeviceTarget::from(&device.key.device),
        }
    }

    /// Few values, so that deployments often return to earlier content.
    fn values(&mut self) -> ParameterValues {
        let mode = *["plain", "fancy", "quiet"].choose(&mut self.dice).expect("not empty");
        IndexMap::from([("mode".to_owned(), serde_json::Value::from(mode))])
    }

    fn rollout_some(&mut self, kind: RolloutKind, mut present: Vec<Deployment>, now: Timestamp) -> Option<Rollout> {
        present.shuffle(&mut self.dice);
        let first = present.first()?;
        let application = first.application.clone();
        let version = match kind {
            RolloutKind::Upgrade => match application.as_str() {
                "alpha" => *["1.0.0", "1.1.0"].choose(&mut self.dice).expect("not empty"),
                _ => *["1.0.0", "2.0.0"].choose(&mut self.dice).expect("not empty"),
            }
            .to_owned(),
            _ => first.version.clone(),
        };
        let same = |deployment: &Deployment| {
            deployment.application == application && (kind == RolloutKind::Upgrade || deployment.version == version)
        };
        let mut chosen: Vec<Deployment> = present.iter().filter(|deployment| same(deployment)).cloned().collect();
        chosen.truncate(self.dice.random_range(1..=3));
        let targets = chosen
            .into_iter()
            .map(|deployment| RolloutTarget {
                deployment: deployment.id,
                client: deployment.client,
                target: deployment.target,
                profile: deployment.profile,
                expected_revision: Some(deployment.revision),
            })
            .collect();
        let values = if kind == RolloutKind::Reconfigure { self.values() } else { ParameterValues::new() };
        Some(self.rollout(kind, application, &version, values, targets, now))
    }

    fn rollout(
        &mut self,
        kind: RolloutKind,
        application: ApplicationId,
        version: &str,
        values: ParameterValues,
        targets: Vec<RolloutTarget>,
        now: Timestamp,
    ) -> Rollout {
        Rollout {
            id: self.id(),
            kind,
            application,
            version: version.to_owned(),
            values,
            sensitive: false,
            policy: margrave_core::policy::PolicyUpdate::default(),
            targets,
            done: 0,
            skipped: Vec::new(),
            actor: actor("operator"),
            created_at: now,
            finished_at: None,
            rollback_to: None,
        }
    }
}

fn profile_for(description: &ApplicationDescription, device: &Device) -> Option<String> {
    let read = DeviceCapabilities::read(&device.capabilities, UnknownTypes::Refuse).ok()?;
    place(description, &read.document, None).profile
}

/// Deployments that should run.
pub(crate) async fn present(server: &Server) -> Result<Vec<Deployment>, Violation> {
    let page = server
        .store()
        .deployments_page(&DeploymentFilter::default(), Timestamp(0), None, 1000)
        .await
        .map_err(unexpected)?;
    Ok(page.into_iter().map(|view| view.deployment).filter(|one| one.desired == Desired::Present).collect())
}
