//! External registries: added, checked, used by imports, removed; the password is never shown.

use super::registry::{self, Access, PASSWORD, Registry, USER};
use super::{import, with_login};
use crate::operators::packages::{ID, package};
use crate::operators::pages::Browser;
use crate::operators::wording::{compare, normalized};
use crate::operators::{api, problem, refused};
use crate::support::TestServer;
use axum::response::Html;
use axum::routing::get;
use margrave_api::applications::ImportApplication;
use margrave_api::client::{ApiClient, PageQuery};
use margrave_api::registries::{CheckOutcome, CheckRegistry, PutRegistry, RegistryCheck, RegistryUse};
use reqwest::StatusCode;
use reqwest::header::LOCATION;
use std::net::TcpListener;

/// A saved registry from which imports work.
pub(crate) fn kept(registry: &Registry) -> PutRegistry {
    let login = if registry.is_open() { None } else { Some((USER.to_owned(), PASSWORD.to_owned())) };
    let (username, password) = login.unzip();
    PutRegistry {
        username,
        password,
        ca: registry.ca(),
        plain_http: registry.is_plain(),
        comment: Some("a test".to_owned()),
    }
}

async fn check(api: &ApiClient, host: &str) -> RegistryCheck {
    api.check_registry(host, &CheckRegistry::default()).await.unwrap()
}

/// Only host and credentials.
fn bare(registry: &Registry) -> ImportApplication {
    ImportApplication { source: import(registry, "press-vision:1.0.0").source, ..ImportApplication::default() }
}

async fn published(access: Access) -> Registry {
    let registry = Registry::start(access).await;
    registry.push("press-vision", "1.0.0", &package("1.0.0")).await;
    registry
}

#[tokio::test]
async fn an_import_uses_the_saved_credentials_and_says_so() {
    let server = TestServer::start().await;
    let api = api(&server);
    let registry = published(Access::Tls).await;
    let host = registry.host();
    assert_eq!(refused(api.import_application(&bare(&registry)).await), ("registry".into(), vec!["ca".into()]));

    let added = api.put_registry(&host, &kept(&registry), None).await.unwrap();
    assert_eq!((added.username.as_deref(), added.revision, added.last_check.as_ref()), (Some(USER), 1, None));
    assert_eq!(added.added_by, "token:admin");
    let checked = check(&api, &host).await;
    assert_eq!(checked.outcome, CheckOutcome::Reachable, "{checked:?}");
    assert!(checked.message.contains("the user and password were accepted"), "{checked:?}");
    assert_eq!(api.saved_registry(&host).await.unwrap().last_check, Some(checked));

    let imported = api.import_application(&bare(&registry)).await.unwrap();
    let used =
        RegistryUse { host: host.clone(), username: Some(USER.to_owned()), saved_login: true, saved_connection: true };
    assert_eq!((imported.added, imported.registry.as_ref()), (true, Some(&used)));
    let again = api.import_application(&bare(&registry)).await.unwrap();
    assert_eq!((again.added, again.registry), (false, Some(used)));

    // Typed credentials are used, and not saved.
    let typed = ImportApplication { ca: None, plain_http: false, ..with_login(bare(&registry), "guess") };
    let wrong = problem(api.import_application(&typed).await);
    assert!(wrong.detail.contains("refused the username"), "{wrong:?}");
    let typed =
        ImportApplication { username: Some(USER.to_owned()), password: Some(PASSWORD.to_owned()), ..bare(&registry) };
    let used = api.import_application(&typed).await.unwrap().registry.unwrap();
    assert!(!used.saved_login && used.saved_connection, "{used:?}");
    assert_eq!(api.saved_registry(&host).await.unwrap().revision, 1);
    assert!(api.import_application(&bare(&registry)).await.is_ok());

    api.delete_registry(&host, Some("contract ended"), None).await.unwrap();
    assert!(problem(api.import_application(&bare(&registry)).await).detail.contains("not trusted"));
    assert_eq!(api.application(ID).await.unwrap().versions.len(), 1, "imported versions stay");
}

