//! The fleet behind `margrave demo`: sample applications, simulated devices, a few deployments.
//!
//! Everything goes through the public API and the real agent, so the demo shows the product and nothing else.

// Suggested reading order.
mod devices;
pub mod fleet;
pub mod real;
pub mod samples;
mod seed;

use anyhow::Context as _;
use devices::DemoDevices;
use fleet::DemoClient;
use margrave_agent::enrol::Enrolment;
use margrave_api::client::ApiClient;
use margrave_api::deployments::{Convergence, Deployment};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Written when everything is seeded, so that a second start finds what people have made of it.
const SEEDED_FILE: &str = "demo-seeded";
/// How often the demo looks whether something has happened.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The fleet, running.
#[derive(Debug)]
pub struct Demo {
    api: ApiClient,
    clients: Vec<DemoClient>,
    devices: DemoDevices,
    /// Whether this start has seeded the fleet.
    pub first_start: bool,
}

/// How many devices and deployments there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub clients: usize,
    pub devices: usize,
    pub deployments: usize,
}

impl Demo {
    /// Brings the fleet up; `say` is told what is going on. `data` is the server's data folder.
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
            say("labelling devices, making groups and the first deployments");
            seed::labels(&self.api, &self.clients).await?;
            seed::groups(&self.api).await?;
            seed::deployments(&self.api).await?;
            std::fs::write(marker, "").with_context(|| format!("write {}", marker.display()))?;
        }
        Ok(())
    }

    async fn start_devices(&self, folder: &Path, say: &(dyn Fn(&str) + Sync)) -> anyhow::Result<()> {
        let trust = self.api.trust().await.context("ask for the trust domain")?;
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

    /// Makes this machine a device of the fleet, with the engine it has; returns when the server knows it.
    pub async fn add_this_machine(&self, data: &Path, engine: &real::Engine) -> anyhow::Result<()> {
        let trust = self.api.trust().await.context("ask for the trust domain")?;
        devices::accept(&self.api, real::DEVICE, "the machine the demo runs on").await?;
        let folder = data.join("devices").join(real::DEVICE);
        let config = real::configuration(&self.api, &trust, &folder, engine).await?;
        if Enrolment::load(&config.state_dir).is_none() {
            devices::enrol_with_token(&self.api, real::DEVICE, &config).await?;
        }
        let runtime = margrave_agent::runtimes::open(&config).context("open the runtime of this machine")?;
        self.devices.start_with(real::DEVICE, config, runtime);
        let own = (real::DEVICE.to_owned(), real::DEVICE.to_owned());
        while !seed::devices(&self.api).await?.contains(&own) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Until every device has said what it is.
    async fn wait_for_devices(&self, say: &(dyn Fn(&str) + Sync)) -> anyhow::Result<()> {
        let expected = self.expected_devices();
        loop {
            let known: BTreeSet<_> = seed::devices(&self.api).await?.into_iter().collect();
            let there = expected.intersection(&known).count();
            say(&format!("waiting for devices: {there} of {} are here", expected.len()));
            if there == expected.len() {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
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

    /// Waits until every device that runs has done what it can: all is installed, but for the one made to fail and the
    /// one that is never there. The caller sets the time limit.
    pub async fn converged(&self) -> anyhow::Result<Size> {
        loop {
            let deployments = seed::all_deployments(&self.api).await?;
            let open = deployments.iter().filter(|deployment| !self.is_as_expected(deployment)).count();
            if open == 0 && !deployments.is_empty() {
                let devices = seed::devices(&self.api).await?.len();
                return Ok(Size { clients: self.clients.len(), devices, deployments: deployments.len() });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn is_as_expected(&self, deployment: &Deployment) -> bool {
        let client = self.clients.iter().find(|client| client.id == deployment.client);
        match (client, deployment.convergence) {
            (Some(client), Convergence::Waiting | Convergence::NotHeardOf) => !client.online,
            (Some(client), Convergence::Failed) => client.behaviour.contains("always"),
            (_, convergence) => convergence == Convergence::Converged,
        }
    }

    /// Stops every device; what it has installed is there at the next start.
    pub async fn stop(self) {
        self.devices.stop().await;
    }
}
