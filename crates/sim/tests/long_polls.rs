//! Long polls: the real server and the real agent over mutual TLS, with an hour between two ordinary polls.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use margrave_api::rollouts::{CreateRollout, RolloutKind, Scope};
use margrave_sim::chaos::agents::Agent;
use margrave_sim::chaos::site::Site;
use margrave_sim::chaos::wait;
use std::time::Duration;

/// Far below the poll interval of an hour; far above what a loaded machine needs.
const PATIENCE: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_polls_deliver_a_rollout_before_the_next_poll_and_after_a_server_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut site = Site::new(folder.path(), &folder.path().join("data")).unwrap();
    site.start().await.unwrap();
    let identity = site.mint("press").unwrap();
    let mut agent = Agent::new(folder.path(), "press", &identity, 0).unwrap();
    let config = folder.path().join("agents/press/agent.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("period = \"100ms\"", "period = \"1h\"")).unwrap();
    agent.daemon.start().unwrap();
    site.import("alpha", "1.0.0", 1).unwrap();
    site.import("beta", "1.0.0", 1).unwrap();

    waits(&mut site).await;
    deploy(&site, "alpha").await;
    runs(&agent, 1).await;
    waits(&mut site).await;
    // Killed: the agent gets no response.
    site.server.kill().unwrap();
    site.start().await.unwrap();
    waits(&mut site).await;
    deploy(&site, "beta").await;
    runs(&agent, 2).await;
}

/// Waits until the server has the agent's long poll open.
async fn waits(site: &mut Site) {
    let url = site.operators_url("/metrics");
    let http = margrave_sim::chaos::site::plain().unwrap();
    wait::until("an open long poll", PATIENCE, async || {
        let text = http.get(&url).send().await?.text().await?;
        let line =
            text.lines().find(|line| line.starts_with("margrave_long_polls_open ")).unwrap_or_default().to_owned();
        Ok(if line == "margrave_long_polls_open 1" { Ok(()) } else { Err(line) })
    })
    .await
    .unwrap();
}

async fn deploy(site: &Site, application: &str) {
    let body = CreateRollout {
        kind: RolloutKind::Create,
        application: application.to_owned(),
        version: Some("1.0.0".to_owned()),
        profile: None,
        scope: Scope { selector: Some(String::new()), ..Scope::default() },
        values: indexmap::IndexMap::new(),
        policy: margrave_api::policies::PolicyPatch::default(),
        skip_incompatible: false,
        comment: None,
    };
    let api = site.api().unwrap();
    wait::until("the first report of the device", PATIENCE, async || {
        Ok(api
            .create_deployments(&body)
            .await
            .map_err(|error| error.to_string())
            .and_then(|rollout| if rollout.total == 1 { Ok(()) } else { Err(format!("{} targets", rollout.total)) }))
    })
    .await
    .unwrap();
}

async fn runs(agent: &Agent, count: usize) {
    wait::until("the agent to apply it", PATIENCE, async || {
        let running = agent.world()?.deployments.len();
        Ok(if running == count { Ok(()) } else { Err(format!("{running} run")) })
    })
    .await
    .unwrap();
}
