//! First boot with a preloaded desired state (ADR 25).

use crate::fake::reply;
use crate::pki::{Authority, WFM, client_id};
use crate::preloaded::{PreloadBuilder, SignedPreload};
use crate::support::{Agent, World, deployment, eventually, set, version};
use margo::Digest;
use margrave_agent::identity::Identity;
use margrave_agent::preload::{self, Preload};
use margrave_agent::runtimes::{LogsQuery, Runtime as _};
use margrave_core::publish::{Publication, ServedDeployment};

/// A time at which the certificates of the test are valid.
const ISSUED: &str = "2026-11-17T09:00:00Z";

fn made(world: &World, publication: &Publication, deployments: &[ServedDeployment]) -> SignedPreload {
    PreloadBuilder::new(&client_id("press-07"), publication, deployments)
        .issued(ISSUED)
        .signed(&world.authority.svid(WFM))
}

#[tokio::test]
async fn a_first_boot_uses_the_preload_and_then_the_server() {
    // DS-22, DS-23
    let world = World::new().await;
    world.fake.twist(|_| Some(reply(503, "")));
    let (first, folder) = (set(2, "1.0.0"), tempfile::tempdir().unwrap());
    let publication = version(6, &first);
    let file = folder.path().join("preload.tar");
    std::fs::write(&file, made(&world, &publication, &first).file()).unwrap();
    let mut agent = Agent::start(&world, |config| config.boot.preload = Some(file.clone()));
    agent.runs(&first).await;
    assert_eq!(agent.accepted(), Some(7), "it is the floor of what is to come");

    // The server is reachable: the same manifest is unchanged, an older one is rejected, a newer one is accepted.
    world.fake.publish(&publication, &first);
    world.fake.state().twist = None;
    eventually("the server knows", || {
        world.fake.reported(first[0].id).last().is_some_and(|last| last.adopted_manifest_version == 7)
    })
    .await;
    world.fake.publish(&version(2, &[]), &[]);
    agent.in_trouble("601").await;
    agent.runs(&first).await;
    let more = vec![first[0].clone(), first[1].clone(), deployment(3, "1.0.0")];
    world.fake.publish(&version(7, &more), &more);
    agent.runs(&more).await;
    for served in &first {
        let wanted = LogsQuery { deployment: served.id, component: None, lines: 10 };
        assert_eq!(agent.runtime.logs(wanted).await.unwrap(), "web | simulated start 1", "started once, not again");
    }
    // The preload is for the first boot only.
    agent.stop().await;
    let older = made(&world, &version(0, &[]), &[]);
    std::fs::write(&file, older.file()).unwrap();
    agent.start_again_with(&world, |config| config.boot.preload = Some(file.clone()));
    eventually("it runs again", || agent.accepted() == Some(8)).await;
    agent.runs(&more).await;
    agent.stop().await;
}

#[tokio::test]
async fn rejects_preloads_not_signed_for_this_device() {
    let world = World::new().await;
    let (deployments, folder) = (set(1, "1.0.0"), tempfile::tempdir().unwrap());
    let publication = version(6, &deployments);
    let leaf = world.authority.svid(&client_id("press-07"));
    let identity =
        Identity::from_parts(leaf.certificate.as_bytes(), leaf.key.as_bytes(), world.authority.pem.as_bytes()).unwrap();
    let path = folder.path().join("preload.tar");
    let read = |bytes: &[u8]| -> Result<Preload, String> {
        std::fs::write(&path, bytes).unwrap();
        preload::read(&path, &identity).map_err(|error| error.to_string())
    };
    let making = |client: &str| PreloadBuilder::new(client, &publication, &deployments).issued(ISSUED);
    let (own, other) = (client_id("press-07"), client_id("press-08"));
    let manager = world.authority.svid(WFM);
    let good = making(&own).artifact("oci://r.example/web:1.0.0", b"layer").signed(&manager);
    assert!(read(&good.file()).is_ok());

    let digests: Vec<Digest> = good.contents.iter().map(|bytes| Digest::of(bytes)).collect();
    let tampered = |at: usize| {
        let mut contents = good.contents.clone();
        contents[at].push(b' ');
        SignedPreload { head: good.head.clone(), contents }.file_under(&digests)
    };
    let statement = |from: &str, to: &str| {
        let mut head = good.head.clone();
        head.statement = head.statement.replace(from, to);
        SignedPreload { head, contents: good.contents.clone() }.file()
    };
    let stranger = Authority::new("stranger");
    let ended = world.authority.svid_with(WFM, |params| params.not_after = rcgen::date_time_ymd(2026, 1, 1));
    let whole = good.file();
    for (what, file, reason) in [
        ("a manifest that was changed", tampered(0), "is damaged or tampered with"),
        ("a deployment that was changed", tampered(1), "is damaged or tampered with"),
        ("a component that was changed", tampered(2), "is damaged or tampered with"),
        ("a statement that was changed", statement(ISSUED, "2026-11-17T09:00:01Z"), "its signature does not match"),
        ("another form", statement("margrave-preload/1", "margrave-preload/9"), "of kind `margrave-preload/9`"),
        ("another device's", making(&other).signed(&manager).file(), "it is for `spiffe://"),
        ("signed by a device", making(&own).signed(&leaf).file(), "not signed by the manager of this device"),
        (
            "signed by a stranger",
            making(&own).signed(&stranger.svid(WFM)).file(),
            "not signed by the manager of this device",
        ),
        (
            "signed after its certificate ended",
            making(&own).signed(&ended).file(),
            "not signed by the manager of this device",
        ),
        ("without a component", good.file_under(&digests[..2]), "it lacks sha256:"),
        ("without a deployment", good.file_under(&digests[..1]), "it lacks sha256:"),
        ("cut off", whole[..whole.len() - 3000].to_vec(), "preload.tar"),
        ("cut off early", whole[..600].to_vec(), "its head cannot be read"),
        ("no such file at all", b"nonsense".repeat(1000), "preload.tar"),
    ] {
        let error = read(&file).expect_err(what);
        assert!(error.contains(reason), "{what}: {error}");
    }

    // The agent reports it, does nothing, and continues with its server.
    std::fs::write(&path, tampered(1)).unwrap();
    world.fake.twist(|_| Some(reply(503, "")));
    let mut agent = Agent::start(&world, |config| config.boot.preload = Some(path.clone()));
    let report = agent.in_trouble("611").await;
    assert!(report.troubles.iter().any(|trouble| trouble.security && trouble.about == "preload"), "{report:?}");
    assert!(agent.running().await.is_empty());
    assert_eq!(agent.accepted(), None);
    world.fake.publish(&version(0, &deployments), &deployments);
    world.fake.state().twist = None;
    agent.runs(&deployments).await;
    eventually("nothing is left of it", || agent.report().is_some_and(|report| report.troubles.is_empty())).await;
    agent.stop().await;
}
