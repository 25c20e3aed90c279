//! The cost of building a manifest and its bundle, by the number of deployments.

use super::Setting;
use super::plot::{Curve, Plot, Shape};
use super::results::{Findings, Row};
use super::stats::growth_exponent;
use margo::DeploymentId;
use margo::digest::Digest;
use margrave_core::publish::{ServedDeployment, next};
use std::time::{Duration, Instant};
use uuid::Uuid;

const SIZES: [usize; 4] = [1, 10, 100, 1_000];

/// Long enough for the timer and the caches to settle.
const PER_SIZE: Duration = Duration::from_millis(300);

pub fn run(_setting: &Setting) -> Findings {
    let points: Vec<(f64, f64)> = SIZES.iter().map(|size| (*size as f64, build_micros(*size))).collect();
    let shown = points.iter().map(|(size, micros)| format!("{micros:.0} µs at {size}")).collect::<Vec<_>>();
    let growth = growth_exponent(&points);
    let rows = vec![
        Row::new("building a manifest with its bundle", format!("{} deployments", shown.join(", "))),
        Row::new("growth", format!("deployments^{growth:.2}")).target("about 1", growth < 1.2),
    ];
    let series = vec![Curve { name: "manifest with bundle".to_owned(), points }];
    let shape =
        Shape::Curves { size: "deployments of the client".to_owned(), unit: "µs per build".to_owned(), series };
    let plot = Plot { name: "manifests".to_owned(), title: "Building a manifest with its bundle".to_owned(), shape };
    Findings { rows, plots: vec![plot] }
}

fn build_micros(size: usize) -> f64 {
    let deployments: Vec<_> = (0..size).map(deployment).collect();
    let started = Instant::now();
    let mut builds = 0_u32;
    while started.elapsed() < PER_SIZE {
        let publication = next(u64::from(builds), &deployments).expect("far from the last version");
        std::hint::black_box(publication);
        builds += 1;
    }
    started.elapsed().as_secs_f64() * 1e6 / f64::from(builds)
}

/// Documents of a typical size, each different.
pub(super) fn deployment(index: usize) -> ServedDeployment {
    let yaml = crate::simulation::description("alpha", &format!("1.0.{index}"), 3).into_bytes();
    ServedDeployment { id: DeploymentId(Uuid::from_u128(index as u128 + 1)), digest: Digest::of(&yaml), yaml }
}
