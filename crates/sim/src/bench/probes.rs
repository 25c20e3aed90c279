//! Clients that poll, report and check readiness at a steady rate, to measure latencies during other work.

use super::fleet::{self, PROBES};
use super::generator::{self, Exchange, Line, poll_request};
use super::server::Server;
use super::stats::percentile;
use crate::chaos::site;
use anyhow::Context as _;
use margo::status::{ComponentStatus, DeploymentStatus, State};
use rustls::ClientConfig;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Number of probes, each with one connection for polls and one for reports.
pub const CLIENTS: usize = 4;

/// Pause between two requests of a probe: far below the capacity of the server.
const PAUSE: Duration = Duration::from_millis(10);

/// Prefix of their names.
pub const PREFIX: &str = "probe";

pub fn fleet() -> fleet::Fleet<'static> {
    fleet::Fleet { prefix: PREFIX, size: CLIENTS, hosts: PROBES, deployments: 1, sites: 0 }
}

/// Latencies in milliseconds.
#[derive(Debug, Default, Clone)]
pub struct Latencies {
    pub polls: Vec<f64>,
    pub statuses: Vec<f64>,
    pub readyz: Vec<f64>,
}

impl Latencies {
    /// Name and 99th percentile of each kind.
    pub fn p99(&self) -> [(&'static str, f64); 3] {
        let Self { polls, statuses, readyz } = self;
        [("polls", polls), ("status reports", statuses), ("/readyz", readyz)]
            .map(|(name, values)| (name, percentile(values, 99.0)))
    }

    pub fn add(&mut self, more: Self) {
        self.polls.extend(more.polls);
        self.statuses.extend(more.statuses);
        self.readyz.extend(more.readyz);
    }
}

/// Identities of the clients created by [`fleet()`].
pub struct Probes<'s> {
    server: &'s Server,
    clients: Vec<(String, Arc<ClientConfig>)>,
}

impl<'s> Probes<'s> {
    pub async fn new(server: &'s Server) -> anyhow::Result<Self> {
        let api = server.api()?;
        let mut clients = Vec::new();
        for index in 0..CLIENTS {
            let id = format!("{PREFIX}-{index}");
            let config = generator::config(&server.identity(&api, &id).await?, Exchange::X25519)?;
            clients.push((id, config));
        }
        Ok(Self { server, clients })
    }

    /// Sends requests while `work` runs; returns its result and the latencies.
    pub async fn during<T>(&self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<(T, Latencies)> {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        for (index, (id, config)) in self.clients.iter().enumerate() {
            let mut line = Line::open(self.server.devices, config).await?;
            let first = line.ask(&poll_request(None)).await?;
            let request = poll_request(Some(&first.etag.context("a response without ETag")?));
            tasks.spawn(repeat(stop.clone(), Kind::Poll, line, vec![request]));
            let line = Line::open(self.server.devices, config).await?;
            let reports = [State::Installing, State::Installed].map(|state| status_request(id, state));
            tasks.spawn(repeat(stop.clone(), Kind::Status, line, reports.to_vec()));
            if index == 0 {
                tasks.spawn(readyz(stop.clone(), self.server.url("/readyz")));
            }
        }
        let done = work.await;
        stop.cancel();
        let mut latencies = Latencies::default();
        while let Some(ended) = tasks.join_next().await {
            let (kind, millis) = ended??;
            match kind {
                Kind::Poll => latencies.polls.extend(millis),
                Kind::Status => latencies.statuses.extend(millis),
                Kind::Readyz => latencies.readyz.extend(millis),
            }
        }
        Ok((done?, latencies))
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Poll,
    Status,
    Readyz,
}

type Taken = anyhow::Result<(Kind, Vec<f64>)>;

async fn repeat(stop: CancellationToken, kind: Kind, mut line: Line, requests: Vec<Vec<u8>>) -> Taken {
    let mut millis = Vec::new();
    for request in requests.iter().cycle() {
        if stop.is_cancelled() {
            break;
        }
        let started = Instant::now();
        let answer = line.ask(request).await?;
        millis.push(started.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(matches!(answer.status, 200 | 304), "{kind:?} returned {}", answer.status);
        tokio::time::sleep(PAUSE).await;
    }
    Ok((kind, millis))
}

async fn readyz(stop: CancellationToken, url: String) -> Taken {
    let http = site::plain()?;
    let mut millis = Vec::new();
    while !stop.is_cancelled() {
        let started = Instant::now();
        http.get(&url).send().await?.error_for_status().context("not ready")?;
        millis.push(started.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    Ok((Kind::Readyz, millis))
}

/// A report about the first deployment of a client.
pub fn status_request(client: &str, state: State) -> Vec<u8> {
    let component = |index: usize| ComponentStatus { name: format!("beta-{PROBES}-{index}"), state, error: None };
    let status = DeploymentStatus {
        deployment_id: fleet::deployment(client, 0),
        device_id: None,
        adopted_manifest_version: 2,
        state,
        error: None,
        components: vec![component(0), component(1)],
    };
    let body = status.to_json();
    let head = format!(
        "POST /api/v1/deployments/{}/status HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        status.deployment_id,
        body.len()
    );
    [head.as_bytes(), &body].concat()
}
