//! Packages from a real registry: Debian's `docker-registry`, started here.

pub(super) mod registry;
pub(super) mod saved;

use super::packages::{ID, package};
use super::{api, problem, refused};
use crate::support::TestServer;
use margrave_api::applications::ImportApplication;
use margrave_api::client::PageQuery;
use registry::{Access, PASSWORD, Registry, USER};

fn import(registry: &Registry, reference: &str) -> ImportApplication {
    ImportApplication {
        source: format!("oci://{}/{reference}", registry.host()),
        plain_http: registry.is_plain(),
        ca: registry.ca(),
        ..ImportApplication::default()
    }
}

fn with_login(body: ImportApplication, password: &str) -> ImportApplication {
    ImportApplication { username: Some(USER.to_owned()), password: Some(password.to_owned()), ..body }
}

#[tokio::test]
async fn imports_from_an_open_registry_by_tag_and_by_digest() {
    // REG-01, REG-09
    let server = TestServer::start().await;
    let api = api(&server);
    let registry = Registry::start(Access::Open).await;
    let digest = registry.push("suppliers/press-vision", "1.0.0", &package("1.0.0")).await;
    let imported = api.import_application(&import(&registry, "suppliers/press-vision:1.0.0")).await.unwrap();
    assert!(imported.added && imported.application.warnings.is_empty(), "{imported:?}");
    assert_eq!((imported.application.id.as_str(), imported.application.package_digest.as_str()), (ID, digest.as_str()));
    assert_eq!(imported.application.source, format!("oci://{}/suppliers/press-vision:1.0.0", registry.host()));
    let (_, icon) = api.application_resource(ID, "1.0.0", "icon").await.unwrap();
    assert!(icon.starts_with(b"<svg"));
    let again = api.import_application(&import(&registry, &format!("suppliers/press-vision@{digest}"))).await.unwrap();
    assert!(!again.added);
}

#[tokio::test]
async fn requires_the_right_registry_password_and_never_shows_it() {
    // REG-10
    let server = TestServer::start().await;
    let api = api(&server);
    let registry = Registry::start(Access::Password).await;
    registry.push("press-vision", "1.0.0", &package("1.0.0")).await;
    let body = || import(&registry, "press-vision:1.0.0");
    let without = problem(api.import_application(&body()).await);
    assert!(without.code == "registry" && without.detail.contains("requires a username"), "{without:?}");
    let wrong = problem(api.import_application(&with_login(body(), "guess")).await);
    assert!(wrong.code == "registry" && wrong.detail.contains("refused the username"), "{wrong:?}");
    assert_eq!(
        refused(api.import_application(&ImportApplication { username: Some(USER.to_owned()), ..body() }).await).1,
        ["password"]
    );
    let imported = api.import_application(&with_login(body(), PASSWORD)).await.unwrap();
    let audit = serde_json::to_string(&api.audit(None, &PageQuery::default()).await.unwrap()).unwrap();
    let told = format!("{audit}{}", serde_json::to_string(&imported).unwrap());
    assert!(!told.contains(PASSWORD), "{told}");
}

#[tokio::test]
async fn rejects_a_tampered_blob() {
    // REG-09
    let server = TestServer::start().await;
    let api = api(&server);
    let registry = Registry::start(Access::Open).await;
    registry.push("press-vision", "1.0.0", &package("1.0.0")).await;
    registry.tamper(b"apiVersion");
    let problem = problem(api.import_application(&import(&registry, "press-vision:1.0.0")).await);
    assert!(problem.code == "registry" && problem.detail.contains("tampered"), "{problem:?}");
    assert!(api.applications(&PageQuery::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn accepts_a_tag_that_differs_from_the_version_with_a_warning() {
    // REG-04
    let server = TestServer::start().await;
    let api = api(&server);
    let registry = Registry::start(Access::Open).await;
    registry.push("press-vision", "latest", &package("1.0.0")).await;
    let imported = api.import_application(&import(&registry, "press-vision:latest")).await.unwrap();
    assert_eq!(imported.application.version, "1.0.0");
    assert!(imported.application.warnings.iter().any(|warning| warning.contains("`latest`")), "{imported:?}");
    let missing = problem(api.import_application(&import(&registry, "press-vision:9.9.9")).await);
    assert!(missing.code == "registry" && missing.detail.contains("has no"), "{missing:?}");
}

#[tokio::test]
async fn trusts_a_registry_with_the_given_ca() {
    let server = TestServer::start().await;
    let api = api(&server);
    let registry = Registry::start(Access::Tls).await;
    registry.push("press-vision", "1.0.0", &package("1.0.0")).await;
    let body = with_login(import(&registry, "press-vision:1.0.0"), PASSWORD);
    let blind = problem(api.import_application(&ImportApplication { ca: None, ..body.clone() }).await);
    assert!(blind.code == "registry" && blind.detail.contains("cannot be reached"), "{blind:?}");
    let nonsense = ImportApplication { ca: Some("hello".to_owned()), ..body.clone() };
    assert_eq!(refused(api.import_application(&nonsense).await).1, ["ca"]);
    assert!(api.import_application(&body).await.unwrap().added);
}

#[tokio::test]
async fn allows_plain_http_for_loopback_only() {
    let server = TestServer::start().await;
    let api = api(&server);
    let body = ImportApplication {
        source: "oci://registry.example/app:1.0.0".to_owned(),
        plain_http: true,
        ..ImportApplication::default()
    };
    assert_eq!(refused(api.import_application(&body).await), ("invalid".to_owned(), vec!["plainHttp".to_owned()]));
    for source in ["registry.example/app:1", "oci://registry.example/app", "oci://user:pass@registry.example/app:1"] {
        let body = ImportApplication { source: source.to_owned(), ..ImportApplication::default() };
        let problem = problem(api.import_application(&body).await);
        assert_eq!(problem.errors[0].field, "source", "{problem:?}");
        assert!(!problem.detail.contains("pass@"), "{problem:?}");
    }
}

#[tokio::test]
async fn uses_the_token_flow_of_a_registry() {
    // REG-10: the token flow, with a password and anonymous.
    let server = TestServer::start().await;
    let api = api(&server);
    let registry = Registry::start(Access::Open).await;
    registry.push("press-vision", "1.0.0", &package("1.0.0")).await;
    let front = registry::token_front(&registry).await;
    let body = ImportApplication { source: format!("oci://{front}/press-vision:1.0.0"), ..import(&registry, "x:1") };
    let wrong = problem(api.import_application(&with_login(body.clone(), "guess")).await);
    assert!(wrong.code == "registry" && wrong.detail.contains("refused"), "{wrong:?}");
    assert!(api.import_application(&with_login(body, PASSWORD)).await.unwrap().added);
}
