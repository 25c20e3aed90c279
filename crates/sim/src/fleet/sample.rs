//! Something to do for a fleet on a fresh server: a sample application on every device it fits.

use crate::demo::samples::SAMPLES;
use anyhow::Context as _;
use indexmap::IndexMap;
use margrave_api::changes::{ChangeKind, CreateChange, Scope};
use margrave_api::client::ApiClient;
use margrave_api::policies::PolicyWish;
use serde_json::json;

const APPLICATION: &str = "line-monitor";
const REASON: &str = "set up by the simulator";

pub(super) async fn deploy(api: &ApiClient, prefix: &str) -> anyhow::Result<()> {
    let sample = SAMPLES.iter().find(|sample| sample.application == APPLICATION).context("find the sample")?;
    let archive = sample.archive().context("pack the sample application")?;
    api.upload_application(archive, Some("the simulator"), Some(REASON)).await.context("import the sample")?;
    let change = CreateChange {
        kind: ChangeKind::Create,
        application: sample.application.to_owned(),
        version: Some(sample.version.to_owned()),
        profile: None,
        skip_unfit: true,
        scope: Scope { selector: Some(format!("simulation={prefix}")), ..Scope::default() },
        answers: IndexMap::from([("lineName".to_owned(), json!("simulated"))]),
        policy: PolicyWish::default(),
        reason: Some(REASON.to_owned()),
    };
    api.create_change(&change).await.context("deploy the sample")?;
    Ok(())
}
