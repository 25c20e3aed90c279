//! Unchanged polls per second of processor time: the real server against the barest handler, by the same generator.

use super::bare::{self, ADDRESS_FILE};
use crate::chaos::device::DeviceClient;
use crate::chaos::{site, wait};
use anyhow::Context as _;
use margrave_api::client::{ApiClient, ClientOptions};
use margrave_api::clients::{CreateClient, IssueSvid};
use margrave_server::clock::SystemClock;
use margrave_server::config::Config;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connections, each of a client of its own, each with one request under way at a time.
const CONNECTIONS: usize = 16;

/// Warming up, then measuring.
const WARM_UP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(6);

/// What one server did.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    pub requests: u64,
    /// Processor time of the server's process.
    pub cpu_seconds: f64,
    pub wall_seconds: f64,
}

impl Served {
    pub fn per_cpu_second(&self) -> f64 {
        self.requests as f64 / self.cpu_seconds
    }
}

pub struct Polls {
    pub margrave: Served,
    pub bare: Served,
}

/// Ends with this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn child(role: &str, folder: &Path) -> anyhow::Result<Process> {
    let own = std::env::current_exe().context("find this program")?;
    let log = std::fs::File::create(folder.join(format!("{role}.log")))?;
    let spawned = Command::new(own).arg(role).arg(folder).stdout(Stdio::null()).stderr(log).spawn()?;
    Ok(Process(spawned))
}

/// The real server in `folder/data`, until the process is ended.
pub async fn serve_margrave(folder: &Path) -> anyhow::Result<()> {
    let mut config = Config { data_dir: folder.join("data"), ..Config::default() };
    let loopback = "127.0.0.1:0".parse().expect("an address");
    config.listeners.devices.address = loopback;
    config.listeners.trust.address = loopback;
    config.listeners.operators.address = loopback;
    "warn".clone_into(&mut config.log.filter);
    margrave_server::telemetry::init(&config.log)?;
    let _running = margrave_server::run::start(config, Arc::new(SystemClock)).await?;
    std::future::pending().await
}

pub async fn serve_bare(folder: &Path) -> anyhow::Result<()> {
    bare::serve(folder).await
}

pub async fn run() -> anyhow::Result<Polls> {
    let folder = super::scratch()?;
    let server = child("serve-margrave", folder.path())?;
    let identities = provision(folder.path()).await?;
    let margrave = measure(&server, &identities).await?;
    drop(server);

    std::fs::copy(identities[0].join("bundle.pem"), folder.path().join("bundle.pem"))?;
    let server = child("serve-bare", folder.path())?;
    let address = read_when_there(&folder.path().join(ADDRESS_FILE)).await?;
    for identity in &identities {
        std::fs::write(identity.join("wfm-url"), format!("https://{address}"))?;
    }
    let bare = measure(&server, &identities).await?;
    Ok(Polls { margrave, bare })
}

async fn read_when_there(path: &Path) -> anyhow::Result<String> {
    wait::until("a server listening", Duration::from_mins(1), async || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        Ok(if text.is_empty() { Err("nothing yet".to_owned()) } else { Ok(text) })
    })
    .await
}

/// Identities by the operator API, in the files a stranger's client takes.
async fn provision(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let data = folder.join("data");
    let addresses: serde_json::Value = serde_json::from_str(&read_when_there(&data.join("addresses.json")).await?)?;
    let operators = format!("http://{}", addresses["operators"].as_str().context("the operators' address")?);
    let http = site::plain()?;
    wait::until("the server being ready", Duration::from_mins(1), async || {
        let answer = http.get(format!("{operators}/readyz")).send().await;
        Ok(answer
            .map_err(|error| error.to_string())
            .and_then(|answer| answer.error_for_status().map(|_| ()).map_err(|error| error.to_string())))
    })
    .await?;
    let token = std::fs::read_to_string(data.join("admin-token"))?;
    let api = ApiClient::new(&ClientOptions::new(operators).with_token(token.trim()))?;
    let mut identities = Vec::new();
    for index in 0..CONNECTIONS {
        let id = format!("bench-{index}");
        let body = CreateClient { id: id.clone(), state: None, note: None, reason: None };
        api.create_client(&body).await?;
        let key = rcgen::KeyPair::generate()?;
        let csr = rcgen::CertificateParams::default().serialize_request(&key)?.pem()?;
        let issued = api.issue_svid(&id, &IssueSvid { csr, valid_for_seconds: None }).await?;
        let files = folder.join("identities").join(&id);
        std::fs::create_dir_all(&files)?;
        std::fs::write(files.join("cert.pem"), issued.certificate)?;
        std::fs::write(files.join("key.pem"), key.serialize_pem())?;
        std::fs::write(files.join("bundle.pem"), issued.trust_bundle)?;
        std::fs::write(files.join("wfm-url"), issued.wfm_url)?;
        identities.push(files);
    }
    Ok(identities)
}

async fn measure(server: &Process, identities: &[PathBuf]) -> anyhow::Result<Served> {
    let mut clients = Vec::new();
    for identity in identities {
        let device = DeviceClient::open(identity)?;
        let etag = device.manifest(None).await.ok().flatten().and_then(|fetched| fetched.etag);
        let etag = etag.unwrap_or_else(|| margo::Digest::of(b"bare").etag());
        let unchanged = device.manifest(Some(&etag)).await?.is_none();
        anyhow::ensure!(unchanged, "an unchanged poll was answered with content");
        clients.push((device, etag));
    }
    generate(&clients, WARM_UP).await?;
    let before = cpu_seconds(server.0.id())?;
    let begun = Instant::now();
    let requests = generate(&clients, MEASURED).await?;
    let wall_seconds = begun.elapsed().as_secs_f64();
    Ok(Served { requests, cpu_seconds: cpu_seconds(server.0.id())? - before, wall_seconds })
}

async fn generate(clients: &[(DeviceClient, String)], time: Duration) -> anyhow::Result<u64> {
    let end = Instant::now() + time;
    let mut tasks = tokio::task::JoinSet::new();
    for (device, etag) in clients {
        let (device, etag) = (device.clone(), etag.clone());
        tasks.spawn(async move {
            let mut answered = 0_u64;
            while Instant::now() < end {
                anyhow::ensure!(device.manifest(Some(&etag)).await?.is_none(), "a poll was not answered with 304");
                answered += 1;
            }
            Ok(answered)
        });
    }
    tasks.join_all().await.into_iter().sum()
}

/// Clock ticks per second in `/proc`, the same on every Linux.
const TICKS: f64 = 100.0;

/// Processor time of a process so far, user and system.
fn cpu_seconds(process: u32) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).context("the server has ended")?;
    // The name in parentheses may hold blanks; the rest is counted from behind it.
    let rest = text.rsplit_once(')').map(|(_, rest)| rest).context("read /proc")?;
    let ticks: f64 = rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS)
}
