//! The agent against a manager of the field: install, update, remove, and being let in late.

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

    fn let_in(&self, name: &str) {
        self.manager.state().allowed.push(client_id(name));
    }

    /// A device as an integrator sets it up: files of an identity, and the base URL with its path.
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
async fn a_manager_with_a_prefix_and_an_etag_of_its_own_is_served_to_the_end() {
    // W-01, W-03, W-07, W-12
    let plant = Plant::new().await;
    plant.let_in("press-07");
    let mut agent = plant.agent();
    let (first, second) = (set(3, "1.0.0"), set(2, "2.0.0"));
    plant.manager.publish(4, &first);
    agent.runs(&first).await;
    let told = |version: u64, word: &str| plant.manager.last_report(first[0].id) == Some((version, word.to_owned()));
    eventually("the install is reported", || told(4, "installed")).await;
    eventually("polls end in 304", || plant.manager.state().not_modified > 1).await;
    plant.manager.publish(5, &second);
    agent.runs(&second).await;
    eventually("the update is reported", || told(5, "installed")).await;
    plant.manager.publish(6, &[]);
    agent.runs(&[]).await;
    eventually("the removal is reported", || told(6, "removed")).await;
    {
        let state = plant.manager.state();
        assert!(state.strange.is_empty(), "asked for what it does not serve: {:?}", state.strange);
        let quoted = |held: &String| held.contains('"');
        assert!(!state.matched.iter().any(quoted), "an ETag goes back byte for byte: {:?}", state.matched);
    }
    agent.stop().await;
}

#[tokio::test]
async fn a_refused_handshake_and_a_403_are_waited_out() {
    // W-26, GEN-14
    let plant = Plant::new().await;
    let deployments = set(2, "1.0.0");
    plant.manager.publish(4, &deployments);
    let mut agent = plant.agent();
    // An empty list lets nobody in.
    eventually("refused in the handshake", || plant.manager.state().refused > 1).await;
    agent.runs(&[]).await;
    plant.let_in("press-07");
    agent.runs(&deployments).await;
    // Shut out again, in both ways: what runs keeps running.
    let refused = std::mem::take(&mut plant.manager.state().refused);
    assert!(refused > 1);
    plant.manager.state().allowed.clear();
    plant.manager.publish(5, &[]);
    eventually("refused again", || plant.manager.state().refused > 1).await;
    agent.runs(&deployments).await;
    plant.manager.state().forbids = true;
    plant.let_in("press-07");
    agent.in_trouble("703").await;
    agent.runs(&deployments).await;
    plant.manager.state().forbids = false;
    agent.runs(&[]).await;
    agent.stop().await;
}
