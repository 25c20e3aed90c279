//! Memory and disk of the server per registered device, by the size of the fleet.

use super::fleet::{self, FLEET, Fleet};
use super::plot::{Curve, Plot, Shape};
use super::results::{Findings, Row};
use super::server::Server;
use super::{Setting, print_progress};
use margrave_api::client::{DeploymentQuery, PageQuery};
use std::path::Path;
use std::time::Duration;

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const SIZES_QUICK: [usize; 2] = [200, 1_000];
const DEPLOYMENTS: usize = 5;

const DEVICE_BYTES_TARGET: f64 = 2048.0;
const TOTAL_BYTES_TARGET: u64 = 1 << 30;

/// An allocator releases memory with a delay.
const SETTLE: Duration = Duration::from_secs(3);

struct Point {
    size: usize,
    rss: Resident,
    per_device: f64,
    disk_per_device: f64,
}

/// Memory of a server after start, and after operators have listed the fleet.
#[derive(Clone, Copy)]
struct Resident {
    started: u64,
    requested: u64,
}

pub async fn run(setting: &Setting) -> anyhow::Result<Findings> {
    let sizes: &[usize] = if setting.quick { &SIZES_QUICK } else { &SIZES };
    let empty = super::scratch()?;
    fleet::prepare(empty.path(), &[]).await?;
    let (base, base_disk) = (resident(empty.path(), setting).await?, fleet::disk_bytes(empty.path()));
    let mut points = Vec::new();
    for &size in sizes {
        let folder = super::scratch()?;
        fleet::prepare(
            folder.path(),
            &[Fleet { prefix: "dev", size, hosts: FLEET, deployments: DEPLOYMENTS, sites: 0 }],
        )
        .await?;
        let disk = fleet::disk_bytes(folder.path()).saturating_sub(base_disk);
        let rss = resident(folder.path(), setting).await?;
        let per_device = rss.started.saturating_sub(base.started) as f64 / size as f64;
        print_progress(&format!(
            "  {size} devices: {} MiB resident, {per_device:.0} bytes per device",
            rss.started >> 20
        ));
        points.push(Point { size, rss, per_device, disk_per_device: disk as f64 / size as f64 });
    }
    Ok(findings(base, &points))
}

async fn resident(folder: &Path, setting: &Setting) -> anyhow::Result<Resident> {
    let server = Server::start(folder, setting.cores.server).await?;
    tokio::time::sleep(SETTLE).await;
    let started = server.process.rss_bytes()?;
    let api = server.api()?;
    let page = PageQuery { limit: Some(100), ..PageQuery::default() };
    for _ in 0..4 {
        api.summary().await?;
        api.clients(&page).await?;
        api.deployments(&DeploymentQuery::default(), &page).await?;
    }
    tokio::time::sleep(SETTLE).await;
    Ok(Resident { started, requested: server.process.rss_bytes()? })
}

fn findings(base: Resident, points: &[Point]) -> Findings {
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / 1_048_576.0);
    let mut rows = vec![Row::new("resident memory without devices", mib(base.started))];
    for Point { size, rss, per_device, .. } in points {
        let Resident { started, requested } = *rss;
        let measured = format!(
            "{per_device:.0} bytes ({} in total, {} after operators listed and summarized everything)",
            mib(started),
            mib(requested)
        );
        let met = *per_device < DEVICE_BYTES_TARGET && requested < TOTAL_BYTES_TARGET;
        let row = Row::new(format!("memory per device, {size} devices with {DEPLOYMENTS} deployments"), measured);
        rows.push(row.target("under 2 KiB, under 1 GiB in total", met));
    }
    let disk: Vec<f64> = points.iter().map(|point| point.disk_per_device).collect();
    let shown = points.iter().map(|point| format!("{:.1} KiB at {}", point.disk_per_device / 1024.0, point.size));
    let flat = disk.last().zip(disk.first()).is_some_and(|(last, first)| last / first <= 1.2);
    let shown = shown.collect::<Vec<_>>().join(", ");
    rows.push(Row::new("disk per device", shown).target("flat (within 20 %)", flat));
    let curve = |name: &str, value: fn(&Point) -> f64| Curve {
        name: name.to_owned(),
        points: points.iter().map(|point| (point.size as f64, value(point))).collect(),
    };
    let plot = |name: &str, title: &str, unit: &str, series| Plot {
        name: name.to_owned(),
        title: title.to_owned(),
        shape: Shape::Curves { size: "devices".to_owned(), unit: unit.to_owned(), series },
    };
    let plots = vec![
        plot(
            "memory",
            "Memory per device",
            "bytes",
            vec![curve("resident, without an empty server", |p| p.per_device)],
        ),
        plot(
            "disk",
            "Disk per device, five deployments each",
            "KiB",
            vec![curve("database", |p| p.disk_per_device / 1024.0)],
        ),
    ];
    Findings { rows, plots }
}
