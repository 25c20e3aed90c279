//! Enrollment with a token.

use crate::fake::{Fake, Reply, reply};
use crate::pki::{Authority, client_id};
use crate::support::{Agent, World, quick, set, version};
use margo::trust_bundle::{Discovery, TrustBundle};
use margrave_agent::enroll::{EnrollError, Enrollment, enroll};
use margrave_agent::{AgentConfig, SystemClock};
use secrecy::SecretString;
use std::sync::{Arc, Mutex};

struct IssuingServer {
    world: World,
    /// Signs the certificate of the trust endpoint: another authority than that of the SVIDs (W-28).
    web: Authority,
    trust: Fake,
    pin: String,
    /// Public keys of the received requests.
    keys: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl IssuingServer {
    async fn new() -> Self {
        let world = World::new().await;
        let web = Authority::new("web");
        let leaf = web.server();
        let pin = margo::Digest::of(&leaf.public_key).to_string();
        let trust = Fake::start_trust(&leaf).await;
        let keys = Arc::new(Mutex::new(Vec::new()));
        let issuing = Self { world, web, trust, pin, keys };
        issuing.behave(0);
        issuing
    }

    /// Issues identities; the first `lost` responses are lost.
    fn behave(&self, mut lost: usize) {
        let authority = Authority::new("svid");
        let url = self.world.fake.url();
        let keys = Arc::clone(&self.keys);
        let bundle =
            TrustBundle { sequence: Some(1), refresh_hint_seconds: None, anchors: vec![authority.der.clone()] };
        self.trust.twist(move |seen| {
            if seen.path != "/enrollment/v1" {
                return None;
            }
            let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
            if body["token"] != "mge_right" {
                return Some(reply(
                    403,
                    margo::problem::Problem::new(
                        margo::problem::ProblemType::NotAuthorized,
                        403,
                        "the token is used up",
                    )
                    .to_json(),
                ));
            }
            let (certificate, key) = authority.sign(body["csr"].as_str().unwrap(), &client_id("press-07"));
            keys.lock().unwrap().push(key);
            if lost > 0 {
                lost -= 1;
                return Some(reply(500, ""));
            }
            let bundle: serde_json::Value = serde_json::from_slice(&bundle.to_json()).unwrap();
            let answer = serde_json::json!({
                "spiffeId": client_id("press-07"), "certificate": certificate, "trustBundle": bundle, "wfmUrl": url,
            });
            Some(Reply {
                status: 200,
                headers: vec![("content-type", "application/json".to_owned())],
                body: answer.to_string().into_bytes(),
            })
        });
    }

    fn config(&self, folder: &std::path::Path) -> AgentConfig {
        let mut config = AgentConfig::default();
        quick(&mut config, &folder.join("state"));
        config.trust.url = Some(self.trust.url());
        config.trust.pin = Some(self.pin.clone());
        config
    }
}

async fn try_enroll(config: &AgentConfig, token: &str, again: bool) -> Result<Enrollment, EnrollError> {
    enroll(config, &SecretString::from(token.to_owned()), again, Arc::new(SystemClock)).await
}

#[tokio::test]
async fn enrolls_with_pin_or_authority() {
    // LC-01, TLS-05
    let issuing = IssuingServer::new().await;
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, &issuing.web.pem).unwrap();
    for by_pin in [true, false] {
        let mut config = issuing.config(&folder.path().join(by_pin.to_string()));
        if !by_pin {
            config.trust.pin = None;
            config.trust.ca_file = Some(ca.clone());
        }
        let enrollment = try_enroll(&config, "mge_right", false).await.unwrap();
        assert_eq!(enrollment.spiffe_id, client_id("press-07"));
        let key = config.state_dir.join("identity/key.pem");
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(key).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(try_enroll(&config, "mge_right", false).await, Err(EnrollError::Already(_))));
        assert!(try_enroll(&config, "mge_right", true).await.is_ok());
    }
}

#[tokio::test]
async fn sends_nothing_without_pin_and_authority() {
    // TLS-05
    let issuing = IssuingServer::new().await;
    let folder = tempfile::tempdir().unwrap();
    let mut config = issuing.config(folder.path());
    config.trust.pin = None;
    let error = try_enroll(&config, "mge_right", false).await.unwrap_err();
    assert!(error.to_string().contains("nothing is trusted on first use"), "{error}");
    config.trust.pin = Some(format!("sha256:{}", "00".repeat(32)));
    let error = try_enroll(&config, "mge_right", false).await.unwrap_err();
    assert!(error.to_string().contains("not the one pinned"), "{error}");
    assert!(issuing.trust.seen().is_empty());
}

