//! A Docker engine for one test, with its own data, socket and bridge, isolated from other engines on the machine. Or
//! Podman with its compatible socket.

use crate::network::{ip, make_bridge};
use crate::tools::{PATIENCE, tool, wait_for};
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Makes bridge names of engines in one process unique.
static ENGINES: AtomicU32 = AtomicU32::new(0);

/// Stops the engine when its standard input closes, which happens when the process of the test ends.
const KEEPER: &str = r#"
mount --bind "$ETC" /etc/docker
"$@" &
engine=$!
read -r _
kill $engine
wait $engine
"#;

/// Podman without systemd and without the right to raise limits.
const PODMAN_SETTINGS: &str = r#"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_config_dir = "@FOLDER@/networks"
"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Docker,
    Podman,
}

pub struct Docker {
    kind: Kind,
    folder: TempDir,
    bridge: String,
    address: String,
    /// The address range of its networks.
    pool: String,
    running: Mutex<Option<Child>>,
}

impl Docker {
    /// Starts an engine and waits until it answers.
    pub async fn start() -> Self {
        Self::start_kind(Kind::Docker, &std::env::temp_dir()).await
    }

    /// With its data below this folder, which may be small.
    pub async fn start_in(folder: &Path) -> Self {
        Self::start_kind(Kind::Docker, folder).await
    }

    /// Podman behind the same socket. It has no health checks where systemd does not run.
    pub async fn start_podman() -> Self {
        Self::start_kind(Kind::Podman, &std::env::temp_dir()).await
    }

    async fn start_kind(kind: Kind, folder: &Path) -> Self {
        let number = ENGINES.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let bridge = format!("mg{process:x}{number:x}");
        let seed = process.wrapping_mul(8).wrapping_add(number);
        // A range kept for tests.
        let address = format!("10.{}.{}.1", 210 + (seed >> 8) % 40, seed % 256);
        make_bridge(&bridge, &address);
        let pool = format!("10.{}.0.0/16", 100 + seed % 50);
        let folder = tempfile::Builder::new().prefix("engine").tempdir_in(folder).unwrap();
        fs::create_dir_all(folder.path().join("etc/certs.d")).unwrap();
        let docker = Self { kind, folder, bridge, address, pool, running: Mutex::new(None) };
        docker.begin().await;
        docker
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.path("socket")
    }

    /// Where this engine, and no other, looks for the certificate authorities of registries.
    pub fn certificates(&self) -> PathBuf {
        self.path("etc/certs.d")
    }

    /// The address of its bridge: not loopback, so that the engine insists on TLS there.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Starts the engine again on the same data.
    pub async fn begin(&self) {
        let log = File::create(self.path("log")).unwrap();
        fs::create_dir_all("/etc/docker").unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", KEEPER, "keeper"]).env("ETC", self.path("etc"));
        match self.kind {
            Kind::Docker => self.dockerd(&mut command),
            Kind::Podman => self.podman(&mut command),
        }
        let child = command.stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        let log = self.path("log");
        let is_ready = || match self.kind {
            Kind::Docker => fs::read_to_string(&log).unwrap().contains("API listen on"),
            Kind::Podman => UnixStream::connect(self.socket()).is_ok(),
        };
        wait_for("the engine is ready", is_ready).await;
    }

    fn podman(&self, command: &mut Command) {
        let settings = self.path("containers.conf");
        let text = PODMAN_SETTINGS.replace("@FOLDER@", &self.folder.path().display().to_string());
        fs::write(&settings, text).unwrap();
        command.env("CONTAINERS_CONF", settings).arg(tool("podman"));
        for (option, folder) in [("--root", "data"), ("--runroot", "exec"), ("--tmpdir", "tmp")] {
            command.arg(option).arg(self.path(folder));
        }
        command.args(["system", "service", "--time", "0"]).arg(format!("unix://{}", self.socket().display()));
    }

    fn dockerd(&self, command: &mut Command) {
        command
            .arg(tool("dockerd"))
            .arg("--data-root")
            .arg(self.path("data"))
            .arg("--exec-root")
            .arg(self.path("exec"))
            .arg("--pidfile")
            .arg(self.path("pid"))
            .arg("--host")
            .arg(format!("unix://{}", self.socket().display()))
            .arg(format!("--bridge={}", self.bridge))
            // Its own pool: networks left by earlier engines would exhaust the default pool.
            .arg(format!("--default-address-pool=base={},size=24", self.pool))
            .args(["--iptables=false", "--ip6tables=false", "--ip-masq=false", "--shutdown-timeout=5"]);
    }

    /// Ends the engine and everything in it; its data stays.
    pub fn stop(&self) {
        let child = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut child) = child {
            drop(child.stdin.take());
            let _ = child.wait();
        }
        let _ = fs::remove_file(self.socket());
    }

    /// Runs `docker`, and fails with what it says when it fails.
    pub fn docker(&self, arguments: &[&str]) -> String {
        let output = self.try_docker(arguments);
        assert!(output.0, "docker {}: {}", arguments.join(" "), output.1);
        output.1
    }

    /// The events of the last hour, one line per event that matches these filters. The engine keeps 256 events.
    pub fn events(&self, filters: &[&str], format: &str) -> Vec<String> {
        // Rounded to whole seconds, so until the end of this one: `0s` would miss the latest events.
        let mut arguments = vec!["events", "--since", "1h", "--until", "-1s", "--format", format];
        arguments.extend(filters.iter().flat_map(|filter| ["--filter", filter]));
        self.docker(&arguments).lines().map(str::to_owned).collect()
    }

    pub fn try_docker(&self, arguments: &[&str]) -> (bool, String) {
        let output = Command::new(tool("docker"))
            .arg("--host")
            .arg(format!("unix://{}", self.socket().display()))
            .args(arguments)
            .env("HOME", self.folder.path())
            .env("DOCKER_CONFIG", self.path("client"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8_lossy(&text).trim().to_owned())
    }

    /// Waits until `docker` prints the expected output.
    pub async fn until(&self, what: &str, arguments: &[&str], wanted: impl Fn(&str) -> bool) -> String {
        let start = std::time::Instant::now();
        loop {
            let (ok, text) = self.try_docker(arguments);
            if ok && wanted(&text) {
                return text;
            }
            assert!(start.elapsed() < PATIENCE, "never happened: {what}; last seen: {text}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    /// Whether an image is being pulled now.
    pub fn is_pulling(&self) -> bool {
        let files = fs::read_dir(self.path("data/tmp")).into_iter().flatten().flatten();
        files.into_iter().any(|file| file.file_name().to_string_lossy().starts_with("GetImageBlob"))
    }

    /// Loads an image into the engine without a registry.
    pub fn load(&self, archive: &Path) {
        self.docker(&["load", "--input", archive.to_str().unwrap()]);
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        // A stopped engine leaves the bridges of its networks.
        let (answers, containers) = self.try_docker(&["ps", "--all", "--quiet"]);
        for container in containers.lines().filter(|_| answers) {
            self.try_docker(&["rm", "--force", container]);
        }
        self.try_docker(&["network", "prune", "--force"]);
        self.stop();
        ip(&["link", "delete", &self.bridge]);
    }
}
