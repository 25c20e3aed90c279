//! The cost of enrolling one more device, by the size of the fleet.

use super::fleet::{self, FLEET, Fleet};
use super::plot::{Plot, Runs, Shape};
use super::process::Pinned;
use super::results::{Findings, Row};
use super::server::Server;
use super::stats::Spread;
use super::{Setting, print_progress};
use anyhow::Context as _;
use margrave_api::client::ApiClient;
use margrave_api::clients::CreateEnrollmentToken;
use margrave_server::trust::{ENROLLMENT_PATH, EnrollmentRequest, EnrollmentResponse};

/// Sizes of the existing fleet.
const SIZES: [usize; 2] = [100, 10_000];
const SIZES_QUICK: [usize; 2] = [10, 200];

/// Per run; all runs together stay within the burst limit of the server.
const PER_ROUND: usize = 20;

const FACTOR_TARGET: f64 = 1.2;

struct Contender {
    size: usize,
    server: Server,
    api: ApiClient,
    folder: tempfile::TempDir,
    /// Microseconds of processor time per device.
    micros: Vec<f64>,
    enrolled: usize,
    disk_before: u64,
}

pub async fn run(setting: &Setting) -> anyhow::Result<Findings> {
    let sizes: &[usize] = if setting.quick { &SIZES_QUICK } else { &SIZES };
    let mut contenders = Vec::new();
    for &size in sizes {
        let folder = super::scratch()?;
        fleet::prepare(folder.path(), &[Fleet { prefix: "dev", size, hosts: FLEET, deployments: 1, sites: 0 }]).await?;
        let server = Server::start(folder.path(), setting.cores.server).await?;
        let (api, disk_before) = (server.api()?, fleet::disk_bytes(folder.path()));
        contenders.push(Contender { size, server, api, folder, micros: Vec::new(), enrolled: 0, disk_before });
    }
    let _pinned = Pinned::to(setting.cores.generator)?;
    // A real device verifies the server by pin or CA; this tool does not.
    let http = reqwest::Client::builder().tls_danger_accept_invalid_certs(true).build()?;
    for _ in 0..setting.rounds {
        for contender in &mut contenders {
            let before = contender.server.process.cpu_nanos()?;
            for _ in 0..PER_ROUND {
                enroll(&http, contender).await.context("enroll a device")?;
            }
            let nanos = contender.server.process.cpu_nanos()? - before;
            contender.micros.push(nanos as f64 / 1e3 / PER_ROUND as f64);
        }
    }
    Ok(findings(&contenders))
}

/// Token, key, identity: like `margrave client enrollment-token` and `margrave-agent enroll`.
async fn enroll(http: &reqwest::Client, contender: &mut Contender) -> anyhow::Result<()> {
    contender.enrolled += 1;
    let id = format!("new-{}", contender.enrolled);
    let body = CreateEnrollmentToken::default();
    let token = contender.api.create_enrollment_token(&id, &body).await?.token;
    let key = rcgen::KeyPair::generate()?;
    let csr = rcgen::CertificateParams::default().serialize_request(&key)?.pem()?;
    let url = format!("https://{}{ENROLLMENT_PATH}", contender.server.trust);
    let answer = http.post(url).json(&EnrollmentRequest { token, csr }).send().await?.error_for_status()?;
    let _: EnrollmentResponse = answer.json().await?;
    Ok(())
}

fn findings(contenders: &[Contender]) -> Findings {
    let [small, large] = contenders else { return Findings::default() };
    let ratios: Vec<f64> = large.micros.iter().zip(&small.micros).map(|(large, small)| large / small).collect();
    let ratio = Spread::of(&ratios);
    let mut rows = vec![
        Row::new(format!("enrolling with {} devices, relative to {}", large.size, small.size), ratio.show(2))
            .target("within 20 %", ratio.median <= FACTOR_TARGET),
    ];
    for contender in contenders {
        let cost = Spread::of(&contender.micros);
        print_progress(&format!("  with {} devices: {} µs", contender.size, cost.show(0)));
        let what = format!("processor time per enrollment with {} devices", contender.size);
        rows.push(Row::new(what, format!("{} µs", cost.show(0))));
        let grown = fleet::disk_bytes(contender.folder.path()).saturating_sub(contender.disk_before);
        let each = grown as f64 / 1024.0 / contender.enrolled as f64;
        let what = format!("disk per enrollment with {} devices, write-ahead log included", contender.size);
        rows.push(Row::new(what, format!("{each:.1} KiB")));
    }
    let series = contenders
        .iter()
        .map(|contender| Runs { name: format!("with {} devices", contender.size), values: contender.micros.clone() });
    let unit = "µs of processor time per enrollment".to_owned();
    let shape = Shape::Runs { unit, series: series.collect() };
    let plot = Plot { name: "enrollment".to_owned(), title: "Enrolling one more device".to_owned(), shape };
    Findings { rows, plots: vec![plot] }
}
