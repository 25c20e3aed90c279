//! Deploys a sample application to all compatible devices of a fleet on a new server.

use crate::demo::samples::SAMPLES;
use anyhow::Context as _;
use indexmap::IndexMap;
use margrave_api::client::ApiClient;
use margrave_api::policies::PolicyPatch;
use margrave_api::rollouts::{CreateRollout, RolloutKind, Scope};
use serde_json::json;

const APPLICATION: &str = "line-monitor";
const REASON: &str = "set up by the simulator";

pub(super) async fn deploy(api: &ApiClient, prefix: &str) -> anyhow::Result<()> {
    let sample = SAMPLES.iter().find(|sample| sample.application == APPLICATION).context("find the sample")?;
    let archive = sample.archive().context("pack the sample application")?;
    api.upload_application(archive, Some("the simulator"), Some(REASON)).await.context("import the sample")?;
    let rollout = CreateRollout {
        kind: RolloutKind::Create,
        application: sample.application.to_owned(),
        version: Some(sample.version.to_owned()),
        profile: None,
        skip_incompatible: true,
        scope: Scope { selector: Some(format!("simulation={prefix}")), ..Scope::default() },
        values: IndexMap::from([("lineName".to_owned(), json!("simulated"))]),
        policy: PolicyPatch::default(),
        comment: Some(REASON.to_owned()),
    };
    api.create_rollout(&rollout).await.context("deploy the sample")?;
    Ok(())
}