#[tokio::test]
async fn a_check_explains_the_cause_in_the_wording_file() {
    let server = TestServer::start().await;
    let api = api(&server);
    let tls = published(Access::Tls).await;
    let open = Registry::start(Access::Open).await;
    let mut text_found = Vec::new();
    let put = async |host: &str, body: PutRegistry| {
        let known = api.saved_registry(host).await.ok().map(|known| known.revision);
        api.put_registry(host, &body, known).await.unwrap();
        let check = check(&api, host).await;
        (check.outcome, check.message)
    };
    let wrong = PutRegistry { password: Some("guess".to_owned()), ..kept(&tls) };
    let (outcome, message) = put(&tls.host(), wrong).await;
    text_found.push((outcome, CheckOutcome::Denied, message));
    let absent = PutRegistry { username: None, password: None, ..kept(&tls) };
    let (outcome, message) = put(&tls.host(), absent).await;
    text_found.push((outcome, CheckOutcome::Denied, message));
    let blind = PutRegistry { ca: None, ..kept(&tls) };
    let (outcome, message) = put(&tls.host(), blind).await;
    text_found.push((outcome, CheckOutcome::Untrusted, message));
    let (outcome, message) = put(&tls.host(), PutRegistry { plain_http: true, ca: None, ..kept(&tls) }).await;
    text_found.push((outcome, CheckOutcome::NoRegistry, message));

    let (outcome, message) = put(&open.host(), kept(&open)).await;
    text_found.push((outcome, CheckOutcome::Reachable, message));
    let (outcome, message) = put(&open.host(), PutRegistry::default()).await;
    text_found.push((outcome, CheckOutcome::Unreachable, message));

    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (outcome, message) = put(&format!("127.0.0.1:{port}"), PutRegistry::default()).await;
    text_found.push((outcome, CheckOutcome::Unreachable, message));
    let (outcome, message) = put("registry.invalid", PutRegistry::default()).await;
    text_found.push((outcome, CheckOutcome::NameUnknown, message));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let page = listener.local_addr().unwrap().to_string();
    let router = axum::Router::new().fallback(get(async || Html("<h1>Welcome</h1>")));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let (outcome, message) = put(&page, PutRegistry { plain_http: true, ..PutRegistry::default() }).await;
    text_found.push((outcome, CheckOutcome::NoRegistry, message));

    let front = registry::token_front(&open).await;
    let with_token = PutRegistry { plain_http: true, ..kept(&published(Access::Password).await) };
    let (outcome, message) = put(&front, PutRegistry { password: Some("guess".to_owned()), ..with_token }).await;
    text_found.push((outcome, CheckOutcome::Denied, message));
    for (outcome, expected, message) in &text_found {
        assert_eq!(outcome, expected, "{message}");
    }
    // The cause in parentheses is in the words of the operating system.
    let ours = |message: &str| message.split(" (").next().unwrap_or_default().to_owned();
    let messages: Vec<String> =
        text_found.iter().map(|(outcome, _, message)| format!("{outcome:?}: {}", ours(message))).collect();
    compare([("registries", normalized(&messages.join("\n"), &[]))]);
    assert_eq!(problem(api.check_registry("absent.example", &CheckRegistry::default()).await).code, "not-found");
}

