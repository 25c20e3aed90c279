//! A sensitive value is in no file of the server in the clear (PRM-09), and the device gets it unchanged.

use super::pages::Browser;
use super::wizard::{ANSWERS, started};
use super::{Kind, api, create, deployed, finished, on, packages, press};
use crate::support::client::Device;
use crate::support::{TestClock, TestServer, config, postgres};
use margo::digest::Digest;
use margrave_api::deployments::UpdateDeployment;
use margrave_api::preload::CreatePreload;
use margrave_server::config::Config;
use margrave_server::run::{self, SEAL_KEY_PREFIX, SealKeyError, StartError};
use margrave_server::secrets;
use reqwest::header::LOCATION;
use serde_json::json;
use std::path::Path;

const SECRETS: [&str; 4] = ["s3cret-value", "an0ther-value", "dr4ft-value", "gr0up-value"];

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|part| part == text)
}

/// The database with its log, byte by byte.
fn database(folder: &Path) -> Vec<u8> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let ours = files.filter(|file| file.file_name().to_string_lossy().starts_with("margrave.db"));
    let bytes: Vec<u8> = ours.flat_map(|file| std::fs::read(file.path()).unwrap()).collect();
    assert!(holds(&bytes, packages::ID.as_bytes()), "a value that is not secret is found");
    bytes
}

#[track_caller]
fn assert_sealed(folder: &Path, bundles: &[Vec<u8>]) {
    let bytes = database(folder);
    for secret in SECRETS {
        assert!(!holds(&bytes, secret.as_bytes()), "`{secret}` is in the database");
    }
    // An archive hides its content from a search; its own bytes must not be there either.
    for bundle in bundles {
        assert!(!holds(&bytes, &bundle[40..72]), "a bundle is in the database");
    }
}

/// What a device fetches, checked against the manifest: the bundle, and its only document.
async fn fetched(server: &TestServer, client: &Device, name: &str) -> (Vec<u8>, String) {
    let (_, manifest) = server.manifest(name).await;
    let reference = &manifest.deployments[0];
    let yaml = client.get(&reference.url).await.bytes().await.unwrap();
    assert_eq!(Digest::of(&yaml), reference.digest);
    let named = manifest.bundle.as_ref().unwrap();
    let bundle = client.get(&named.url).await.bytes().await.unwrap().to_vec();
    assert_eq!(Some(bundle.len() as u64), named.size_bytes);
    let unpacked = margo::bundle::unpack(&bundle, named, &manifest.deployments).unwrap();
    assert_eq!(unpacked[&reference.deployment_id], yaml);
    (bundle, String::from_utf8(yaml.to_vec()).unwrap())
}

#[tokio::test]
async fn a_sensitive_value_is_sealed_in_the_database_and_reaches_its_device() {
    let server = TestServer::start().await;
    let (api, folder) = (api(&server), server.state().config.data_dir.clone());
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let (first, yaml) = fetched(&server, &client, "press").await;
    assert!(yaml.contains("s3cret-value"), "{yaml}");
    assert_sealed(&folder, std::slice::from_ref(&first));

    let answers = indexmap::IndexMap::from([("password".to_owned(), json!("an0ther-value"))]);
    let body = UpdateDeployment { values: answers, ..UpdateDeployment::default() };
    let rollout = api.update_deployment(&deployment.id, &body, None).await.unwrap();
    finished(&api, &rollout).await;
    let (second, yaml) = fetched(&server, &client, "press").await;
    assert!(yaml.contains("an0ther-value"), "{yaml}");
    // The response for a repeat is stored too, with the document in it.
    let preload = api.create_preload("press", &CreatePreload::default()).await.unwrap();
    assert_eq!(preload.deployments[0].yaml, yaml);

    let browser = Browser::signed_in(&server).await;
    let draft = started(&browser).await;
    press(&server, "lathe", &Kind::default()).await;
    browser.post(&format!("{draft}/devices"), &[("go", "all")]).await;
    let answers = [ANSWERS.as_slice(), &[("p:password", "dr4ft-value")]].concat();
    let kept = browser.post(&format!("{draft}/configuration"), &answers).await;
    assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/review"));
    assert_sealed(&folder, &[first.clone(), second.clone()]);
    let made = browser.post(&format!("{draft}/review"), &[("key", "k"), ("comment", "")]).await;
    let rollout = made.headers()[LOCATION].to_str().unwrap().trim_start_matches("/rollouts/").to_owned();
    finished(&api, &api.rollout(&rollout).await.unwrap()).await;
    let mut group = create("1.0.0", on(&["mill"]));
    group.values = indexmap::IndexMap::from([("password".to_owned(), json!("gr0up-value"))]);
    press(&server, "mill", &Kind::default()).await;
    finished(&api, &api.create_deployments(&group).await.unwrap()).await;
    api.remove_deployment(&deployment.id, None, None).await.unwrap();
    assert_sealed(&folder, &[first.clone(), second.clone()]);

    let server = server.restart().await;
    assert_sealed(&folder, &[first.clone(), second.clone()]);
    let (_, yaml) = fetched(&server, &server.device("mill"), "mill").await;
    assert!(yaml.contains("gr0up-value"), "{yaml}");
    let (_data, _) = server.stop().await;
    assert_sealed(&folder, &[first, second]);
}

