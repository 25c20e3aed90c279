//! Devices from disk images without an identity, and from copies of disks with one.

use crate::fake::{Fake, Reply, reply};
use crate::pki::{Authority, WFM, client_id};
use crate::support::{Agent, eventually, quick, set, version};
use margo::trust_bundle::TrustBundle;
use margrave_agent::AgentConfig;
use margrave_agent::enroll::Enrollment;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A manager that enrolls: one token, one key, one identity.
struct Site {
    fake: Fake,
    trust: Fake,
    pin: String,
    /// Token, and the public key that used it.
    used: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl Site {
    /// Tokens with their clients.
    async fn new(tokens: &'static [(&'static str, &'static str)]) -> Self {
        let (authority, web) = (Authority::new("plant"), Authority::new("web"));
        let fake = Fake::start(&authority.svid(WFM), &authority).await;
        let leaf = web.server();
        let pin = margo::Digest::of(&leaf.public_key).to_string();
        let trust = Fake::start_trust(&leaf).await;
        let used = Arc::new(Mutex::new(HashMap::<String, Vec<u8>>::new()));
        let (url, keys) = (fake.url(), Arc::clone(&used));
        let bundle =
            TrustBundle { sequence: Some(1), refresh_hint_seconds: None, anchors: vec![authority.der.clone()] };
        trust.twist(move |seen| {
            if seen.path != "/enrollment/v1" {
                return None;
            }
            let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
            let token = body["token"].as_str().unwrap();
            let Some((_, name)) = tokens.iter().find(|known| known.0 == token) else { return Some(reply(403, "")) };
            let (certificate, key) = authority.sign(body["csr"].as_str().unwrap(), &client_id(name));
            if keys.lock().unwrap().entry(token.to_owned()).or_insert_with(|| key.clone()) != &key {
                return Some(reply(403, ""));
            }
            let bundle: serde_json::Value = serde_json::from_slice(&bundle.to_json()).unwrap();
            let answer = serde_json::json!({
                "spiffeId": client_id(name), "certificate": certificate, "trustBundle": bundle, "wfmUrl": url,
            });
            let headers = vec![("content-type", "application/json".to_owned())];
            Some(Reply { status: 200, headers, body: answer.to_string().into_bytes() })
        });
        Self { fake, trust, pin, used }
    }

    /// A machine with a disk: the contents of the image, and the ids of the board.
    fn machine(&self, board: &str) -> (tempfile::TempDir, AgentConfig) {
        let folder = tempfile::tempdir().unwrap();
        let mut config = AgentConfig::default();
        quick(&mut config, &folder.path().join("state"));
        config.trust.url = Some(self.trust.url());
        config.trust.pin = Some(self.pin.clone());
        config.trust.token_file = Some(folder.path().join("token"));
        std::fs::write(folder.path().join("board"), format!("{board}\n")).unwrap();
        config.identity.machine_files = vec![folder.path().join("board"), folder.path().join("not-on-this-board")];
        (folder, config)
    }
}

fn identity(state_dir: &Path) -> Option<String> {
    let certificate = state_dir.join("identity/certificate.pem").exists();
    Enrollment::load(state_dir).filter(|_| certificate).map(|enrollment| enrollment.spiffe_id)
}

fn key(state_dir: &Path) -> String {
    std::fs::read_to_string(state_dir.join("identity/key.pem")).unwrap()
}

#[tokio::test]
async fn a_disk_image_without_identity_enrolls_at_first_boot() {
    // LC-01, ONB-01
    let site = Site::new(&[("mge_seven", "press-07")]).await;
    let deployments = set(2, "1.0.0");
    site.fake.publish(&version(0, &deployments), &deployments);
    let (folder, config) = site.machine("board-7");
    let token = folder.path().join("token");
    let mut agent = Agent::with(config, folder);
    // Booted without a token: it waits, and reports for what.
    let report = agent.in_trouble("710").await;
    assert!(report.troubles.iter().any(|trouble| trouble.message.contains("no identity yet")), "{report:?}");
    assert!(site.trust.seen().is_empty(), "no request without a token");
    std::fs::write(&token, "mge_seven\n").unwrap();
    agent.runs(&deployments).await;
    assert_eq!(identity(&agent.state_dir()), Some(client_id("press-07")));
    assert!(!token.exists(), "a used token is removed");
    agent.stop().await;
}

#[tokio::test]
async fn two_machines_of_one_image_and_one_token_never_share_an_identity() {
    let site = Site::new(&[("mge_seven", "press-07")]).await;
    site.fake.publish(&version(0, &[]), &[]);
    let machines = ["board-7", "board-8"].map(|board| site.machine(board));
    let mut agents = machines.map(|(folder, config)| {
        std::fs::write(folder.path().join("token"), "mge_seven").unwrap();
        Agent::with(config, folder)
    });
    let enrolled = |agent: &Agent| identity(&agent.state_dir()).is_some();
    let requested = || site.trust.seen().len() > 3;
    eventually("one is in, and both have asked more than once", || requested() && agents.iter().any(enrolled)).await;
    assert_eq!(agents.iter().filter(|agent| enrolled(agent)).count(), 1);
    assert_ne!(key(&agents[0].state_dir()), key(&agents[1].state_dir()));
    for agent in &mut agents {
        agent.stop().await;
    }
}

#[tokio::test]
async fn a_copied_disk_enrolls_as_a_new_device() {
    let site = Site::new(&[("mge_seven", "press-07"), ("mge_eight", "press-08")]).await;
    let deployments = set(1, "1.0.0");
    site.fake.publish(&version(8, &deployments), &deployments);
    let (folder, config) = site.machine("board-7");
    std::fs::write(folder.path().join("token"), "mge_seven").unwrap();
    let mut original = Agent::with(config, folder);
    original.runs(&deployments).await;
    eventually("version 9 is accepted", || original.accepted() == Some(9)).await;
    original.stop().await;

    // The disk, in another machine.
    let (folder, mut config) = site.machine("board-8");
    let state = config.state_dir.clone();
    let copied = std::process::Command::new("cp").arg("-a").arg(original.state_dir()).arg(&state).status().unwrap();
    assert!(copied.success());
    // Files stay in place.
    let board = original.folder.path().join("board");
    std::fs::write(&board, "board-8\n").unwrap();
    config.identity.machine_files = vec![board.clone()];
    site.fake.publish(&version(0, &deployments), &deployments);
    let requested = site.fake.seen().len();
    let mut copy = Agent::with(config, folder);
    copy.in_trouble("710").await;
    assert_eq!(identity(&state), None);
    assert_eq!(site.fake.seen().len(), requested, "no request in the name of the other device");
    assert!(state.join("of-another-machine/key.pem").exists(), "set aside, not deleted");
    std::fs::write(copy.folder.path().join("token"), "mge_eight").unwrap();
    eventually("the copy has an identity of its own", || identity(&state) == Some(client_id("press-08"))).await;
    // Its records start fresh as well: the rollback floor of the other device would block its manifests.
    eventually("version 1 is accepted", || copy.accepted() == Some(1)).await;
    assert_ne!(key(&state), key(&original.state_dir()));
    {
        let used = site.used.lock().unwrap();
        assert_ne!(used["mge_seven"], used["mge_eight"]);
    }
    copy.stop().await;

    // The original is unchanged.
    std::fs::write(&board, "board-7\n").unwrap();
    assert_eq!(identity(&original.state_dir()), Some(client_id("press-07")));
}
