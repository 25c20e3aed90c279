//! First start, later starts, failing starts.

use crate::support::client::{https, plain};
use crate::support::{TestClock, TestServer, config, eventually};
use margrave_core::time::Clock as _;
use margrave_server::config::Config;
use margrave_server::run::{self, ADDRESSES_FILE, ADMIN_PASSWORD_FILE, ADMIN_TOKEN_FILE, StartError};
use margrave_server::secrets;
use serde_json::Value;
use sqlx::{Connection as _, Executor as _};
use std::collections::BTreeMap;
use std::error::Error as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const TRUST_FILES: [&str; 5] = ["svid-ca.pem", "bundle.json", "wfm-svid.pem", "https-ca.pem", "https.pem"];

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_first_start_creates_a_private_trust_domain_and_admin_token() {
    let server = TestServer::start().await;
    let (data, trust) = (&server.state().config.data_dir, server.state().config.trust_dir());
    assert_eq!(files(&trust).keys().cloned().collect::<Vec<_>>(), {
        let mut names = TRUST_FILES.map(ToOwned::to_owned);
        names.sort();
        names
    });
    assert_eq!(mode(&trust), 0o700);
    for name in TRUST_FILES {
        assert_eq!(mode(&trust.join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&data.join(ADMIN_TOKEN_FILE)), 0o600);
    let hash = secrets::hash(&server.admin_token());
    let token = server.state().store.token_find(&hash, server.clock.now()).await.unwrap().unwrap();
    assert_eq!(token.name, "admin");
    // The embedded authority is a root: it signs, and there are no intermediates.
    let material = server.state().identity.material();
    let (_, anchor) = x509_parser::parse_x509_certificate(&material.anchors[0]).unwrap();
    let constraints = anchor.basic_constraints().unwrap().unwrap().value;
    assert_eq!((constraints.ca, constraints.path_len_constraint), (true, Some(0)));
    assert!(anchor.key_usage().unwrap().unwrap().value.key_cert_sign());
}

#[tokio::test]
async fn a_second_start_keeps_all_files() {
    let server = TestServer::start().await;
    let trust = server.state().config.trust_dir();
    let (before, token) = (files(&trust), server.admin_token());
    let server = server.restart().await;
    assert_eq!(files(&trust), before);
    assert_eq!(server.admin_token(), token);
    assert_eq!(server.state().store.tokens().await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_next_start_completes_an_interrupted_first_start() {
    // Invariant 5. An interrupted start leaves the first few files, and perhaps a partial one.
    let done = TestServer::start().await;
    let complete = files(&done.state().config.trust_dir());
    for count in 0..=TRUST_FILES.len() {
        let data = tempfile::tempdir().unwrap();
        let settings = config(&data);
        let trust = settings.trust_dir();
        std::fs::create_dir_all(&trust).unwrap();
        for name in &TRUST_FILES[..count] {
            std::fs::write(trust.join(name), &complete[*name]).unwrap();
        }
        if let Some(name) = TRUST_FILES.get(count) {
            std::fs::write(trust.join(format!("{name}.new")), b"-----BEGIN PRIV").unwrap();
        }
        let server = TestServer::start_in(data, TestClock::new(), settings).await.unwrap();
        let after = files(&trust);
        for name in &TRUST_FILES[..count] {
            assert_eq!(after[*name], complete[*name], "{name} was kept after {count}");
        }
        assert!(TRUST_FILES.iter().all(|name| after.contains_key(*name)), "after {count}: {:?}", after.keys());
        assert_eq!(server.accepted("press").await.get("/api/v1/deployments").await.status(), 200);
        server.running.shutdown().await;
    }
}

#[tokio::test]
async fn uses_an_existing_token_file_without_a_recorded_token() {
    // Killed between writing the file and recording the token.
    let data = tempfile::tempdir().unwrap();
    let settings = config(&data);
    std::fs::create_dir_all(&settings.data_dir).unwrap();
    let secret = secrets::generate(secrets::API_TOKEN_PREFIX);
    std::fs::write(settings.data_dir.join(ADMIN_TOKEN_FILE), format!("{secret}\n")).unwrap();
    let server = TestServer::start_in(data, TestClock::new(), settings).await.unwrap();
    assert_eq!(server.admin_token(), secret);
    let found = server.state().store.token_find(&secrets::hash(&secret), server.clock.now()).await.unwrap();
    assert!(found.is_some());

    // Once a token exists, a deleted file stays deleted.
    std::fs::remove_file(server.state().config.data_dir.join(ADMIN_TOKEN_FILE)).unwrap();
    let server = server.restart().await;
    assert!(!server.state().config.data_dir.join(ADMIN_TOKEN_FILE).exists());
}

#[tokio::test]
async fn creates_the_initial_password_once_in_a_private_file() {
    let server = TestServer::start().await;
    let path = server.state().config.data_dir.join(ADMIN_PASSWORD_FILE);
    assert_eq!(mode(&path), 0o600);
    let (password, known) = (server.admin_password(), server.state().store.operators().await.unwrap());
    assert_eq!((password.len(), known.len(), known[0].name.as_str()), (23, 1, "admin"));
    let server = server.restart().await;
    assert_eq!(server.admin_password(), password);
    assert_eq!(server.state().store.operators().await.unwrap(), known);

    // Killed between writing the file and recording the operator: the file is used.
    let data = tempfile::tempdir().unwrap();
    let settings = config(&data);
    std::fs::create_dir_all(&settings.data_dir).unwrap();
    std::fs::write(settings.data_dir.join(ADMIN_PASSWORD_FILE), "three small words\n").unwrap();
    let server = TestServer::start_in(data, TestClock::new(), settings).await.unwrap();
    assert_eq!(server.admin_password(), "three small words");
}

#[tokio::test]
async fn a_forgotten_password_is_set_while_the_server_is_stopped() {
    let server = TestServer::start().await;
    let settings = Config::clone(&server.state().config);
    let set = async |password: &str, name: &str| {
        run::set_password(&settings, &*TestClock::new(), name, password.to_owned().into()).await
    };
    assert!(matches!(set("three small words", "admin").await, Err(StartError::InUse { .. })), "while it runs");
    let (data, clock) = server.stop().await;
    assert!(matches!(set("short", "admin").await, Err(StartError::Password(_))));
    assert!(matches!(set("three small words", "absent").await, Err(StartError::Password(_))));
    assert_eq!(set("three small words", "Admin").await.unwrap(), 0);
    assert!(!settings.data_dir.join(ADMIN_PASSWORD_FILE).exists(), "the initial password is no longer valid");
    let server = TestServer::start_in(data, clock, settings).await.unwrap();
    assert_eq!(server.state().store.operators().await.unwrap().len(), 1);
    let found = server.state().store.operator_find("admin").await.unwrap().unwrap();
    let right = server.state().hashing.verify("three small words".to_owned().into(), Some(found.password_hash)).await;
    assert!(right.unwrap());
}

#[tokio::test]
async fn writes_the_bound_addresses_to_a_file() {
    let server = TestServer::start().await;
    let path = server.state().config.data_dir.join(ADDRESSES_FILE);
    let written: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(written["devices"], server.devices().to_string());
    assert_ne!(server.devices().port(), 0);
    assert_eq!(written["urls"]["trust"], server.trust_url(""));
    assert_eq!(written["urls"]["operators"], server.operators_url(""));
}

#[tokio::test]
async fn every_listener_can_be_off() {
    let server = TestServer::start_with(|config| {
        config.listeners.devices.enabled = false;
        config.listeners.trust.enabled = false;
    })
    .await;
    assert_eq!((server.running.addresses.devices, server.running.addresses.trust), (None, None));
    assert_eq!(plain().get(server.operators_url("/healthz")).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn operators_can_be_served_over_https() {
    let server = TestServer::start_with(|config| config.listeners.operators.tls = Some(true)).await;
    let url = format!("https://{}/healthz", server.running.addresses.operators.unwrap());
    assert_eq!(https(&server).get(url).send().await.unwrap().status(), 200);
    assert!(plain().get(server.operators_url("/healthz")).send().await.is_err());
}

async fn fails(settings: Config) -> StartError {
    match run::start(settings, TestClock::new()).await {
        Ok(_) => panic!("started"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn reports_a_port_in_use_with_the_next_step() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let mut settings = config(&data);
    settings.listeners.trust.address = taken.local_addr().unwrap();
    let error = fails(settings).await.to_string();
    assert!(error.starts_with("cannot listen for trust on 127.0.0.1:"), "{error}");
    assert!(error.contains("another program uses the port") && error.contains("`listeners`"), "{error}");
    assert!(!data.path().join("data").exists(), "nothing was created");
}

#[tokio::test]
async fn reports_an_unusable_data_folder_with_the_next_step() {
    let data = tempfile::tempdir().unwrap();
    let mut settings = config(&data);
    settings.data_dir = data.path().join("file/inside");
    std::fs::write(data.path().join("file"), "").unwrap();
    let error = fails(settings).await;
    assert!(error.to_string().contains("use another one with --data"), "{error}");
    assert!(error.source().is_some());
}

#[tokio::test]
async fn two_servers_do_not_share_a_data_folder() {
    let server = TestServer::start().await;
    let error = fails(Config::clone(&server.state().config)).await;
    assert!(matches!(error, StartError::InUse { .. }), "{error}");
}

#[tokio::test]
async fn invalid_settings_prevent_the_start() {
    let data = tempfile::tempdir().unwrap();
    let mut settings = config(&data);
    settings.listeners.operators.address = ([0, 0, 0, 0], 0).into();
    settings.listeners.operators.tls = Some(false);
    let error = fails(settings).await.to_string();
    assert!(error.contains("`listeners.operators.tls`"), "{error}");
}

#[tokio::test]
async fn refuses_a_database_of_another_format_and_changes_nothing() {
    sqlx::any::install_default_drivers();
    let format_2 = "CREATE TABLE format (id BIGINT PRIMARY KEY, version BIGINT NOT NULL);
                    INSERT INTO format (id, version) VALUES (1, 2)";
    let without = "CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY);
                   INSERT INTO _sqlx_migrations (version) VALUES (1)";
    for (database, found) in [(format_2, "has format 2"), (without, "has no format version")] {
        let data = tempfile::tempdir().unwrap();
        let settings = config(&data);
        let folder = settings.data_dir.clone();
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("lock"), "").unwrap();
        let url = format!("sqlite://{}?mode=rwc", folder.join("margrave.db").display());
        let mut connection = sqlx::AnyConnection::connect(&url).await.unwrap();
        connection.execute(database).await.unwrap();
        connection.close().await.unwrap();
        let before = files(&folder);
        let error = fails(settings).await;
        assert!(matches!(error, StartError::Store(_)), "{error}");
        let message = error.source().unwrap().to_string();
        for part in [found, "this server uses format 1", "Nothing was changed", "Move the data folder away"] {
            assert!(message.contains(part), "`{part}` in {message}");
        }
        assert_eq!(files(&folder), before);
    }
}

#[tokio::test]
async fn a_stop_drains_requests_and_then_refuses_connections() {
    let server = TestServer::start().await;
    let press = server.accepted("press").await;
    let id = server.deploy("press").await;
    let body = crate::support::fleet::status(id, 2, "installed").to_string();
    let path = format!("/api/v1/deployments/{id}/status");
    let report = tokio::spawn({
        let (press, body, path) = (press.clone(), body.clone(), path.clone());
        async move { press.post(&path, body).await.status() }
    });
    eventually("the report is written", async || {
        server.state().store.deployment_get(id).await.unwrap().unwrap().reported.map(|_| ())
    })
    .await;
    server.running.shutdown().await;
    assert_eq!(report.await.unwrap(), 200);
    assert!(press.try_get("/api/v1/deployments").await.is_err());
}
