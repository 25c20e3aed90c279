//! The fleet behind `margrave demo`: sample applications, simulated devices, a few deployments.
//!
//! Everything uses the public API and the real agent, so the demo shows the real product.

// Suggested reading order.
mod devices;
pub mod fleet;
pub mod real;
pub mod samples;
mod seed;

use anyhow::Context as _;
use devices::DemoDevices;
use fleet::DemoClient;
use margrave_agent::enroll::Enrollment;
use margrave_api::client::ApiClient;
use margrave_api::deployments::{Deployment, DeploymentState};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Marks a seeded fleet, so that a second start keeps the user's changes.
const SEEDED_FILE: &str = "demo-seeded";
/// Poll interval of the demo.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The running fleet.
#[derive(Debug)]
pub struct Demo {
    api: ApiClient,
    clients: Vec<DemoClient>,
    devices: DemoDevices,
    /// Whether this start seeded the fleet.
    pub first_start: bool,
}

/// Number of devices and deployments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub clients: usize,
    pub devices: usize,
    pub deployments: usize,
}

impl Demo {
    /// Starts the fleet and reports progress to `say`. `data` is the server's data folder.
    pub async fn start(api: ApiClient, data: &Path, count: usize, say: &(dyn Fn(&str) + Sync)) -> anyhow::Result<Self> {
        let marker = data.join(SEEDED_FILE);
        let first_start = !marker.exists();
        let clients = fleet::fleet(count);
        let demo = Self { api, clients, devices: DemoDevices::new(), first_start };
        let outcome = demo.bring_up(data, &marker, say).await;
        match outcome {
            Ok(()) => Ok(demo),
            Err(error) => {
                demo.stop().await;
                Err(error)
            }
        }
    }

    async fn bring_up(&self, data: &Path, marker: &PathBuf, say: &(dyn Fn(&str) + Sync)) -> anyhow::Result<()> {
        if self.first_start {
            say("importing the sample applications");
            seed::catalog(&self.api).await?;
        }
        self.start_devices(&data.join("devices"), say).await?;
        self.wait_for_devices(say).await?;
        if self.first_start {
            say("labeling devices, creating groups and deployments");
            seed::labels(&self.api, &self.clients).await?;
            seed::groups(&self.api).await?;
            seed::deployments(&self.api).await?;
            std::fs::write(marker, "").with_context(|| format!("write {}", marker.display()))?;
        }
        Ok(())
    }

    async fn start_devices(&self, folder: &Path, say: &(dyn Fn(&str) + Sync)) -> anyhow::Result<()> {
        let trust = self.api.trust().await.context("get the trust domain")?;
        let known: BTreeSet<_> = seed::devices(&self.api).await?.into_iter().collect();
        let total = self.clients.len();
        for (index, client) in self.clients.iter().enumerate() {
            say(&format!("starting device {} of {total}: {}", index + 1, client.id));
            let config = devices::set_up(&self.api, &trust, folder, client).await?;
            if client.online {
                self.devices.start(client, config)?;
            } else if !known.contains(&(client.id.clone(), client.id.clone())) {
                Box::pin(devices::visit(client, config)).await?;
            }
        }
        Ok(())
    }

    /// Adds this machine with its container engine to the fleet; returns once it has reported to the server.
    pub async fn add_this_machine(&self, data: &Path, engine: &real::Engine) -> anyhow::Result<()> {
        let trust = self.api.trust().await.context("get the trust domain")?;
        devices::accept(&self.api, real::DEVICE, "the machine that runs the demo").await?;
        let folder = data.join("devices").join(real::DEVICE);
        let config = real::configuration(&self.api, &trust, &folder, engine).await?;
        if Enrollment::load(&config.state_dir).is_none() {
            devices::enroll_with_token(&self.api, real::DEVICE, &config).await?;
        }
        let runtime = margrave_agent::runtimes::open(&config).context("open the runtime of this machine")?;
        self.devices.start_with(real::DEVICE, config, runtime);
        let own = (real::DEVICE.to_owned(), real::DEVICE.to_owned());
        while !seed::devices(&self.api).await?.contains(&own) {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        Ok(())
    }

    /// Waits until every device has reported its capabilities.
    async fn wait_for_devices(&self, say: &(dyn Fn(&str) + Sync)) -> anyhow::Result<()> {
        let expected = self.expected_devices();
        loop {
            let known: BTreeSet<_> = seed::devices(&self.api).await?.into_iter().collect();
            let there = expected.intersection(&known).count();
            say(&format!("waiting for devices: {there} of {} connected", expected.len()));
            if there == expected.len() {
                return Ok(());
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    fn expected_devices(&self) -> BTreeSet<(String, String)> {
        let mut expected = BTreeSet::new();
        for client in &self.clients {
            expected.insert((client.id.clone(), client.id.clone()));
            expected
                .extend(client.children.iter().map(|(child, _)| (client.id.clone(), format!("{}/{child}", client.id))));
        }
        expected
    }

    /// Waits until everything is installed, except on the device that always fails and the one that is always offline.
    /// The caller sets the time limit.
    pub async fn converged(&self) -> anyhow::Result<Size> {
        loop {
            let deployments = seed::all_deployments(&self.api).await?;
            let open = deployments.iter().filter(|deployment| !self.is_as_expected(deployment)).count();
            if open == 0 && !deployments.is_empty() {
                let devices = seed::devices(&self.api).await?.len();
                return Ok(Size { clients: self.clients.len(), devices, deployments: deployments.len() });
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    fn is_as_expected(&self, deployment: &Deployment) -> bool {
        let client = self.clients.iter().find(|client| client.id == deployment.client);
        match (client, deployment.state) {
            (Some(client), DeploymentState::Pending | DeploymentState::DeviceOffline) => !client.online,
            (Some(client), DeploymentState::Failed) => client.behavior.contains("always"),
            (_, deployment_state) => deployment_state.is_done(),
        }
    }

    /// Stops every device; installed workloads are restored at the next start.
    pub async fn stop(self) {
        self.devices.stop().await;
    }
}
