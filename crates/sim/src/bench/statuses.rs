//! Status reports per second of processor time, each acknowledged after it is on disk.

use super::fleet::{self, Fleet, PROBES};
use super::generator::{self, Exchange, Line};
use super::plot::{Plot, Runs, Shape};
use super::probes::status_request;
use super::process::Pinned;
use super::results::{Findings, Row};
use super::server::Server;
use super::stats::Spread;
use super::{Setting, print_progress};
use margo::status::State;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Number of concurrent clients.
const CLIENTS: usize = 64;

pub async fn run(setting: &Setting) -> anyhow::Result<Findings> {
    let folder = super::scratch()?;
    let fleet = Fleet { prefix: "dev", size: CLIENTS, hosts: PROBES, deployments: 1, sites: 0 };
    fleet::prepare(folder.path(), &[fleet]).await?;
    let server = Server::start(folder.path(), setting.cores.server).await?;
    let api = server.api()?;
    let mut lines = Vec::new();
    for index in 0..CLIENTS {
        let id = format!("dev-{index}");
        let config = generator::config(&server.identity(&api, &id).await?, Exchange::X25519)?;
        let reports = [State::Installing, State::Installed].map(|state| status_request(&id, state));
        lines.push((Line::open(server.devices, &config).await?, reports));
    }
    let _pinned = Pinned::to(setting.cores.generator)?;
    let (mut per_cpu, mut per_second, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..setting.rounds {
        let rest = lines.split_off(1);
        // A single client: every report waits for its own disk sync.
        let (back, reports, _) = report(lines, setting.warm_up).await?;
        lines = back;
        alone.push(reports as f64 / setting.warm_up.as_secs_f64());
        lines.extend(rest);
        let before = server.process.cpu_seconds()?;
        let (back, reports, took) = report(lines, setting.measured).await?;
        lines = back;
        per_cpu.push(reports as f64 / (server.process.cpu_seconds()? - before));
        per_second.push(reports as f64 / took.as_secs_f64());
    }
    let (cpu, rate, single) = (Spread::of(&per_cpu), Spread::of(&per_second), Spread::of(&alone));
    print_progress(&format!("  {} per processor second, {} per second", cpu.show(0), rate.show(0)));
    let rows = vec![
        Row::new("status reports per processor second, each on disk before it is acknowledged", cpu.show(0)),
        Row::new(format!("per second, {CLIENTS} clients at once"), rate.show(0)),
        Row::new("per second, one client alone (one sync each)", single.show(0)),
        Row::new("gain from group commit", format!("{:.1} times", rate.median / single.median)),
    ];
    let series = vec![Runs { name: "per processor second".to_owned(), values: per_cpu }];
    let shape = Shape::Runs { unit: "status reports per processor second".to_owned(), series };
    let plot = Plot { name: "statuses".to_owned(), title: "Durable status reports".to_owned(), shape };
    Ok(Findings { rows, plots: vec![plot] })
}

type Lines = Vec<(Line, [Vec<u8>; 2])>;

/// Reports on every connection as fast as possible. States alternate, so that no report repeats the previous one.
async fn report(lines: Lines, time: Duration) -> anyhow::Result<(Lines, u64, Duration)> {
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for (mut line, reports) in lines {
        tasks.spawn(async move {
            let mut answered = 0_u64;
            while started.elapsed() < time {
                let answer = line.ask(&reports[(answered % 2) as usize]).await?;
                anyhow::ensure!(answer.status == 200, "a report returned {}", answer.status);
                answered += 1;
            }
            anyhow::Ok(((line, reports), answered))
        });
    }
    let (mut lines, mut total) = (Vec::new(), 0);
    while let Some(ended) = tasks.join_next().await {
        let (line, answered) = ended??;
        lines.push(line);
        total += answered;
    }
    Ok((lines, total, started.elapsed()))
}
