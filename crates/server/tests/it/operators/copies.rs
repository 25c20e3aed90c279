//! Copying applications with their components and images from a supplier's registry into the embedded one.

mod front;
mod supplier;

use super::registries::registry::{Access, PASSWORD, Registry, USER};
use super::registries::saved::kept;
use super::{api, problem, refused};
use crate::support::{TestServer, eventually};
use CopiedKind::{Component, Image, Package};
use front::Front;
use margo::Digest;
use margrave_api::client::{ApiClient, PageQuery};
use margrave_api::copies::{CopiedArtifact, CopiedKind, CopiedState, Copy, CopyState, CreateCopy, RegistryLogin};
use std::sync::atomic::Ordering;
use supplier::{Supplier, layer};

fn create(supplier: &Supplier) -> CreateCopy {
    CreateCopy {
        source: format!("oci://{}/apps/press:1.0.0", supplier.host),
        plain_http: supplier.registry.is_plain(),
        ca: supplier.registry.ca(),
        ..CreateCopy::default()
    }
}

async fn over(api: &ApiClient, body: &CreateCopy) -> Copy {
    let started = api.create_copy(body).await.unwrap();
    eventually("the copy is finished", async || api.copy(&started.id).await.ok().filter(|copy| copy.state.is_over()))
        .await
}

fn states(copy: &Copy) -> Vec<(CopiedKind, CopiedState)> {
    copy.artifacts.iter().map(|artifact| (artifact.kind, artifact.state)).collect()
}

fn named<'a>(copy: &'a Copy, part: &str) -> &'a CopiedArtifact {
    copy.artifacts.iter().find(|artifact| artifact.reference.contains(part)).unwrap_or_else(|| panic!("{copy:?}"))
}

/// What our registry has under the supplier's name.
async fn pull(server: &TestServer, supplier: &Supplier, path: &str) -> reqwest::Response {
    let ca = server.state().identity.https_ca_pem();
    let ca = reqwest::Certificate::from_pem(ca.as_bytes()).unwrap();
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([ca]).danger_accept_invalid_certs(true);
    let url = server.trust_url(&format!("/v2/mirror/{}/{path}", supplier.host.replace(':', "__")));
    http.build().unwrap().get(url).basic_auth("me", Some(server.admin_token())).send().await.unwrap()
}

#[tokio::test]
async fn an_application_is_copied_with_its_components_and_images() {
    let server = TestServer::start().await;
    let api = api(&server);
    let supplier = Supplier::start(Access::Open).await;
    let copy = over(&api, &create(&supplier)).await;
    assert_eq!(copy.state, CopyState::Done, "{copy:?}");
    let copied = CopiedState::Copied;
    assert_eq!(
        states(&copy),
        [(Package, copied), (Component, copied), (Component, copied), (Image, copied), (Image, copied)]
    );
    // The variable has the supplier's default for the parameter that sets it, not the one in the compose file.
    assert!(named(&copy, "images/web").reference.ends_with("/images/web:1.0"), "{copy:?}");
    assert_eq!(named(&copy, "images/side").platforms, ["linux/amd64", "linux/arm64"]);
    assert_eq!(copy.application.as_ref().unwrap().id, "press");
    assert_eq!(copy.unknown, Vec::<String>::new());

    // The very same bytes, by tag and by digest.
    let tagged = pull(&server, &supplier, "images/side/manifests/2.0").await;
    assert_eq!(tagged.status(), 200);
    let digest = named(&copy, "images/side").digest.clone().unwrap();
    assert_eq!(Digest::of(&tagged.bytes().await.unwrap()).to_string(), digest);
    assert_eq!(pull(&server, &supplier, &format!("images/side/manifests/{digest}")).await.status(), 200);
    let blob = Digest::of(&layer("web", 200_000));
    let blob = pull(&server, &supplier, &format!("images/web/blobs/{blob}")).await.bytes().await.unwrap();
    assert_eq!(blob, layer("web", 200_000));

    // The second time nothing is copied, and the result says so.
    let again = over(&api, &create(&supplier)).await;
    assert_eq!((again.state, again.bytes_copied), (CopyState::Done, 0), "{again:?}");
    assert!(again.artifacts.iter().all(|artifact| artifact.state == CopiedState::Present), "{again:?}");
    assert_eq!(again.bytes_present, copy.bytes_copied + copy.bytes_present);
    let listed = api.copies().await.unwrap().items;
    assert_eq!(listed.iter().map(|copy| copy.id.as_str()).collect::<Vec<_>>(), [&*again.id, &*copy.id]);

    let audit = api.audit(None, &PageQuery::default()).await.unwrap().items;
    let count = |action: &str| audit.iter().filter(|record| record.action == action).count();
    assert_eq!((count("registry.copy"), count("registry.copy-end"), count("registry.push")), (2, 2, 5));
}

