//! A separate Docker engine pushes images and pulls them again.

use super::{run_in, tool};
use crate::support::{CLIENT, Fixture, TOKEN, wait_for};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A running engine; stopped when dropped.
pub(crate) struct Engine {
    process: Child,
    folder: TempDir,
}

impl Engine {
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// With additional arguments for the engine.
    pub(crate) async fn start_with(arguments: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("engine").tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let log = File::create(path("log")).unwrap();
        let process = Command::new(tool("dockerd"))
            .arg("--data-root")
            .arg(path("data"))
            .arg("--exec-root")
            .arg(path("exec"))
            .arg("--pidfile")
            .arg(path("pid"))
            .arg("--host")
            .arg(format!("unix://{}", path("socket").display()))
            // Next to an engine that may already run here.
            .args(["--bridge=none", "--iptables=false"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let engine = Self { process, folder };
        let log = engine.folder.path().join("log");
        wait_for("the engine is ready", || fs::read_to_string(&log).unwrap().contains("API listen on")).await;
        engine
    }

    async fn docker(&self, fixture: &Fixture, arguments: &[&str], input: &str) -> super::Ran {
        self.docker_in(&fixture.scratch(), arguments, input).await
    }

    pub(crate) async fn docker_in(&self, home: &Path, arguments: &[&str], input: &str) -> super::Ran {
        let host = format!("unix://{}", self.folder.path().join("socket").display());
        let arguments: Vec<&str> = ["--host", &host].into_iter().chain(arguments.iter().copied()).collect();
        run_in(home, "docker", &arguments, input).await
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let id = rustix::process::Pid::from_child(&self.process);
        // It stops its containerd on this signal; a kill would leave it behind.
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let _ = self.process.wait();
    }
}

/// The root of an image: one file, incompressible enough to be a realistic layer.
fn write_root(path: &Path) {
    let mut archive = tar::Builder::new(File::create(path).unwrap());
    let mut content = vec![0; 2_000_000];
    getrandom::fill(&mut content).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_mode(0o755);
    archive.append_data(&mut header, "program", content.as_slice()).unwrap();
    archive.finish().unwrap();
}

#[tokio::test]
async fn a_docker_engine_pushes_an_image_and_a_device_pulls_it() {
    let fixture = Fixture::new().await;
    let engine = Engine::start().await;
    let root: PathBuf = fixture.scratch().join("root.tar");
    write_root(&root);
    let address = fixture.address.to_string();
    let image = format!("{address}/images/press:1.0");
    engine.docker(&fixture, &["import", root.to_str().unwrap(), &image], "").await.ok();

    let refused = engine.docker(&fixture, &["push", &image], "").await.refused();
    assert!(refused.contains("no basic auth credentials"), "{refused}");
    let login = ["login", "-u", "token", "--password-stdin", &address];
    let refused = engine.docker(&fixture, &login, "wrong").await.refused();
    assert!(refused.to_lowercase().contains("unauthorized"), "{refused}");
    engine.docker(&fixture, &login, TOKEN).await.ok();
    engine.docker(&fixture, &["push", &image], "").await.ok();
    // Layers of another repository are mounted, not sent again.
    let second = format!("{address}/images/second:1.0");
    engine.docker(&fixture, &["tag", &image, &second], "").await.ok();
    let pushed = engine.docker(&fixture, &["push", &second], "").await.ok();
    assert!(pushed.contains("Mounted from images/press"), "{pushed}");

    engine.docker(&fixture, &["rmi", &image, &second], "").await.ok();
    let login = ["login", "-u", CLIENT, "--password-stdin", &address];
    engine.docker(&fixture, &login, &fixture.pull_password).await.ok();
    engine.docker(&fixture, &["pull", &second], "").await.ok();
    let digest = fixture.head("/v2/images/second/manifests/1.0").await;
    let digest = crate::support::header(&digest, "docker-content-digest");
    let shown = engine.docker(&fixture, &["inspect", "--format", "{{.RepoDigests}}", &second], "").await.ok();
    assert!(shown.contains(&digest), "{shown}");
    let refused = engine.docker(&fixture, &["push", &second], "").await.refused();
    assert!(refused.contains("denied"), "{refused}");
}

#[tokio::test]
async fn reports_an_exceeded_quota_to_a_docker_engine() {
    let fixture = Fixture::with(|options| options.bytes_max = Some(1_000_000)).await;
    let engine = Engine::start().await;
    let root = fixture.scratch().join("root.tar");
    write_root(&root);
    let address = fixture.address.to_string();
    let image = format!("{address}/images/press:1.0");
    engine.docker(&fixture, &["import", root.to_str().unwrap(), &image], "").await.ok();
    engine.docker(&fixture, &["login", "-u", "token", "--password-stdin", &address], TOKEN).await.ok();
    let refused = engine.docker(&fixture, &["push", &image], "").await.refused();
    assert!(refused.contains("denied: the registry has a quota of 1000000 bytes"), "{refused}");
}
