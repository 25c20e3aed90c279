//! A third-party device: sends numbered capabilities and statuses, and records which were acknowledged.

use super::RunContext;
use crate::chaos::device::DeviceClient;
use crate::simulation::capabilities;
use margo::DeploymentId;
use margo::status::{ComponentStatus, DeploymentStatus, State, StatusError};
use margrave_api::client::{ApiClient, DeploymentQuery, PageQuery};
use margrave_api::deployments::Desired;

pub struct ThirdPartyDevice {
    pub client: String,
    pub device: DeviceClient,
}

impl ThirdPartyDevice {
    /// Reports alternately until the end of the run.
    pub async fn live(self, mut stage: RunContext) {
        while !stage.is_over() {
            stage.ready().await;
            let _ = self.report_itself(&stage).await;
            let _ = self.report_deployments(&stage).await;
            tokio::task::yield_now().await;
        }
    }

    pub async fn report_itself(&self, stage: &RunContext) -> reqwest::Result<()> {
        let number = stage.ledger().capabilities.entry(self.client.clone()).or_default().count_up();
        let mut body = capabilities(&self.client, Some("compose"));
        body["labels"]["kill.example/report"] = number.into();
        let code = self.device.put_capabilities(&self.client, body.to_string()).await?;
        note(stage, code, "capabilities", |stage| {
            stage.ledger().capabilities.entry(self.client.clone()).or_default().acknowledged = Some(number);
        });
        Ok(())
    }

    async fn report_deployments(&self, stage: &RunContext) -> reqwest::Result<()> {
        let Some(fetched) = self.device.manifest(None).await? else { return Ok(()) };
        for deployment in fetched.manifest.deployments {
            let id = deployment.deployment_id;
            let number = stage.ledger().statuses.entry(id.to_string()).or_default().count_up();
            let status = numbered(id, fetched.manifest.manifest_version, number);
            let code = self.device.post_status(&status).await?;
            note(stage, code, "status", |stage| {
                stage.ledger().statuses.entry(id.to_string()).or_default().acknowledged = Some(number);
            });
        }
        Ok(())
    }
}

fn note(stage: &RunContext, code: u16, what: &str, acknowledge: impl FnOnce(&RunContext)) {
    match code {
        200..=299 => acknowledge(stage),
        500.. => stage.ledger().server_errors.push(format!("{code} for a {what} report")),
        _ => {}
    }
}

/// A report with its number in a field that the operator API shows.
fn numbered(id: DeploymentId, adopted: u64, number: u64) -> DeploymentStatus {
    let error = StatusError { code: "900".to_owned(), source: "stranger".to_owned(), message: number.to_string() };
    DeploymentStatus {
        deployment_id: id,
        device_id: None,
        adopted_manifest_version: adopted,
        state: State::Failed,
        error: Some(error.clone()),
        components: vec![ComponentStatus {
            name: "alpha-compose-0".to_owned(),
            state: State::Failed,
            error: Some(error),
        }],
    }
}

/// After the check: reports success for all deployments, so that the fleet can converge.
pub async fn report_all_installed(stranger: &ThirdPartyDevice, api: &ApiClient) -> anyhow::Result<()> {
    let Some(fetched) = stranger.device.manifest(None).await? else { return Ok(()) };
    let adopted = fetched.manifest.manifest_version;
    let query =
        DeploymentQuery { client: Some(stranger.client.clone()), with_absent: true, ..DeploymentQuery::default() };
    let mut page = PageQuery::default();
    loop {
        let found = api.deployments(&query, &page).await?;
        for deployment in found.items {
            let state = if deployment.desired == Desired::Present { State::Installed } else { State::Removed };
            let mut status = numbered(deployment.id.parse()?, adopted, 0);
            status.state = state;
            status.error = None;
            status.components = vec![ComponentStatus { name: "alpha-compose-0".to_owned(), state, error: None }];
            let code = stranger.device.post_status(&status).await?;
            anyhow::ensure!((200..300).contains(&code), "{code} for the last report about {}", deployment.id);
        }
        match found.next {
            Some(next) => page = PageQuery::after(Some(next)),
            None => break,
        }
    }
    anyhow::ensure!(fetched.etag == Some(fetched.digest.etag()), "the ETag is the digest of the body (DS-14)");
    Ok(())
}