#[tokio::test]
async fn copies_only_the_requested_platforms_and_keeps_digests() {
    let server = TestServer::start().await;
    let api = api(&server);
    let supplier = Supplier::start(Access::Open).await;
    let body = CreateCopy { platforms: vec!["linux/arm64".to_owned()], ..create(&supplier) };
    let copy = over(&api, &body).await;
    assert_eq!(copy.state, CopyState::Done, "{copy:?}");
    let side = named(&copy, "images/side");
    assert_eq!(side.platforms, ["linux/arm64"]);
    let index = pull(&server, &supplier, "images/side/manifests/2.0").await.bytes().await.unwrap();
    assert_eq!(Digest::of(&index).to_string(), side.digest.clone().unwrap());
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    let child = |number: usize| index["manifests"][number]["digest"].as_str().unwrap().to_owned();
    let status = async |digest: String| {
        pull(&server, &supplier, &format!("images/side/manifests/{digest}")).await.status().as_u16()
    };
    assert_eq!((status(child(0)).await, status(child(1)).await), (404, 200));
    // It still exists after a restart, and the rest can be copied later.
    let server = server.restart().await;
    let api = super::api(&server);
    let copy = over(&api, &create(&supplier)).await;
    assert_eq!(copy.state, CopyState::Done, "{copy:?}");
    let status = pull(&server, &supplier, &format!("images/side/manifests/{}", child(0))).await.status();
    assert_eq!(status, 200);

    let body = CreateCopy { platforms: vec!["linux/riscv64".to_owned()], ..create(&supplier) };
    let copy = over(&api, &body).await;
    assert_eq!(copy.state, CopyState::Incomplete);
    let side = named(&copy, "images/side");
    assert_eq!(side.state, CopiedState::NotFound);
    assert!(side.message.as_ref().unwrap().contains("it has linux/amd64, linux/arm64"), "{side:?}");
}

#[tokio::test]
async fn reports_missing_images_and_copies_the_rest() {
    let server = TestServer::start().await;
    let api = api(&server);
    let supplier = Supplier::start(Access::Open).await;
    supplier.image("images/more", "3", &layer("more", 1_000)).await;
    let images = vec![format!("{}/images/none:1", supplier.host), format!("{}/images/more:3", supplier.host)];
    let copy = over(&api, &CreateCopy { images, ..create(&supplier) }).await;
    assert_eq!(copy.state, CopyState::Incomplete, "{copy:?}");
    let missing = named(&copy, "images/none");
    assert_eq!(missing.state, CopiedState::NotFound);
    assert!(missing.message.as_ref().unwrap().contains("has no"), "{missing:?}");
    assert_eq!(named(&copy, "images/more").state, CopiedState::Copied);
    assert_eq!(named(&copy, "images/web").state, CopiedState::Copied);
    assert!(copy.application.is_some(), "the package itself is complete");
}

#[tokio::test]
async fn rejects_invalid_requests_before_any_connection() {
    let server = TestServer::start().await;
    let api = api(&server);
    let body = || CreateCopy { source: "oci://registry.example/app:1".to_owned(), ..CreateCopy::default() };
    let field = async |body: CreateCopy| refused(api.create_copy(&body).await).1;
    assert_eq!(field(CreateCopy { source: "registry.example/app".to_owned(), ..body() }).await, ["source"]);
    assert_eq!(field(CreateCopy { plain_http: true, ..body() }).await, ["plainHttp"]);
    assert_eq!(field(CreateCopy { ca: Some("x".to_owned()), ..body() }).await, ["ca"]);
    assert_eq!(field(CreateCopy { username: Some("x".to_owned()), ..body() }).await, ["password"]);
    assert_eq!(field(CreateCopy { images: vec!["A b".to_owned()], ..body() }).await, ["images[0]"]);
    assert_eq!(field(CreateCopy { platforms: vec!["arm".to_owned()], ..body() }).await, ["platforms[0]"]);
    let login = RegistryLogin { host: "x".to_owned(), username: "a:b".to_owned(), password: "p".to_owned() };
    assert_eq!(field(CreateCopy { logins: vec![login], ..body() }).await, ["logins[0].username"]);
    let unknown = problem(api.copy("0b6c8f5e-8a55-4bfb-9f0c-6a2d7f1d9a3e").await);
    assert!(unknown.code == "not-found" && unknown.detail.contains("start it again"), "{unknown:?}");
    assert!(api.copies().await.unwrap().items.is_empty());
}

