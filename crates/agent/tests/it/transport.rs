//! Identity, addresses, Retry-After.

use crate::fake::{Fake, Reply, reply};
use crate::pki::{Authority, WFM, client_id, provision};
use crate::support::{Agent, World, eventually, set, version};
use margrave_core::publish;
use std::time::{Duration, Instant};

#[tokio::test]
async fn prefixes_every_path_with_the_base_url() {
    // W-01, W-03, CAP-01, DS-12
    let world = World::new().await;
    world.fake.state().prefix = "/v1alpha2/margo".to_owned();
    let deployments = set(2, "1.0.0");
    world.fake.publish(&version(1, &deployments), &deployments);
    let url = world.fake.url().join("/v1alpha2/margo").unwrap();
    let agent = Agent::start(&world, |config| config.server = Some(url));
    agent.runs(&deployments).await;
    let seen = world.fake.seen();
    assert!(seen.iter().all(|seen| seen.path.starts_with("/v1alpha2/margo/api/v1/")));
    assert_eq!(
        (seen[0].method.as_str(), seen[0].path.as_str()),
        ("PUT", "/v1alpha2/margo/api/v1/capabilities/press-07")
    );
    let poll = seen.iter().find(|seen| seen.path.ends_with("/deployments")).unwrap();
    assert_eq!(poll.headers["accept"], margo::manifest::MANIFEST_MEDIA_TYPE);
    assert!(seen.iter().all(|seen| seen.headers["accept-encoding"] == "identity"));
}

#[tokio::test]
async fn respects_retry_after() {
    // RTY-01
    let world = World::new().await;
    world.fake.twist(|seen| {
        let busy = || Reply { status: 429, headers: vec![("retry-after", "2".to_owned())], body: vec![] };
        seen.path.ends_with("/deployments").then(busy)
    });
    let _agent = world.agent();
    let polls = || {
        world
            .fake
            .seen()
            .into_iter()
            .filter(|seen| seen.path.ends_with("/deployments"))
            .map(|seen| seen.at)
            .collect::<Vec<Instant>>()
    };
    eventually("a second poll", || polls().len() >= 2).await;
    assert!(polls()[1] - polls()[0] >= Duration::from_secs(2));
}

#[tokio::test]
async fn rejects_a_server_of_a_foreign_authority_before_any_request() {
    // WID-04, SV-03
    let mut world = World::new().await;
    let foreign = Authority::new("foreign authority");
    world.fake = Fake::start(&foreign.svid(WFM), &world.authority).await;
    let agent = world.agent();
    let report = agent.in_trouble("702").await;
    assert!(report.troubles.iter().any(|trouble| trouble.security));
    assert!(world.fake.seen().is_empty());
}

#[tokio::test]
async fn rejects_a_fleet_manager_with_another_id() {
    // WID-04: the right authority, the wrong server
    for wrong in
        ["spiffe://plant.example/margo/wfm/other", "spiffe://elsewhere.example/margo/wfm/main", &client_id("x")]
    {
        let mut world = World::new().await;
        world.fake = Fake::start(&world.authority.svid(wrong), &world.authority).await;
        let agent = world.agent();
        agent.in_trouble("702").await;
        assert!(world.fake.seen().is_empty(), "{wrong}");
    }
}

#[tokio::test]
async fn reports_a_client_rejected_in_the_handshake() {
    // W-25, W-26
    let mut world = World::new().await;
    let others = Authority::new("clients of another plant");
    world.fake = Fake::start(&world.authority.svid(WFM), &others).await;
    let agent = world.agent();
    agent.in_trouble("703").await;
    assert!(world.fake.seen().is_empty());
}

#[tokio::test]
async fn reloads_replaced_identity_files() {
    // ONB-06, LC-05
    let world = World::new().await;
    let deployments = set(1, "1.0.0");
    world.fake.publish(&version(1, &deployments), &deployments);
    let other = Authority::new("former authority");
    let folder = tempfile::tempdir().unwrap();
    provision(folder.path(), &other.svid(&client_id("press-07")), &other.pem);
    let path = folder.path().to_owned();
    let agent = Agent::start(&world, |config| {
        config.identity.certificate = Some(path.join("svid.pem"));
        config.identity.key = Some(path.join("svid.key"));
        config.identity.trust_bundle = Some(path.join("bundle.pem"));
    });
    agent.in_trouble("702").await;
    provision(&path, &world.authority.svid(&client_id("press-07")), &world.authority.pem);
    agent.runs(&deployments).await;
}

#[tokio::test]
async fn capabilities_are_reported_again_when_the_file_changes() {
    // CAP-01
    let world = World::new().await;
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), "labels:\n  line: a\n").unwrap();
    let path = file.path().to_owned();
    let _agent = Agent::start(&world, |config| config.device.capabilities = Some(path));
    let reported = |line: &str| {
        let text = format!("\"line\":\"{line}\"");
        world.fake.seen().iter().any(|seen| seen.method == "PUT" && String::from_utf8_lossy(&seen.body).contains(&text))
    };
    eventually("the first report", || reported("a")).await;
    std::fs::write(file.path(), "labels:\n  line: b\n").unwrap();
    eventually("the second report", || reported("b")).await;
}

#[tokio::test]
async fn a_restarted_agent_polls_with_its_etag_and_restarts_nothing() {
    // DS-22, invariant 5
    let world = World::new().await;
    let deployments = set(2, "1.0.0");
    world.fake.publish(&version(1, &deployments), &deployments);
    let mut agent = world.agent();
    agent.runs(&deployments).await;
    eventually("applied and reported", || {
        let loaded = margrave_agent::disk::load(&agent.state_dir()).loaded;
        loaded.reconciled.is_some() && loaded.statuses.entries.values().filter(|entry| entry.delivered).count() == 2
    })
    .await;
    agent.stop().await;
    world.fake.state().seen.clear();
    let cancel = tokio_util::sync::CancellationToken::new();
    let mut config = margrave_agent::AgentConfig { server: Some(world.fake.url()), ..Default::default() };
    crate::support::quick(&mut config, &agent.state_dir());
    config.identity.certificate = Some(agent.folder.path().join("svid.pem"));
    config.identity.key = Some(agent.folder.path().join("svid.key"));
    config.identity.trust_bundle = Some(agent.folder.path().join("bundle.pem"));
    let clock = std::sync::Arc::new(margrave_agent::SystemClock);
    let (settled, _) = margrave_agent::once(config, agent.runtime.clone(), clock, cancel).await.unwrap();
    assert_eq!(settled, margrave_agent::machine::Settled::UpToDate);
    let seen = world.fake.seen();
    let poll = seen.iter().find(|seen| seen.path.ends_with("/deployments")).unwrap();
    let etag = margo::Digest::of(&world.fake.state().manifest).etag();
    assert_eq!(poll.headers["if-none-match"], etag);
    assert!(!seen.iter().any(|seen| seen.path.contains("/bundles/") || seen.method == "POST"));
}

#[tokio::test]
async fn a_server_error_does_not_affect_workloads() {
    // invariant 6
    let world = World::new().await;
    let deployments = set(2, "1.0.0");
    world.fake.publish(&version(1, &deployments), &deployments);
    let agent = world.agent();
    agent.runs(&deployments).await;
    world.fake.twist(|_| Some(reply(500, "")));
    agent.in_trouble("705").await;
    agent.runs(&deployments).await;
    world.fake.state().twist = None;
    world.fake.publish(&publish::next(5, &[]).unwrap(), &[]);
    agent.runs(&[]).await;
}
