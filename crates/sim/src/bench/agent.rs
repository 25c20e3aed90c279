//! The agent on a device: memory, start-up, size, and the cost of a poll.

use super::process::Process;
use super::results::{Findings, Row};
use super::server::{Server, program};
use super::stats::Spread;
use super::{Setting, print_progress};
use crate::simulation::capabilities;
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

const PSS_TARGET: f64 = 10.0;
const START_TARGET_MS: f64 = 100.0;
const SIZE_TARGET: f64 = 12.0;

/// Poll interval while the cost is measured.
const POLL_PERIOD: Duration = Duration::from_millis(50);
const POLLING: Duration = Duration::from_secs(10);
const POLLING_QUICK: Duration = Duration::from_secs(2);

/// The server's counter of unchanged polls.
const UNCHANGED: &str = "margrave_polls_total{outcome=\"unchanged\"}";

/// Time limit for the first connection of an agent.
const STARTED_WITHIN: Duration = Duration::from_secs(30);

const MIB: f64 = 1024.0 * 1024.0;

pub async fn run(setting: &Setting) -> anyhow::Result<Findings> {
    let folder = super::scratch()?;
    let server = Server::start(folder.path(), setting.cores.server).await?;
    let identity = server.new_clients("press", 1).await?.remove(0);
    let size = std::fs::metadata(program("margrave-agent")?)?.len() as f64 / 1e6;
    let mut starts = Vec::new();
    for round in 0..setting.rounds {
        let home = folder.path().join(format!("start-{round}"));
        starts.push(start_millis(&home, &identity, setting).await?);
    }
    let home = folder.path().join("polling");
    let url = std::fs::read_to_string(identity.join("wfm-url"))?;
    let agent = start(&home, &identity, url.trim(), setting)?;
    let polling = if setting.quick { POLLING_QUICK } else { POLLING };
    // Skip the first polls, which fetch and settle.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (polls, nanos) = (server.metric(UNCHANGED).await?, agent.cpu_nanos()?);
    tokio::time::sleep(polling).await;
    let polled = server.metric(UNCHANGED).await? - polls;
    anyhow::ensure!(polled > 0, "the agent does not poll: {}", log(&home));
    let per_poll = (agent.cpu_nanos()? - nanos) as f64 / 1e3 / polled as f64;
    let pss = agent.pss_bytes()? as f64 / MIB;
    let start = Spread::of(&starts);
    print_progress(&format!("  PSS {pss:.1} MiB, start {}, {size:.1} MB, {per_poll:.0} µs per poll", start.show(0)));
    let rows = vec![
        Row::new("memory (PSS) while polling", format!("{pss:.1} MiB"))
            .target(format!("{PSS_TARGET} MiB"), pss <= PSS_TARGET),
        Row::new("from start to the first connection", format!("{} ms", start.show(0)))
            .target(format!("{START_TARGET_MS} ms"), start.median <= START_TARGET_MS),
        Row::new("size of the program", format!("{size:.1} MB"))
            .target(format!("{SIZE_TARGET} MB"), size <= SIZE_TARGET),
        Row::new("processor time per unchanged poll", format!("{per_poll:.0} µs")),
    ];
    Ok(Findings { rows, plots: Vec::new() })
}

/// From the start of the process to its first connection, which gets no response.
async fn start_millis(home: &Path, identity: &Path, setting: &Setting) -> anyhow::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://{}", listener.local_addr()?);
    let started = Instant::now();
    let _agent = start(home, identity, &url, setting)?;
    let accepted = tokio::time::timeout(STARTED_WITHIN, listener.accept()).await;
    accepted.with_context(|| format!("the agent never connected: {}", log(home)))??;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

fn start(home: &Path, identity: &Path, url: &str, setting: &Setting) -> anyhow::Result<Process> {
    std::fs::create_dir_all(home)?;
    let reported = home.join("capabilities.json");
    std::fs::write(&reported, capabilities("press-0", Some("compose")).to_string())?;
    let config = home.join("agent.toml");
    let text = format!(
        "server = \"{url}\"\nstate_dir = \"{home}/state\"\nruntime = \"simulated\"\n\
         [device]\nid = \"press-0\"\ncapabilities = \"{}\"\ndiscover = false\n\
         [poll]\nperiod = \"{}ms\"\nstart_spread = \"0s\"\nlong_poll = \"0s\"\n\
         [identity]\ncertificate = \"{svid}/cert.pem\"\nkey = \"{svid}/key.pem\"\ntrust_bundle = \"{svid}/bundle.pem\"\n",
        reported.display(),
        POLL_PERIOD.as_millis(),
        home = home.display(),
        svid = identity.display(),
    );
    std::fs::write(&config, text)?;
    let mut command = Command::new(program("margrave-agent")?);
    command.arg("run").arg("--config").arg(config);
    Process::start("the agent", &command, setting.cores.generator, &log_path(home))
}

fn log_path(home: &Path) -> PathBuf {
    home.join("agent.log")
}

fn log(home: &Path) -> String {
    std::fs::read_to_string(log_path(home)).unwrap_or_default()
}
