//! Unchanged polls per second of processor time: the real server, nginx, and a minimal handler on our own libraries,
//! with the same generator in alternating runs.

use super::bare::ADDRESS_FILE;
use super::generator::{self, Exchange, Line};
use super::nginx::{self, Tickets};
use super::plot::{Plot, Runs, Shape};
use super::process::{Pinned, Process};
use super::results::{Findings, Row};
use super::server::Server;
use super::stats::Spread;
use super::{Setting, print_progress};
use crate::chaos::wait;
use anyhow::Context as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Connections, each with its own client and one open request at a time.
pub(super) const CONNECTIONS: usize = 16;

const TARGET: f64 = 0.9;

/// A measured server with its open connections.
struct Contender<'p> {
    name: &'static str,
    process: &'p Process,
    lines: Vec<(Line, Vec<u8>)>,
    per_cpu_second: Vec<f64>,
}

impl Contender<'_> {
    async fn run(&mut self, setting: &Setting) -> anyhow::Result<()> {
        let lines = std::mem::take(&mut self.lines);
        let (lines, _) = generator::polls(lines, setting.warm_up).await?;
        let before = self.process.cpu_seconds()?;
        let (lines, answered) = generator::polls(lines, setting.measured).await?;
        self.per_cpu_second.push(answered as f64 / (self.process.cpu_seconds()? - before));
        self.lines = lines;
        Ok(())
    }
}

pub async fn run(setting: &Setting) -> anyhow::Result<Findings> {
    let folder = super::scratch()?;
    let server = Server::start(folder.path(), setting.cores.server).await?;
    let identities = server.new_clients("bench", CONNECTIONS).await?;
    let bundle = identities[0].join("bundle.pem");
    let nginx = nginx::start(&folder.path().join("nginx"), &bundle, Tickets::On, setting.cores.server).await?;
    std::fs::copy(&bundle, folder.path().join("bundle.pem"))?;
    let (bare, bare_address) = start_bare(folder.path(), setting).await?;
    let configs = identities.iter().map(|identity| generator::config(identity, Exchange::X25519));
    let configs = configs.collect::<anyhow::Result<Vec<_>>>()?;

    let _pinned = Pinned::to(setting.cores.generator)?;
    let mut contenders = Vec::new();
    for (name, process, address) in [
        ("margrave", &server.process, server.devices),
        ("nginx", &nginx.process, nginx.address),
        ("bare axum + rustls", &bare, bare_address),
    ] {
        let lines = generator::open(address, &configs).await.with_context(|| format!("open connections to {name}"))?;
        contenders.push(Contender { name, process, lines, per_cpu_second: Vec::new() });
    }
    for round in 1..=setting.rounds {
        for contender in &mut contenders {
            contender.run(setting).await.with_context(|| format!("poll {}", contender.name))?;
        }
        print_progress(&format!("  round {round} of {}: {}", setting.rounds, last(&contenders)));
    }
    let ours = std::mem::take(&mut contenders[0].lines);
    let written = writes(&server.process, ours).await?;
    Ok(findings(&contenders, &written))
}

fn last(contenders: &[Contender<'_>]) -> String {
    let one = |contender: &Contender<'_>| {
        format!("{} {:.0}", contender.name, contender.per_cpu_second.last().copied().unwrap_or_default())
    };
    contenders.iter().map(one).collect::<Vec<_>>().join(", ")
}

pub(super) async fn start_bare(folder: &Path, setting: &Setting) -> anyhow::Result<(Process, SocketAddr)> {
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    command.arg("serve-bare").arg(folder);
    let mut process = Process::start("the bare handler", &command, setting.cores.server, &folder.join("bare.log"))?;
    let address = wait::until("the bare handler listening", Duration::from_mins(1), async || {
        process.must_run()?;
        let text = std::fs::read_to_string(folder.join(ADDRESS_FILE)).map_err(|error| error.to_string());
        Ok(text.and_then(|text| text.parse::<SocketAddr>().map_err(|error| error.to_string())))
    })
    .await?;
    Ok((process, address))
}

/// Bytes written to disk during unchanged polls.
struct Written {
    polls: u64,
    /// Between two writes of last-seen times.
    by_polls: u64,
    /// By one such write, for all clients.
    by_seen: u64,
}

/// Last-seen times are written every few seconds for all clients, however often they poll. Therefore: wait for such a
/// write, then poll as fast as possible until shortly before the next one.
async fn writes(process: &Process, lines: Vec<(Line, Vec<u8>)>) -> anyhow::Result<Written> {
    const SLICE: Duration = Duration::from_millis(50);
    const BETWEEN: Duration = Duration::from_secs(3);
    const SEEN_WITHIN: Duration = Duration::from_secs(30);
    let mut lines = lines;
    let mut written = process.written_bytes()?;
    let started = Instant::now();
    let by_seen = loop {
        lines = generator::polls(lines, SLICE).await?.0;
        let now = process.written_bytes()?;
        if now > written {
            // Let the write complete.
            lines = generator::polls(lines, SLICE * 10).await?.0;
            break process.written_bytes()? - written;
        }
        anyhow::ensure!(started.elapsed() < SEEN_WITHIN, "last-seen times are never written");
        written = now;
    };
    let before = process.written_bytes()?;
    let (_, polls) = generator::polls(lines, BETWEEN).await?;
    Ok(Written { polls, by_polls: process.written_bytes()? - before, by_seen })
}

fn findings(contenders: &[Contender<'_>], written: &Written) -> Findings {
    let [ours, nginx, bare] = contenders else { return Findings::default() };
    let ratios = |other: &Contender<'_>| -> Vec<f64> {
        ours.per_cpu_second.iter().zip(&other.per_cpu_second).map(|(ours, other)| ours / other).collect()
    };
    let (to_nginx, to_bare) = (Spread::of(&ratios(nginx)), Spread::of(&ratios(bare)));
    let mut rows = vec![
        Row::new("unchanged polls per processor second, relative to nginx", to_nginx.show(2))
            .target(format!("at least {TARGET}"), to_nginx.median >= TARGET),
        Row::new("the same, relative to bare axum + rustls", to_bare.show(2)),
    ];
    for contender in contenders {
        let rate = Spread::of(&contender.per_cpu_second);
        rows.push(Row::new(format!("{}: polls per processor second", contender.name), rate.show(0)));
    }
    rows.push(
        Row::new(
            "bytes written to disk by unchanged polls",
            format!("{} by {} polls between two writes of last-seen times", written.by_polls, written.polls),
        )
        .target("0", written.by_polls == 0),
    );
    rows.push(Row::new(
        format!("bytes per write of last-seen times ({CONNECTIONS} clients, however often they poll)"),
        written.by_seen.to_string(),
    ));
    let series = contenders
        .iter()
        .map(|contender| Runs { name: contender.name.to_owned(), values: contender.per_cpu_second.clone() });
    let shape = Shape::Runs { unit: "unchanged polls per processor second".to_owned(), series: series.collect() };
    let title = "Unchanged polls, alternating runs".to_owned();
    Findings { rows, plots: vec![Plot { name: "polls".to_owned(), title, shape }] }
}
