//! Full handshakes with one poll each, per second of processor time, against nginx with and without session tickets.

use super::generator::{self, Exchange, Line, poll_request};
use super::nginx::{self, Tickets};
use super::plot::{Plot, Runs, Shape};
use super::polls::CONNECTIONS;
use super::process::{Pinned, Process};
use super::results::{Findings, Row};
use super::server::Server;
use super::stats::Spread;
use super::{Setting, print_progress};
use anyhow::Context as _;
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::sync::Arc;

const TARGET_TICKETS_ON: f64 = 2.0;
const TARGET_TICKETS_OFF: f64 = 1.5;

struct Contender<'p> {
    name: &'static str,
    process: &'p Process,
    address: SocketAddr,
    configs: &'p [Arc<ClientConfig>],
    request: Vec<u8>,
    per_cpu_second: Vec<f64>,
}

impl Contender<'_> {
    async fn run(&mut self, setting: &Setting) -> anyhow::Result<()> {
        generator::handshakes(self.address, self.configs, &self.request, setting.warm_up).await?;
        let before = self.process.cpu_seconds()?;
        let done = generator::handshakes(self.address, self.configs, &self.request, setting.measured).await?;
        self.per_cpu_second.push(done as f64 / (self.process.cpu_seconds()? - before));
        Ok(())
    }
}

pub async fn run(setting: &Setting) -> anyhow::Result<Findings> {
    let folder = super::scratch()?;
    let core = setting.cores.server;
    let server = Server::start(folder.path(), core).await?;
    let identities = server.new_clients("bench", CONNECTIONS).await?;
    let bundle = identities[0].join("bundle.pem");
    let with = nginx::start(&folder.path().join("with-tickets"), &bundle, Tickets::On, core).await?;
    let without = nginx::start(&folder.path().join("without-tickets"), &bundle, Tickets::Off, core).await?;
    let configs = |exchange| {
        let configs = identities.iter().map(|identity| generator::config(identity, exchange));
        configs.collect::<anyhow::Result<Vec<_>>>()
    };
    let (plain, hybrid) = (configs(Exchange::X25519)?, configs(Exchange::Hybrid)?);

    let _pinned = Pinned::to(setting.cores.generator)?;
    let mut contenders = Vec::new();
    for (name, process, address, configs) in [
        ("margrave", &server.process, server.devices, &plain),
        ("nginx, tickets on", &with.process, with.address, &plain),
        ("nginx, tickets off", &without.process, without.address, &plain),
        ("margrave, hybrid ML-KEM", &server.process, server.devices, &hybrid),
    ] {
        // All clients have the same empty manifest.
        let first = Line::open(address, &configs[0]).await?.ask(&poll_request(None)).await?;
        let request = poll_request(Some(&first.etag.context("a response without ETag")?));
        contenders.push(Contender { name, process, address, configs, request, per_cpu_second: Vec::new() });
    }
    for round in 1..=setting.rounds {
        for contender in &mut contenders {
            contender.run(setting).await.with_context(|| format!("connect to {}", contender.name))?;
        }
        let last = contenders.iter().map(|one| format!("{} {:.0}", one.name, one.per_cpu_second[round - 1]));
        print_progress(&format!("  round {round} of {}: {}", setting.rounds, last.collect::<Vec<_>>().join(", ")));
    }
    Ok(findings(&contenders))
}

fn findings(contenders: &[Contender<'_>]) -> Findings {
    let [ours, with, without, hybrid] = contenders else { return Findings::default() };
    let against = |ours: &Contender<'_>, other: &Contender<'_>| {
        let pairs = ours.per_cpu_second.iter().zip(&other.per_cpu_second);
        Spread::of(&pairs.map(|(ours, other)| ours / other).collect::<Vec<_>>())
    };
    let (on, off) = (against(ours, with), against(ours, without));
    let mut rows = vec![
        Row::new("handshake + poll per processor second, relative to nginx with tickets on", on.show(2))
            .target(format!("at least {TARGET_TICKETS_ON}"), on.median >= TARGET_TICKETS_ON),
        Row::new("the same, relative to nginx with tickets off", off.show(2))
            .target(format!("at least {TARGET_TICKETS_OFF}"), off.median >= TARGET_TICKETS_OFF),
        Row::new("hybrid key exchange relative to X25519, both margrave", against(hybrid, ours).show(2)),
    ];
    for contender in contenders {
        let rate = Spread::of(&contender.per_cpu_second);
        rows.push(Row::new(format!("{}: per processor second", contender.name), rate.show(0)));
    }
    let series = contenders
        .iter()
        .map(|contender| Runs { name: contender.name.to_owned(), values: contender.per_cpu_second.clone() });
    let unit = "full handshakes with a poll per processor second".to_owned();
    let title = "Full handshake and poll, alternating runs".to_owned();
    let plot = Plot { name: "handshakes".to_owned(), title, shape: Shape::Runs { unit, series: series.collect() } };
    Findings { rows, plots: vec![plot] }
}
