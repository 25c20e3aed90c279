//! The agent with a third-party manager: install, update, remove, and late acceptance.

use crate::manager::Manager;
use crate::pki::{Authority, WFM, client_id, provision};
use crate::support::{Agent, eventually, quick, set};
use margrave_agent::AgentConfig;

struct Plant {
    manager: Manager,
    authority: Authority,
}

impl Plant {
    async fn new() -> Self {
        let authority = Authority::new("plant");
        let manager = Manager::start(&authority.svid(WFM), &authority).await;
        manager.publish(1, &[]);
        Self { manager, authority }
    }

    fn of_accepted_client(&self, name: &str) {
        self.manager.state().allowed.push(client_id(name));
    }

    /// A device with provisioned identity files and a base URL with a path.
    fn agent(&self) -> Agent {
        let folder = tempfile::tempdir().unwrap();
        let leaf = self.authority.svid(&client_id("press-07"));
        let [certificate, key, bundle] = provision(folder.path(), &leaf, &self.authority.pem);
        let mut config = AgentConfig { server: Some(self.manager.base_url()), ..AgentConfig::default() };
        quick(&mut config, &folder.path().join("state"));
        config.identity.certificate = Some(certificate);
        config.identity.key = Some(key);
        config.identity.trust_bundle = Some(bundle);
        Agent::with(config, folder)
    }
}

#[tokio::test]
async fn works_with_a_manager_with_prefix_and_unquoted_etag() {
    // W-01, W-03, W-07, W-12
    let plant = Plant::new().await;
    plant.of_accepted_client("press-07");
    let mut agent = plant.agent();
    let (first, second) = (set(3, "1.0.0"), set(2, "2.0.0"));
    plant.manager.publish(4, &first);
    agent.runs(&first).await;
    let is_reported =
        |version: u64, word: &str| plant.manager.last_report(first[0].id) == Some((version, word.to_owned()));
    eventually("the install is reported", || is_reported(4, "installed")).await;
    eventually("polls end in 304", || plant.manager.state().not_modified > 1).await;
    plant.manager.publish(5, &second);
    agent.runs(&second).await;
    eventually("the update is reported", || is_reported(5, "installed")).await;
    plant.manager.publish(6, &[]);
    agent.runs(&[]).await;
    eventually("the removal is reported", || is_reported(6, "removed")).await;
    {
        let state = plant.manager.state();
        assert!(state.strange.is_empty(), "asked for what it does not serve: {:?}", state.strange);
        let quoted = |held: &String| held.contains('"');
        assert!(!state.matched.iter().any(quoted), "an ETag goes back byte for byte: {:?}", state.matched);
    }
    agent.stop().await;
}

#[tokio::test]
async fn recovers_from_a_rejected_handshake_and_a_403() {
    // W-26, GEN-14
    let plant = Plant::new().await;
    let deployments = set(2, "1.0.0");
    plant.manager.publish(4, &deployments);
    let mut agent = plant.agent();
    // An empty list rejects all clients.
    eventually("refused in the handshake", || plant.manager.state().refused > 1).await;
    agent.runs(&[]).await;
    plant.of_accepted_client("press-07");
    agent.runs(&deployments).await;
    // Rejected again, in both ways: workloads keep running.
    let refused = std::mem::take(&mut plant.manager.state().refused);
    assert!(refused > 1);
    plant.manager.state().allowed.clear();
    plant.manager.publish(5, &[]);
    eventually("refused again", || plant.manager.state().refused > 1).await;
    agent.runs(&deployments).await;
    plant.manager.state().forbids = true;
    plant.of_accepted_client("press-07");
    agent.in_trouble("703").await;
    agent.runs(&deployments).await;
    plant.manager.state().forbids = false;
    agent.runs(&[]).await;
    agent.stop().await;
}