#[tokio::test]
async fn rejects_an_invalid_registry_with_its_field() {
    let server = TestServer::start().await;
    let api = api(&server);
    let fields = async |host: &str, body: PutRegistry| refused(api.put_registry(host, &body, None).await);
    let invalid = |field: &str| ("invalid".to_owned(), vec![field.to_owned()]);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(fields("registry.example/apps", PutRegistry::default()).await, invalid("host"));
    assert_eq!(fields("me:pass@registry.example", PutRegistry::default()).await, invalid("host"));
    let plain = PutRegistry { plain_http: true, ..PutRegistry::default() };
    assert_eq!(fields("registry.example", plain).await, invalid("plainHttp"));
    let half = PutRegistry { username: text("ci"), ..PutRegistry::default() };
    assert_eq!(fields("registry.example", half).await, invalid("password"));
    let half = PutRegistry { password: text("pass"), ..PutRegistry::default() };
    assert_eq!(fields("registry.example", half).await, invalid("username"));
    let ca = PutRegistry { ca: text("hello"), ..PutRegistry::default() };
    assert_eq!(fields("registry.example", ca).await, invalid("ca"));
    assert!(api.registries().await.unwrap().items.is_empty());

    let login = PutRegistry { username: text("ci"), password: text("pass"), ..PutRegistry::default() };
    let added = api.put_registry("Registry.Example", &login, None).await.unwrap();
    assert_eq!(added.host, "registry.example", "host names are case-insensitive");
    assert_eq!(fields("registry.example", login.clone()).await.0, "exists");
    assert_eq!(problem(api.put_registry("registry.example", &login, Some(7)).await).code, "conflict");
    let other = PutRegistry { username: text("robot"), ..PutRegistry::default() };
    let wrong = problem(api.put_registry("registry.example", &other, Some(1)).await);
    assert!(wrong.errors[0].field == "password" && wrong.detail.contains("new user"), "{wrong:?}");
    let same = PutRegistry { username: text("ci"), ..PutRegistry::default() };
    assert_eq!(api.put_registry("registry.example", &same, Some(1)).await.unwrap().revision, 2);
    assert_eq!(problem(api.put_registry("b.example", &same, Some(1)).await).code, "not-found");
    assert_eq!(problem(api.delete_registry("registry.example", None, Some(1)).await).code, "conflict");
    api.delete_registry("REGISTRY.example", None, Some(2)).await.unwrap();
    assert_eq!(problem(api.saved_registry("registry.example").await).code, "not-found");
}

#[tokio::test]
async fn never_shows_the_password_of_a_registry() {
    let server = TestServer::start().await;
    let api = api(&server);
    let registry = published(Access::Tls).await;
    let host = registry.host();
    let added = api.put_registry(&host, &kept(&registry), None).await.unwrap();
    let checked = check(&api, &host).await;
    let imported = api.import_application(&bare(&registry)).await.unwrap();
    let browser = Browser::signed_in(&server).await;
    let mut told = format!("{added:?}{checked:?}{imported:?}");
    told += &serde_json::to_string(&api.registries().await.unwrap()).unwrap();
    told += &serde_json::to_string(&api.audit(None, &PageQuery::default()).await.unwrap()).unwrap();
    let events = reqwest::Client::new().get(server.operators_url("/api/events")).bearer_auth(server.admin_token());
    told += &events.send().await.unwrap().text().await.unwrap();
    let rollout = format!("/settings/registries/update?host={host}");
    for path in ["/settings/registries", &rollout, "/events", "/audit", "/catalog/add"] {
        let answer = browser.get(path).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        told += &answer.text().await.unwrap();
    }
    assert!(told.contains(USER) && !told.contains(PASSWORD), "{told}");
    let folder = server.state().config.data_dir.clone();
    let (_data, _) = server.stop().await;
    for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes()), "{}", file.display());
    }
}

#[tokio::test]
async fn saved_registries_survive_a_restart() {
    let server = TestServer::start().await;
    let registry = published(Access::Password).await;
    api(&server).put_registry(&registry.host(), &kept(&registry), None).await.unwrap();
    let server = server.restart().await;
    assert!(api(&server).import_application(&bare(&registry)).await.unwrap().added);
}

