//! Connections: TLS, identities, and their lifetime.

use crate::fake::Fake;
use crate::pki::{Authority, Leaf, WFM, client_id, provision};
use crate::support::{Agent, World, eventually, set, version};
use margrave_agent::config::ChildConfig;
use margrave_agent::machine::report::Report;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyUsagePurpose, SanType};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

fn certificates(leaf: &Leaf) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(leaf.certificate.as_bytes()).collect::<Result<_, _>>().unwrap()
}

/// An agent with this identity and this trust bundle, in files that can be swapped.
fn with_identity(world: &World, leaf: &Leaf, bundle: &str) -> (Agent, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key, bundle] = provision(folder.path(), leaf, bundle);
    let agent = Agent::start(world, |config| {
        config.identity.certificate = Some(certificate);
        config.identity.key = Some(key);
        config.identity.trust_bundle = Some(bundle);
    });
    (agent, folder)
}

/// The versions in the `supported_versions` extension of a client's hello.
fn offered_versions(hello: &[u8]) -> Vec<[u8; 2]> {
    // Record header, handshake header, version and random; then three lists of different length fields.
    let mut rest = &hello[5 + 4 + 2 + 32..];
    rest = &rest[1 + usize::from(rest[0])..];
    rest = &rest[2 + usize::from(u16::from_be_bytes([rest[0], rest[1]]))..];
    rest = &rest[1 + usize::from(rest[0])..];
    rest = &rest[2..];
    while let [kind_high, kind_low, high, low, body @ ..] = rest {
        let (content, others) = body.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        if [*kind_high, *kind_low] == [0, 43] {
            return content[1..].chunks(2).map(|version| [version[0], version[1]]).collect();
        }
        rest = others;
    }
    Vec::new()
}

/// A server that answers every hello with these bytes. Returns what the first hello offered, what the client said to
/// the answer, and how the agent reports it.
async fn answered(answer: Vec<u8>) -> (Vec<[u8; 2]>, Vec<u8>, Report) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut hello = vec![0; 5];
            socket.read_exact(&mut hello).await.unwrap();
            hello.resize(5 + usize::from(u16::from_be_bytes([hello[3], hello[4]])), 0);
            socket.read_exact(&mut hello[5..]).await.unwrap();
            socket.write_all(&answer).await.unwrap();
            socket.shutdown().await.unwrap();
            let mut reaction = Vec::new();
            let _ = socket.read_to_end(&mut reaction).await;
            log.lock().unwrap().push((offered_versions(&hello), reaction));
        }
    });
    let world = World::new().await;
    let agent = Agent::start(&world, |config| config.server = Some(format!("https://{address}").parse().unwrap()));
    let report = agent.in_trouble("701").await;
    let (offered, reaction) = heard.lock().unwrap().remove(0);
    (offered, reaction, report)
}

#[tokio::test]
async fn rejects_a_server_with_tls_1_2_only() {
    // TLS-01: the answer is written by hand, since nothing here is built with TLS 1.2.
    // Version 1.2, a random, no session, ECDHE-ECDSA with AES-128-GCM, no compression, no extensions.
    let mut hello = vec![0x16, 3, 3, 0, 42, 2, 0, 0, 38, 3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0xc0, 0x2b, 0]);
    let (offered, reaction, _) = answered(hello).await;
    assert_eq!(offered, [[3, 4]], "TLS 1.3 and nothing else");
    // A fatal alert: protocol version.
    assert_eq!(reaction, [0x15, 3, 3, 0, 2, 2, 70]);
}

#[tokio::test]
async fn distinguishes_a_tls_version_mismatch_from_a_rejected_client() {
    // TLS-01
    for alert in [40, 70, 71] {
        let (_, _, report) = answered(vec![0x15, 3, 3, 0, 2, 2, alert]).await;
        assert!(report.troubles[0].message.contains("does not speak TLS 1.3"), "{alert}: {report:?}");
    }
}

#[tokio::test]
async fn reuses_connections_until_their_age_limit() {
    // TLS-03, W-27
    let world = World::new().await;
    let age = Duration::from_secs(1);
    let _agent = Agent::start(&world, |config| config.http.connection_age_max = age);
    eventually("a third connection", || world.fake.seen().iter().any(|seen| seen.connection >= 3)).await;
    let mut used: HashMap<usize, Vec<Instant>> = HashMap::new();
    for seen in world.fake.seen() {
        used.entry(seen.connection).or_default().push(seen.at);
    }
    assert!(used.values().any(|times| times.len() > 3), "every request made a connection: {used:?}");
    for times in used.values() {
        // Ages are checked every two seconds; the rest is margin for a busy machine.
        assert!(times[times.len() - 1] - times[0] < Duration::from_secs(8), "a connection was kept: {used:?}");
    }
}

