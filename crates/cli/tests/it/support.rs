//! A separate server for each test, the binary, and devices with the real agent.

use margrave_agent::config::{AgentConfig, TrustConfig};
use margrave_agent::enroll::enroll;
use margrave_agent::runtimes::simulated::Simulated;
use margrave_agent::{SystemClock, run};
use regex::Regex;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Upper bound for waits, so that a broken test does not hang.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
const CHECK_INTERVAL: Duration = Duration::from_millis(25);

/// Waits for a condition.
pub(crate) fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "no {what} within {PATIENCE:?}");
        std::thread::park_timeout(CHECK_INTERVAL);
    }
}

pub(crate) fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").canonicalize().unwrap()
}

/// The binary in a clean environment: no saved login, no variables.
pub(crate) fn margrave(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_margrave"));
    command.env_clear().env("XDG_CONFIG_HOME", home).current_dir(samples().parent().unwrap()).stdin(Stdio::null());
    command
}

/// The output, with everything that differs between runs replaced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("not killed by a signal"),
            stdout: stable(&String::from_utf8(output.stdout).unwrap()),
            stderr: stable(&String::from_utf8(output.stderr).unwrap()),
        }
    }

    #[track_caller]
    pub(crate) fn check(&self, code: i32, stdout: &str, stderr: &str) {
        assert_eq!(
            (self.code, &*self.stdout, &*self.stderr),
            (code, stdout, stderr),
            "\n{}\n{}",
            self.stdout,
            self.stderr
        );
    }
}

fn stable(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, word) in [
        (r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", "<uuid>"),
        (r"sha256:[0-9a-f]{64}", "<digest>"),
        (r"mgve?_[A-Za-z0-9_-]{43}", "<secret>"),
        (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "<time>"),
        (r"127\.0\.0\.1:\d+", "<address>"),
        (r"\b(now|\d+ s ago)( +)", "<ago> "),
        (r"\b(now|\d+ s ago)$", "<ago>"),
        (r"(?m)\b(now|\d+ s ago)$", "<ago>"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, word).into_owned();
    }
    text
}

/// A server in a child process, stopped with the test.
pub(crate) struct Server {
    pub(crate) folder: TempDir,
    child: Child,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// Starts with other settings, as TOML.
    pub(crate) fn start_with(settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The registry named by the samples does not exist; tests that need the check enable it.
        let asks = if settings.contains("check_registries") { "" } else { "[catalog]\ncheck_registries = false\n" };
        std::fs::write(folder.path().join("config.toml"), format!("{settings}\n{asks}")).unwrap();
        let child = Self::spawn(&folder, ["127.0.0.1:0"; 3]);
        let server = Self { folder, child };
        server.until_ready();
        server
    }

    fn spawn(folder: &TempDir, [devices, trust, operators]: [&str; 3]) -> Child {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.path().join("log")).unwrap();
        margrave(folder.path())
            .args(["serve", "--devices", devices, "--trust", trust, "--operators", operators, "--config"])
            .arg(folder.path().join("config.toml"))
            .arg("--data")
            .arg(folder.path().join("data"))
            .stderr(Stdio::from(log))
            .spawn()
            .unwrap()
    }

    fn until_ready(&self) {
        until("server", || self.try_run(&["status"]).ok().filter(|output| output.status.success()));
    }

    /// Kills it without a graceful shutdown.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills the server and starts it again on the same data.
    pub(crate) fn kill_and_start_again(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Starts it again, with the same data and at the same addresses.
    pub(crate) fn start_again(&mut self) {
        let text = std::fs::read_to_string(self.data().join("addresses.json")).unwrap();
        let addresses: Value = serde_json::from_str(&text).unwrap();
        let address = |name: &str| addresses[name].as_str().unwrap().to_owned();
        let (devices, trust, operators) = (address("devices"), address("trust"), address("operators"));
        self.child = Self::spawn(&self.folder, [&devices, &trust, &operators]);
        self.until_ready();
    }

    pub(crate) fn with_samples() -> Self {
        let server = Self::start();
        for sample in ["line-monitor/1.0.0", "line-monitor/1.1.0", "vibration-analytics/2.3.0"] {
            let seen = server.run(&["app", "import", samples().join(sample).to_str().unwrap()]);
            assert_eq!(seen.code, 0, "{}", seen.stderr);
        }
        server
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    pub(crate) fn url(&self) -> String {
        let text = std::fs::read_to_string(self.data().join("addresses.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["urls"]["operators"].as_str().unwrap().to_owned()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = margrave(self.folder.path());
        command.arg("--data").arg(self.data()).args(arguments);
        command
    }

    fn try_run(&self, arguments: &[&str]) -> std::io::Result<Output> {
        self.command(arguments).output()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(self.try_run(arguments).unwrap())
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.command(arguments).args(["-o", "json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Stops the server like an init system and returns the exit code.
    pub(crate) fn terminate(&mut self) -> i32 {
        self.signal(rustix::process::Signal::TERM);
        until("exit of the server", || self.child.try_wait().unwrap()).code().expect("not killed by a signal")
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The real agent with a real identity; only its runtime is simulated. Stops with the test.
pub(crate) struct Device {
    stop: CancellationToken,
    _runtime: tokio::runtime::Runtime,
}

impl Device {
    /// `script` controls the simulated runtime.
    pub(crate) fn start(server: &Server, id: &str, memory: &str, script: &str) -> Self {
        let folder = server.folder.path().join("devices").join(id);
        std::fs::create_dir_all(&folder).unwrap();
        let capabilities = folder.join("capabilities.json");
        std::fs::write(&capabilities, capabilities_of(memory).to_string()).unwrap();
        let script_path = folder.join("script.toml");
        std::fs::File::create(&script_path).unwrap().write_all(script.as_bytes()).unwrap();
        assert_eq!(server.run(&["client", "accept", id]).code, 0);
        let token = server.json(&["client", "enrollment-token", id]);
        let text = |name: &str| token[name].as_str().unwrap().to_owned();
        let mut config = AgentConfig { state_dir: folder.join("state"), ..AgentConfig::default() };
        config.trust = TrustConfig {
            url: Some(text("trustUrl").parse().unwrap()),
            pin: Some(text("pin")),
            ..TrustConfig::default()
        };
        config.device.id = Some(id.parse().unwrap());
        config.device.capabilities = Some(capabilities);
        config.device.discover = false;
        config.poll.period = Duration::from_millis(100);
        config.poll.start_spread = Duration::ZERO;
        config.simulated.script = Some(script_path.clone());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(enroll(&config, &text("token").into(), false, Arc::new(SystemClock))).unwrap();
        std::fs::create_dir_all(&config.state_dir).unwrap();
        let simulated = Arc::new(Simulated::open(&config.state_dir, Some(script_path)).unwrap());
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        runtime.spawn(async move {
            run(config, simulated, Arc::new(SystemClock), stopped).await.unwrap();
        });
        until("device", || {
            let devices = server.json(&["device", "list"]);
            devices.as_array().unwrap().iter().any(|device| device["device"] == id).then_some(())
        });
        Self { stop, _runtime: runtime }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn capabilities_of(memory: &str) -> Value {
    json!({
        "properties": {
            "vendor": "Example", "modelNumber": "One", "serialNumber": "1",
            "cpus": [{ "cores": 4, "architecture": "amd64" }],
            "memory": memory, "storage": "32Gi", "peripherals": [], "interfaces": [{ "type": "ethernet" }],
            "otelCollector": true, "supportedRuntimes": ["oci"], "supportedDeploymentTypes": ["compose"],
        },
    })
}