#[tokio::test]
async fn requires_the_right_password_and_never_shows_it() {
    let server = TestServer::start().await;
    let api = api(&server);
    let supplier = Supplier::start(Access::Tls).await;
    let with = |password: &str| CreateCopy {
        username: Some(USER.to_owned()),
        password: Some(password.to_owned()),
        ..create(&supplier)
    };
    let wrong = over(&api, &with("guess")).await;
    assert_eq!(wrong.state, CopyState::Failed);
    assert!(wrong.error.as_ref().unwrap().contains("refused the username"), "{wrong:?}");
    let blind = over(&api, &CreateCopy { ca: None, ..with(PASSWORD) }).await;
    assert!(blind.error.as_ref().unwrap().contains("cannot be reached"), "{blind:?}");
    let copy = over(&api, &with(PASSWORD)).await;
    assert_eq!(copy.state, CopyState::Done, "{copy:?}");
    let audit = serde_json::to_string(&api.audit(None, &PageQuery::default()).await.unwrap()).unwrap();
    let told = format!("{audit}{}", serde_json::to_string(&api.copies().await.unwrap().items).unwrap());
    assert!(!told.contains(PASSWORD) && !told.contains("guess"), "{told}");
}

#[tokio::test]
async fn rejects_a_tampered_layer_and_copies_the_rest() {
    let server = TestServer::start().await;
    let api = api(&server);
    let supplier = Supplier::start(Access::Open).await;
    supplier.registry.tamper(b"webweb");
    let copy = over(&api, &create(&supplier)).await;
    assert_eq!(copy.state, CopyState::Incomplete, "{copy:?}");
    let web = named(&copy, "images/web");
    assert_eq!(web.state, CopiedState::Failed);
    assert!(web.message.as_ref().unwrap().contains("tampered"), "{web:?}");
    assert_eq!(named(&copy, "images/side").state, CopiedState::Copied);
    assert_eq!(pull(&server, &supplier, "images/web/manifests/1.0").await.status(), 404);
}

#[tokio::test]
async fn a_quota_stops_a_copy_and_keeps_what_was_copied() {
    let server = TestServer::start_with(|config| config.registry.bytes_max = Some(150_000)).await;
    let api = api(&server);
    let supplier = Supplier::start(Access::Open).await;
    let copy = over(&api, &create(&supplier)).await;
    assert_eq!(copy.state, CopyState::Failed, "{copy:?}");
    assert!(copy.error.as_ref().unwrap().contains("the registry has a quota of 150000 bytes"), "{copy:?}");
    assert_eq!(named(&copy, "apps/press").state, CopiedState::Copied);
    assert!(api.applications(&PageQuery::default()).await.unwrap().items.is_empty(), "the copy is incomplete");
    // Nothing rejected is left behind.
    assert!(api.registry().await.unwrap().bytes < 150_000);
    let again = over(&api, &create(&supplier)).await;
    assert_eq!(again.state, CopyState::Failed);
    assert_eq!(named(&again, "apps/press").state, CopiedState::Present);
}

#[tokio::test]
async fn resumes_an_interrupted_download() {
    let server = TestServer::start().await;
    let api = api(&server);
    let registry = Registry::start(Access::Open).await;
    let front = Front::start(&registry.host()).await;
    let supplier = Supplier::behind(registry, front.host.clone()).await;
    front.break_at(Digest::of(&layer("web", 200_000)).as_str(), 2);
    let copy = over(&api, &create(&supplier)).await;
    assert_eq!(copy.state, CopyState::Done, "{copy:?}");
    assert_eq!(front.broken.load(Ordering::SeqCst), 2);
    let resumed = front.resumed.lock().clone();
    assert!(!resumed.is_empty() && resumed.iter().all(|range| range != "bytes=0-"), "{resumed:?}");
    let web = named(&copy, "images/web");
    assert!(web.bytes_copied < 400_000, "received bytes were not sent again: {web:?}");
}