#[tokio::test]
async fn a_renewed_identity_makes_a_new_connection() {
    // TLS-03, LC-05
    let world = World::new().await;
    let [first, second] = [(); 2].map(|()| world.authority.svid(&client_id("press-07")));
    let (_agent, folder) = with_identity(&world, &first, &world.authority.pem);
    let shown = |leaf: &Leaf| {
        let chain = certificates(leaf);
        world.fake.seen().into_iter().filter(move |seen| seen.certificates[..] == chain[..]).collect::<Vec<_>>()
    };
    eventually("a few requests with the first", || shown(&first).len() > 2).await;
    provision(folder.path(), &second, &world.authority.pem);
    eventually("a few requests with the second", || shown(&second).len() > 2).await;
    let (before, after) = (shown(&first), shown(&second));
    let connections = before.iter().map(|seen| seen.connection).max().unwrap();
    assert!(after.iter().all(|seen| seen.connection > connections));
    let last = before.iter().map(|seen| seen.at).max().unwrap();
    assert!(after.iter().all(|seen| seen.at > last), "the old connection is not used again");
}

#[tokio::test]
async fn intermediates_are_sent_and_accepted() {
    // SV-01
    let root = Authority::new("root");
    let [of_clients, of_servers] = [(); 2].map(|()| root.intermediate());
    let fake = Fake::start(&of_servers.svid(WFM), &root).await;
    let deployments = set(1, "1.0.0");
    fake.publish(&version(1, &deployments), &deployments);
    let world = World { authority: root, fake };
    let leaf = of_clients.svid(&client_id("press-07"));
    let (agent, _folder) = with_identity(&world, &leaf, &world.authority.pem);
    agent.runs(&deployments).await;
    let sent = certificates(&leaf);
    assert_eq!(sent.len(), 2);
    assert!(world.fake.seen().iter().all(|seen| seen.certificates[..] == sent[..]));
}

#[tokio::test]
async fn rejects_a_chain_without_its_intermediate() {
    // SV-01
    let root = Authority::new("root");
    let mut leaf = root.intermediate().svid(WFM);
    let alone = leaf.certificate.split_inclusive("-----END CERTIFICATE-----").next().unwrap().to_owned();
    leaf.certificate = alone;
    assert_eq!(certificates(&leaf).len(), 1);
    let fake = Fake::start(&leaf, &root).await;
    let world = World { authority: root, fake };
    let agent = world.agent();
    let report = agent.in_trouble("702").await;
    assert!(report.troubles[0].message.contains("it is not signed by an authority this device trusts"), "{report:?}");
    assert!(world.fake.seen().is_empty());
}

#[tokio::test]
async fn rejects_a_server_with_an_invalid_svid() {
    // SV-03
    type Fault = fn(&mut CertificateParams);
    let faults: [(Fault, &str); 5] = [
        (
            |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1),
            "is not trusted: it expired on 2020-01-01; this device's clock says ",
        ),
        (
            |params| {
                let second = format!("{WFM}/client/press-07");
                params.subject_alt_names.push(SanType::URI(second.as_str().try_into().unwrap()));
            },
            "exactly one URI name",
        ),
        (|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained), "must not be a certificate authority"),
        (|params| params.key_usages.push(KeyUsagePurpose::KeyCertSign), "must not be allowed to sign"),
        (|params| params.subject_alt_names.clear(), "exactly one URI name"),
    ];
    for (fault, reason) in faults {
        let authority = Authority::new("plant");
        let fake = Fake::start(&authority.svid_with(WFM, fault), &authority).await;
        let world = World { authority, fake };
        let mut agent = world.agent();
        let report = agent.in_trouble("702").await;
        let trouble = report.troubles.iter().find(|trouble| trouble.code.number() == "702").unwrap();
        assert!(trouble.security && trouble.message.contains(reason), "{reason}: {}", trouble.message);
        assert!(world.fake.seen().is_empty(), "{reason}");
        agent.stop().await;
    }
}

#[tokio::test]
async fn expired_and_future_anchors_are_not_trusted() {
    // SV-03
    let wrong: [fn(&mut CertificateParams); 2] = [
        |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1),
        |params| params.not_before = rcgen::date_time_ymd(2999, 1, 1),
    ];
    for wrong in wrong {
        let old = Authority::with("old", wrong);
        let fake = Fake::start(&old.svid(WFM), &old).await;
        let world = World { authority: Authority::new("plant"), fake };
        let leaf = world.authority.svid(&client_id("press-07"));
        let (mut agent, _folder) = with_identity(&world, &leaf, &format!("{}{}", world.authority.pem, old.pem));
        let report = agent.in_trouble("702").await;
        assert!(report.troubles[0].message.contains("is not trusted"), "{report:?}");
        assert!(world.fake.seen().is_empty());
        agent.stop().await;
    }
}

#[tokio::test]
async fn sends_the_slash_of_a_child_id_unencoded() {
    // W-04
    let world = World::new().await;
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), "properties:\n  serialNumber: \"7\"\n").unwrap();
    let child = ChildConfig { id: "plc-1".parse().unwrap(), capabilities: file.path().to_owned() };
    let _agent = Agent::start(&world, |config| config.child = vec![child]);
    let puts = || {
        let seen = world.fake.seen().into_iter().filter(|seen| seen.method == "PUT");
        seen.map(|seen| seen.path).collect::<Vec<_>>()
    };
    eventually("both are reported", || puts().len() >= 2).await;
    assert_eq!(puts(), ["/api/v1/capabilities/press-07", "/api/v1/capabilities/press-07/plc-1"]);
}