#[tokio::test]
async fn retries_a_lost_response_with_the_same_key() {
    let issuing = IssuingServer::new().await;
    issuing.behave(1);
    let folder = tempfile::tempdir().unwrap();
    let config = issuing.config(folder.path());
    assert!(try_enroll(&config, "mge_right", false).await.is_err());
    try_enroll(&config, "mge_right", false).await.unwrap();
    let keys = issuing.keys.lock().unwrap();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn enrolling_again_generates_a_new_key() {
    // SV-04: keys come from the random numbers of the system
    let issuing = IssuingServer::new().await;
    let folder = tempfile::tempdir().unwrap();
    let config = issuing.config(folder.path());
    for again in [false, true, true] {
        try_enroll(&config, "mge_right", again).await.unwrap();
    }
    let keys = issuing.keys.lock().unwrap();
    let different: std::collections::HashSet<_> = keys.iter().collect();
    assert_eq!((keys.len(), different.len()), (3, 3));
}

#[tokio::test]
async fn discards_an_identity_that_its_bundle_does_not_trust() {
    let issuing = IssuingServer::new().await;
    let (authority, other) = (Authority::new("svid"), Authority::new("other"));
    let url = issuing.world.fake.url();
    let bundle = TrustBundle { sequence: Some(1), refresh_hint_seconds: None, anchors: vec![other.der.clone()] };
    issuing.trust.twist(move |seen| {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        let (certificate, _) = authority.sign(body["csr"].as_str().unwrap(), &client_id("press-07"));
        let bundle: serde_json::Value = serde_json::from_slice(&bundle.to_json()).unwrap();
        let answer = serde_json::json!({
            "spiffeId": client_id("press-07"), "certificate": certificate, "trustBundle": bundle, "wfmUrl": url,
        });
        Some(reply(200, answer.to_string()))
    });
    let folder = tempfile::tempdir().unwrap();
    let config = issuing.config(folder.path());
    let error = try_enroll(&config, "mge_right", false).await.unwrap_err();
    assert!(error.to_string().contains("is not trusted"), "{error}");
    assert!(!config.state_dir.join("identity/certificate.pem").exists());
}

#[tokio::test]
async fn explains_a_rejected_token() {
    let issuing = IssuingServer::new().await;
    let folder = tempfile::tempdir().unwrap();
    let error = try_enroll(&issuing.config(folder.path()), "mge_wrong", false).await.unwrap_err();
    assert!(error.to_string().contains("the token is used up"), "{error}");
}

#[tokio::test]
async fn refreshes_the_trust_bundle_but_never_with_an_older_one() {
    // TB-01, TB-02, TB-04, TB-05
    let world = World::new().await;
    let deployments = set(1, "1.0.0");
    world.fake.publish(&version(1, &deployments), &deployments);
    let web = Authority::new("web");
    let leaf = web.server();
    let trust = Fake::start_trust(&leaf).await;
    let bundle_uri = format!("{}bundle.json", trust.url());
    let serve = |sequence: u64, anchor: &[u8]| {
        let trust_domain = margo::spiffe::TrustDomain::parse("plant.example").unwrap();
        let discovery = Discovery { trust_domain, trust_bundle_uri: bundle_uri.clone() }.to_json();
        let bundle =
            TrustBundle { sequence: Some(sequence), refresh_hint_seconds: Some(1), anchors: vec![anchor.to_vec()] }
                .to_json();
        trust.twist(move |seen| match seen.path.as_str() {
            "/.well-known/margo" => Some(reply(200, discovery.clone())),
            "/bundle.json" => Some(reply(200, bundle.clone())),
            _ => None,
        });
    };
    serve(7, &world.authority.der);
    // The provisioned bundle does not know the server's authority: only the fetched one does.
    let stale = Authority::new("retired");
    let bundle = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(bundle.path(), &stale.pem).unwrap();
    let (url, pin) = (trust.url(), margo::Digest::of(&leaf.public_key).to_string());
    let path = bundle.path().to_owned();
    let agent = Agent::start(&world, |config| {
        config.identity.trust_bundle = Some(path);
        config.trust.url = Some(url);
        config.trust.pin = Some(pin);
    });
    agent.runs(&deployments).await;
    let fetched = agent.state_dir().join("identity/trust-bundle.json");
    let held = std::fs::read(&fetched).unwrap();
    trust.state().seen.clear();
    serve(6, &stale.der);
    crate::support::eventually("the older bundle was offered", || {
        trust.seen().iter().filter(|seen| seen.path == "/bundle.json").count() >= 1
    })
    .await;
    assert_eq!(std::fs::read(&fetched).unwrap(), held);
    agent.runs(&deployments).await;
}

#[tokio::test]
async fn rejects_a_discovery_document_of_another_trust_domain() {
    // TB-01
    let web = Authority::new("web");
    let leaf = web.server();
    let trust = Fake::start_trust(&leaf).await;
    let domain = |name: &str| margo::spiffe::TrustDomain::parse(name).unwrap();
    let bundle_uri = format!("{}bundle.json", trust.url());
    let discovery = Discovery { trust_domain: domain("elsewhere.example"), trust_bundle_uri: bundle_uri }.to_json();
    let anchors = vec![Authority::new("elsewhere").der];
    let bundle = TrustBundle { sequence: Some(1), refresh_hint_seconds: None, anchors }.to_json();
    trust.twist(move |seen| match seen.path.as_str() {
        "/.well-known/margo" => Some(reply(200, discovery.clone())),
        _ => Some(reply(200, bundle.clone())),
    });
    let folder = tempfile::tempdir().unwrap();
    let mut config = AgentConfig::default();
    quick(&mut config, &folder.path().join("state"));
    config.trust.url = Some(trust.url());
    config.trust.pin = Some(margo::Digest::of(&leaf.public_key).to_string());
    let refresh = async |own: &str| margrave_agent::trust::refresh(&config, &domain(own), Arc::new(SystemClock)).await;
    let fetched = config.state_dir.join("identity/trust-bundle.json");
    let error = refresh("plant.example").await.unwrap_err().to_string();
    assert!(error.contains("`elsewhere.example`, this client is in `plant.example`"), "{error}");
    assert!(trust.seen().iter().all(|seen| seen.path == "/.well-known/margo"), "its bundle is not even asked for");
    assert!(!fetched.exists());
    refresh("elsewhere.example").await.unwrap();
    assert!(fetched.exists(), "its own clients take it");
}
