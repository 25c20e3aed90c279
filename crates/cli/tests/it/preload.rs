//! Preloading: the server signs a file, and the device runs its workload from it without a connection.

use crate::support::{Device, PATIENCE, Server, until};
use margrave_agent::config::{AgentConfig, ComposeConfig};
use margrave_agent::runtimes;
use margrave_agent::{SystemClock, run};
use margrave_testbed::{Docker, tool};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const APPLICATION: &str = "line-monitor";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Deploys an application with its image in the embedded registry to an offline device.
fn deployed(server: &Server, port: u16) {
    let samples = server.folder.path().join("samples");
    let built = Command::new(root().join("scripts/samples.sh")).arg("build").arg(&samples).output().unwrap();
    assert!(built.status.success(), "samples.sh: {}", String::from_utf8_lossy(&built.stderr));
    for part in ["images/line-monitor-1.0.0.tar", "packages/line-monitor/1.0.0"] {
        let pushed = server.run(&["app", "push", samples.join(part).to_str().unwrap()]);
        assert_eq!(pushed.code, 0, "{}", pushed.stderr);
    }
    drop(Device::start(server, "press-07", "8Gi", "unreachable = [\"press-07\"]"));
    let (name, port) = ("lineName=Press 7", format!("pagePort={port}"));
    let what = format!("{APPLICATION}@1.0.0");
    let deploy = server.run(&["deploy", &what, "--device", "press-07", "--set", name, "--set", &port, "--yes"]);
    assert_eq!(deploy.code, 0, "{}", deploy.stderr);
    until("publication of the deployment", || {
        let client = server.json(&["client", "show", "press-07"]);
        (client["manifestVersion"].as_u64() > Some(1)).then_some(())
    });
}

fn config(folder: &Path, identity: &Path, docker: &Docker, preload: &Path) -> AgentConfig {
    // Nothing listens there: the server and its registry are unreachable.
    let mut config = AgentConfig { server: Some("https://127.0.0.1:9".parse().unwrap()), ..AgentConfig::default() };
    config.state_dir = folder.join("state");
    config.identity.certificate = Some(identity.join("cert.pem"));
    config.identity.key = Some(identity.join("key.pem"));
    config.identity.trust_bundle = Some(identity.join("bundle.pem"));
    config.boot.preload = Some(preload.to_owned());
    config.retry.first = Duration::from_millis(300);
    let command = vec![tool("docker-compose").display().to_string()];
    config.compose = Some(ComposeConfig { socket: docker.socket(), command, certificates: None });
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preloaded_device_runs_its_application_without_a_network() {
    let mut server = Server::start();
    let port = { TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port() };
    tokio::task::block_in_place(|| deployed(&server, port));
    let (file, identity) = (server.folder.path().join("press-07.tar"), server.folder.path().join("identity"));
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let report = server.json(&["client", "preload", "press-07", "--out", &path(&file), "--with-images"]);
    assert_eq!(report["deployments"], 1, "{report}");
    assert_eq!(report["components"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(report["images"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "it contains sensitive values");
    let audit = server.json(&["audit", "list"]);
    let prepared = |record: &&serde_json::Value| record["action"] == "client.preload";
    assert!(audit.as_array().unwrap().iter().any(|record| prepared(&record)), "{audit}");
    assert_eq!(server.run(&["client", "preload", "missing", "--out", &path(&file)]).code, 5);
    assert_eq!(server.run(&["client", "mint", "press-07", "--out", &path(&identity)]).code, 0);
    server.kill();

    let docker = Docker::start().await;
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &identity, &docker, &file);
    let runtime = runtimes::open(&config).unwrap();
    let stop = CancellationToken::new();
    let agent = tokio::spawn(run(config, runtime, Arc::new(SystemClock), stop.clone()));
    let start = Instant::now();
    loop {
        let answer = Command::new("curl").args(["-fsS", &format!("http://127.0.0.1:{port}/config")]).output().unwrap();
        if String::from_utf8_lossy(&answer.stdout).contains("LINE_NAME=Press 7") {
            break;
        }
        assert!(start.elapsed() < 3 * PATIENCE, "it never answered: {}", String::from_utf8_lossy(&answer.stderr));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stop.cancel();
    agent.await.unwrap().unwrap();
}

#[test]
fn rejects_a_preload_for_a_decommissioned_client() {
    let server = Server::start();
    let out = server.folder.path().join("x.tar");
    let out = out.to_str().unwrap();
    assert_eq!(server.run(&["client", "accept", "press"]).code, 0);
    let empty = server.json(&["client", "preload", "press", "--out", out]);
    assert_eq!((&empty["manifestVersion"], &empty["deployments"]), (&1.into(), &0.into()), "{empty}");
    assert_eq!(server.run(&["client", "decommission", "press", "--yes"]).code, 0);
    let refused = server.run(&["client", "preload", "press", "--out", out]);
    assert_eq!(refused.code, 6);
    assert!(refused.stderr.contains("not accepted"), "{}", refused.stderr);
    until("removal of the partial file", || (!server.folder.path().join("x.part").exists()).then_some(()));
}