#[tokio::test]
async fn does_not_seal_an_application_without_sensitive_parameters() {
    let server = TestServer::start().await;
    server.accepted("press").await;
    server.deploy("press").await;
    assert!(!server.state().store.has_sealed().await.unwrap());
    // So its key may get lost: the next start creates another.
    let path = server.state().config.seal_key_file();
    let before = std::fs::read_to_string(&path).unwrap();
    assert!(before.starts_with(SEAL_KEY_PREFIX), "{before}");
    std::fs::remove_file(&path).unwrap();
    let server = server.restart().await;
    assert_ne!(std::fs::read_to_string(&path).unwrap(), before);
    press(&server, "lathe", &Kind::default()).await;
    deployed(&server, "lathe").await;
    assert!(server.state().store.has_sealed().await.unwrap());
}

async fn refused(settings: &Config) -> SealKeyError {
    match run::start(settings.clone(), TestClock::new()).await {
        Ok(_) => panic!("started"),
        Err(StartError::SealKey(error)) => error,
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn refuses_to_start_without_the_key_and_says_what_to_do() {
    let server = TestServer::start().await;
    press(&server, "press", &Kind::default()).await;
    deployed(&server, "press").await;
    let settings = Config::clone(&server.state().config);
    let path = settings.seal_key_file();
    let (data, clock) = server.stop().await;
    let key = std::fs::read(&path).unwrap();

    std::fs::remove_file(&path).unwrap();
    let error = refused(&settings).await;
    assert!(matches!(error, SealKeyError::Missing { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()) && text.contains("restore it from a backup"), "{text}");
    assert!(!path.exists(), "no other key is created");

    std::fs::write(&path, secrets::generate(SEAL_KEY_PREFIX)).unwrap();
    let error = refused(&settings).await;
    assert!(matches!(error, SealKeyError::Other { .. }), "{error:?}");
    assert!(error.to_string().contains("`store.seal_key_file`"), "{error}");

    std::fs::write(&path, &key[..key.len() - 2]).unwrap();
    let error = refused(&settings).await;
    assert!(matches!(error, SealKeyError::Unusable { .. }), "{error:?}");
    assert_eq!(std::fs::read(&path).unwrap(), key[..key.len() - 2], "it stays unchanged");

    // The right one, elsewhere.
    let elsewhere = data.path().join("elsewhere.key");
    std::fs::write(&elsewhere, &key).unwrap();
    let mut settings = settings;
    settings.store.seal_key_file = Some(elsewhere);
    let server = TestServer::start_in(data, clock, settings).await.unwrap();
    let (_, yaml) = fetched(&server, &server.device("press"), "press").await;
    assert!(yaml.contains("s3cret-value"), "{yaml}");
}

#[tokio::test]
async fn servers_on_one_database_need_the_same_key() {
    let url = postgres::database().await;
    let one = TestServer::start_with(|config| config.store.url = Some(url.clone())).await;
    let data = tempfile::tempdir().unwrap();
    let mut settings = config(&data);
    settings.store.url = Some(url);
    let path = settings.seal_key_file();
    assert!(matches!(refused(&settings).await, SealKeyError::Missing { .. }), "although nothing is sealed yet");
    std::fs::write(&path, secrets::generate(SEAL_KEY_PREFIX)).unwrap();
    assert!(matches!(refused(&settings).await, SealKeyError::Other { .. }));
    std::fs::copy(one.state().config.seal_key_file(), &path).unwrap();
    let two = TestServer::start_in(data, TestClock::new(), settings).await.unwrap();

    press(&one, "press", &Kind::default()).await;
    deployed(&one, "press").await;
    let (_, yaml) = fetched(&two, &one.device("press"), "press").await;
    assert!(yaml.contains("s3cret-value"), "{yaml}");
    let (one, two) = (one.running, two.running);
    tokio::join!(one.shutdown(), two.shutdown());
}