#[tokio::test]
async fn pages_save_check_use_and_remove_a_registry_without_script() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let registry = published(Access::Tls).await;
    let (host, ca) = (registry.host(), registry.ca().unwrap());
    let text = async |path: &str| browser.get(path).await.text().await.unwrap();
    assert!(text("/settings/registries").await.contains("data-reason=\"no-registries\""));

    // An error: the form is shown again with everything except the password.
    let wrong = [("host", "registry.example/apps"), ("username", "ci"), ("password", "hidden-words"), ("key", "1")];
    let answer = browser.post("/settings/registries/add", &wrong).await;
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let page = answer.text().await.unwrap();
    assert!(
        page.contains("data-reason=\"invalid\"")
            && page.contains("href=\"#host\"")
            && page.contains("value=\"ci\"")
            && !page.contains("hidden-words")
    );

    // The import that fails for the sign-in links to the settings.
    let source = format!("{host}/press-vision:1.0.0");
    let answer = browser.post("/catalog/add/registry", &[("source", source.as_str()), ("ca", &ca), ("key", "2")]).await;
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let page = answer.text().await.unwrap();
    let way = format!("/settings/registries/add?host={}", host.replace(':', "%3A"));
    assert!(page.contains(&way) && page.contains("data-reason=\"registry\""), "{page}");
    assert!(text(&way).await.contains(&format!("value=\"{host}\"")));

    let form = [("host", host.as_str()), ("username", USER), ("password", PASSWORD), ("ca", &ca), ("key", "3")];
    for _ in 0..2 {
        let answer = browser.post("/settings/registries/add", &form).await;
        assert_eq!(answer.headers()[LOCATION], "/settings/registries", "the same form twice adds once");
    }
    let page = text("/settings/registries").await;
    assert!(page.contains(&format!("signs in as {USER}")) && page.contains("data-state="), "{page}");
    assert!(text("/catalog/add").await.contains(&format!("{host}: signs in as {USER}")));

    // Selected, and without user, password or CA.
    let chosen = [("registry", host.as_str()), ("source", "press-vision:1.0.0"), ("key", "4")];
    let answer = browser.post("/catalog/add/registry", &chosen).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    let text_found = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(text_found.starts_with("said=application-added+"), "{text_found}");

    // Another operator was faster: the current state is shown.
    let late = [("host", host.as_str()), ("username", "robot"), ("password", "x"), ("revision", "9"), ("key", "5")];
    let answer = browser.post("/settings/registries/update", &late).await;
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    assert!(answer.text().await.unwrap().contains("data-reason=\"conflict\""));

    let answer = browser.post("/settings/registries", &[("action", "check"), ("host", &host), ("key", "6")]).await;
    assert_eq!(answer.headers()[LOCATION], "/settings/registries");
    let question = text(&format!("/settings/registries?remove={host}")).await;
    assert!(
        question.contains("data-reason=\"affected\" data-count=\"0\"") && question.contains("data-action=\"remove\"")
    );
    let gone = [("action", "remove"), ("host", host.as_str()), ("revision", "1"), ("comment", "ended"), ("key", "7")];
    assert_eq!(browser.post("/settings/registries", &gone).await.headers()[LOCATION], "/settings/registries");
    assert!(api.registries().await.unwrap().items.is_empty());
    let records = api.audit(Some(&format!("registry/{host}")), &PageQuery::default()).await.unwrap().items;
    assert_eq!((records[0].action.as_str(), records[0].comment.as_deref()), ("registry.remove", Some("ended")));
}

#[tokio::test]
async fn an_import_saves_its_registry_on_request_if_it_works() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let registry = published(Access::Tls).await;
    let (host, ca) = (registry.host(), registry.ca().unwrap());
    let source = format!("{host}/press-vision:1.0.0");
    let form = |password: &'static str, keep: &'static str, key: &'static str| {
        vec![
            ("source", source.clone()),
            ("username", USER.to_owned()),
            ("password", password.to_owned()),
            ("ca", ca.clone()),
            ("key", key.to_owned()),
            (keep, "yes".to_owned()),
        ]
    };
    let post = async |form: Vec<(&str, String)>| {
        let pairs: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        browser.post("/catalog/add/registry", &pairs).await.status()
    };
    assert_eq!(post(form("guess", "keep", "1")).await, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(api.registries().await.unwrap().items.is_empty(), "a registry that does not work is not saved");
    assert_eq!(post(form(PASSWORD, "other", "2")).await, StatusCode::SEE_OTHER);
    assert!(api.registries().await.unwrap().items.is_empty(), "saving was not requested");
    assert_eq!(post(form(PASSWORD, "keep", "3")).await, StatusCode::SEE_OTHER);
    let saved = api.saved_registry(&host).await.unwrap();
    let outcome = saved.last_check.as_ref().unwrap().outcome;
    assert_eq!((saved.username.as_deref(), outcome), (Some(USER), CheckOutcome::Reachable));
    // Saving without typed values keeps the saved registry as it is.
    let bare_form = vec![("source", source.clone()), ("key", "4".to_owned()), ("keep", "yes".to_owned())];
    assert_eq!(post(bare_form).await, StatusCode::SEE_OTHER);
    let again = api.saved_registry(&host).await.unwrap();
    assert_eq!((again.username, again.ca), (saved.username, saved.ca));
    assert!(api.import_application(&bare(&registry)).await.is_ok());
}
