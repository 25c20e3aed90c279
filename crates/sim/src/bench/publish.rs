//! One deployment to a whole fleet: duration, growth, and latencies of other requests meanwhile.

use super::fleet::{self, FLEET, Fleet};
use super::plot::{Curve, Plot, Shape};
use super::probes::{self, Latencies, Probes};
use super::results::{Findings, Row};
use super::server::Server;
use super::stats::growth_exponent;
use super::{Setting, print_progress};
use crate::chaos::wait;
use anyhow::Context as _;
use margrave_api::client::ApiClient;
use margrave_api::policies::PolicyPatch;
use margrave_api::rollouts::{CreateRollout, RolloutKind, Scope};
use std::time::{Duration, Instant};

const SIZES: [usize; 2] = [1_000, 10_000];
const SIZES_QUICK: [usize; 2] = [100, 400];

/// Duration of the latency measurement on an idle server.
const IDLE: Duration = Duration::from_secs(15);
const IDLE_QUICK: Duration = Duration::from_secs(2);

/// On a slow disk the server publishes to a few hundred devices per second.
const FINISHED_WITHIN: Duration = Duration::from_mins(15);

const FACTOR_TARGET: f64 = 3.0;

struct Point {
    size: usize,
    seconds: f64,
    idle: Latencies,
    busy: Latencies,
}

pub async fn run(setting: &Setting) -> anyhow::Result<Findings> {
    let sizes: &[usize] = if setting.quick { &SIZES_QUICK } else { &SIZES };
    let mut points = Vec::new();
    for &size in sizes {
        let point = publish(setting, size).await?;
        print_progress(&format!("  {size} devices in {:.1} s: {}", point.seconds, factors(&point).join(", ")));
        points.push(point);
    }
    Ok(findings(&points))
}

async fn publish(setting: &Setting, size: usize) -> anyhow::Result<Point> {
    let folder = super::scratch()?;
    let fleet = Fleet { prefix: "dev", size, hosts: FLEET, deployments: 1, sites: 0 };
    fleet::prepare(folder.path(), &[fleet, probes::fleet()]).await?;
    // Nothing is pinned: the server needs two processors, and the probes use little.
    let server = Server::start(folder.path(), None).await?;
    let probes = Probes::new(&server).await?;
    let api = server.api()?;
    let idle = async {
        tokio::time::sleep(if setting.quick { IDLE_QUICK } else { IDLE }).await;
        Ok(())
    };
    let ((), idle) = probes.during(idle).await?;
    let (seconds, mut busy) = probes.during(carry_out(&api, RolloutKind::Create, size)).await?;
    // The removal is as much work and adds samples to the latencies.
    let (_, more) = probes.during(carry_out(&api, RolloutKind::Remove, size)).await?;
    busy.add(more);
    Ok(Point { size, seconds, idle, busy })
}

/// From the request until every manifest is published.
async fn carry_out(api: &ApiClient, kind: RolloutKind, size: usize) -> anyhow::Result<f64> {
    let body = CreateRollout {
        kind,
        application: "alpha".to_owned(),
        version: (kind == RolloutKind::Create).then(|| "1.0.0".to_owned()),
        profile: None,
        scope: Scope { selector: Some(format!("sim.example/kind={FLEET}")), ..Scope::default() },
        values: indexmap::IndexMap::new(),
        policy: PolicyPatch::default(),
        skip_incompatible: false,
        comment: None,
    };
    let started = Instant::now();
    let rollout = api.create_rollout(&body).await?;
    let requested = started.elapsed();
    anyhow::ensure!(rollout.total == size as u64, "the rollout affects {} devices of {size}", rollout.total);
    let done = wait::until("publication of a rollout", FINISHED_WITHIN, async || {
        let rollout = api.rollout(&rollout.id).await?;
        if rollout.finished {
            return Ok(Ok(rollout));
        }
        // Poll rarely, because polling costs processor time.
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok(Err(format!("{} of {}", rollout.published, rollout.total)))
    })
    .await?;
    anyhow::ensure!(done.skipped.is_empty(), "devices were skipped: {:?}", done.skipped.first());
    let instant = |text: &str| text.parse::<jiff::Timestamp>().with_context(|| format!("`{text}` is not a time"));
    let finished = instant(done.finished_at.as_deref().unwrap_or_default())?;
    Ok(requested.as_secs_f64() + instant(&done.created_at)?.duration_until(finished).as_secs_f64())
}

fn factors(point: &Point) -> Vec<String> {
    let pairs = point.idle.p99().into_iter().zip(point.busy.p99());
    pairs.map(|((name, idle), (_, busy))| format!("{name} {busy:.1} ms (idle {idle:.1})")).collect()
}

fn findings(points: &[Point]) -> Findings {
    let times: Vec<(f64, f64)> = points.iter().map(|point| (point.size as f64, point.seconds)).collect();
    let shown = points.iter().map(|point| format!("{:.1} s at {}", point.seconds, point.size)).collect::<Vec<_>>();
    let growth = growth_exponent(&times);
    let mut rows = vec![
        Row::new("one deployment to every device", format!("{} devices", shown.join(", "))),
        Row::new("growth", format!("devices^{growth:.2}")).target("about 1", growth < 1.15),
    ];
    for point in points {
        for ((name, idle), (_, busy)) in point.idle.p99().into_iter().zip(point.busy.p99()) {
            let factor = busy / idle;
            let measured = format!("{factor:.1} × idle ({busy:.1} ms, idle {idle:.1} ms)");
            rows.push(
                Row::new(format!("p99 of {name} while publishing to {} devices", point.size), measured)
                    .target(format!("within {FACTOR_TARGET} ×"), factor <= FACTOR_TARGET),
            );
        }
    }
    let series = vec![Curve { name: "one rollout to the whole fleet".to_owned(), points: times }];
    let shape = Shape::Curves { size: "devices".to_owned(), unit: "seconds to publish".to_owned(), series };
    let plot = Plot { name: "publish".to_owned(), title: "Publishing one deployment".to_owned(), shape };
    Findings { rows, plots: vec![plot] }
}