#[tokio::test]
async fn reports_an_unreachable_registry_once_and_resumes_the_copy_later() {
    let server = TestServer::start().await;
    let api = api(&server);
    let registry = Registry::start(Access::Open).await;
    let front = Front::start(&registry.host()).await;
    let supplier = Supplier::behind(registry, front.host.clone()).await;
    front.break_at(Digest::of(&layer("web", 200_000)).as_str(), usize::MAX);
    let copy = over(&api, &create(&supplier)).await;
    assert_eq!(copy.state, CopyState::Incomplete, "{copy:?}");
    let web = named(&copy, "images/web");
    assert!(
        web.state == CopiedState::Failed && web.message.as_ref().unwrap().contains("closed the connection"),
        "{web:?}"
    );
    front.break_at("", 0);
    let copy = over(&api, &create(&supplier)).await;
    assert_eq!(copy.state, CopyState::Done, "{copy:?}");
    assert_eq!(named(&copy, "images/side").state, CopiedState::Present);
    assert_eq!(named(&copy, "images/web").state, CopiedState::Copied);
}

#[tokio::test]
async fn a_copy_can_be_cancelled() {
    let server = TestServer::start().await;
    let api = api(&server);
    // A server that accepts the connection and never responds.
    let offline = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let source = format!("oci://{}/apps/press:1.0.0", offline.local_addr().unwrap());
    let body = CreateCopy { source, plain_http: true, ..CreateCopy::default() };
    let started = api.create_copy(&body).await.unwrap();
    let _connection = offline.accept().await.unwrap();
    assert_eq!(api.copy(&started.id).await.unwrap().state, CopyState::Running);
    api.cancel_copy(&started.id, Some("wrong one")).await.unwrap();
    let copy = eventually("the copy is finished", async || {
        api.copy(&started.id).await.ok().filter(|copy| copy.state.is_over())
    })
    .await;
    assert_eq!(copy.state, CopyState::Cancelled);
}

#[tokio::test]
async fn a_copy_uses_the_saved_credentials_of_every_registry() {
    let server = TestServer::start().await;
    let api = api(&server);
    // The package in one registry, another image in a second: each with its own CA and password.
    let (supplier, other) = (Supplier::start(Access::Tls).await, Supplier::start(Access::Tls).await);
    other.image("images/more", "3", &layer("more", 1_000)).await;
    let body = CreateCopy {
        source: format!("oci://{}/apps/press:1.0.0", supplier.host),
        images: vec![format!("{}/images/more:3", other.host)],
        ..CreateCopy::default()
    };
    let blind = over(&api, &body).await;
    assert_eq!(blind.state, CopyState::Failed, "{blind:?}");
    assert!(blind.error.as_ref().unwrap().contains("certificate is not trusted"), "{blind:?}");

    api.put_registry(&supplier.host, &kept(&supplier.registry), None).await.unwrap();
    let half = over(&api, &body).await;
    assert_eq!(half.state, CopyState::Incomplete, "a CA saved for one registry is not trusted for another: {half:?}");
    assert!(named(&half, "images/more").message.as_ref().unwrap().contains("not trusted"), "{half:?}");

    api.put_registry(&other.host, &kept(&other.registry), None).await.unwrap();
    let copy = over(&api, &body).await;
    assert_eq!(copy.state, CopyState::Done, "{copy:?}");
    assert_eq!(copy.registries.len(), 2, "{copy:?}");
    assert!(copy.registries.iter().all(|used| used.saved_login && used.username.as_deref() == Some(USER)), "{copy:?}");

    // Given credentials take precedence over saved ones.
    let login =
        |host: &str| RegistryLogin { host: host.to_owned(), username: USER.to_owned(), password: "guess".to_owned() };
    let wrong = over(&api, &CreateCopy { logins: vec![login(&other.host)], ..body.clone() }).await;
    assert!(named(&wrong, "images/more").message.as_ref().unwrap().contains("refused the username"), "{wrong:?}");
    let wrong = over(&api, &CreateCopy { logins: vec![login(&supplier.host)], ..body }).await;
    assert_eq!(wrong.state, CopyState::Failed, "{wrong:?}");
    let told = serde_json::to_string(&api.copies().await.unwrap()).unwrap();
    assert!(!told.contains(PASSWORD) && !told.contains("guess"), "{told}");
}
