//! News reaches an agent that waits: the real server, the real agent, mutual TLS between them, an hour between two polls.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use margrave_api::changes::{ChangeKind, CreateChange, Scope};
use margrave_sim::chaos::agents::Agent;
use margrave_sim::chaos::site::Site;
use margrave_sim::chaos::wait;
use std::time::Duration;

/// Far below the hour an ordinary poll would take; far above what a loaded machine needs.
const PATIENCE: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_reaches_an_agent_that_polls_once_an_hour_also_after_a_restart_of_the_server() {
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
    // Killed: nobody lets the agent know.
    site.server.kill().unwrap();
    site.start().await.unwrap();
    waits(&mut site).await;
    deploy(&site, "beta").await;
    runs(&agent, 2).await;
}

/// Until the agent's poll is held by the server.
async fn waits(site: &mut Site) {
    let url = site.operators_url("/metrics");
    let http = margrave_sim::chaos::site::plain().unwrap();
    wait::until("a poll being held", PATIENCE, async || {
        let text = http.get(&url).send().await?.text().await?;
        let line = text.lines().find(|line| line.starts_with("margrave_polls_held ")).unwrap_or_default().to_owned();
        Ok(if line == "margrave_polls_held 1" { Ok(()) } else { Err(line) })
    })
    .await
    .unwrap();
}

async fn deploy(site: &Site, application: &str) {
    let body = CreateChange {
        kind: ChangeKind::Create,
        application: application.to_owned(),
        version: Some("1.0.0".to_owned()),
        profile: None,
        scope: Scope { selector: Some(String::new()), ..Scope::default() },
        answers: indexmap::IndexMap::new(),
        policy: margrave_api::policies::PolicyWish::default(),
        skip_unfit: false,
        reason: None,
    };
    let api = site.api().unwrap();
    wait::until("the device being known", PATIENCE, async || {
        Ok(api
            .create_deployments(&body)
            .await
            .map_err(|error| error.to_string())
            .and_then(|change| if change.total == 1 { Ok(()) } else { Err(format!("{} targets", change.total)) }))
    })
    .await
    .unwrap();
}

async fn runs(agent: &Agent, count: usize) {
    wait::until("the agent carrying it out", PATIENCE, async || {
        let running = agent.world()?.deployments.len();
        Ok(if running == count { Ok(()) } else { Err(format!("{running} run")) })
    })
    .await
    .unwrap();
}
