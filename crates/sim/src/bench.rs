//! Measurements as ratios and growth, all from one run: absolute numbers say more about the machine than about us.

pub mod bare;
pub mod manifests;
pub mod polls;
pub mod publish;
pub mod report;
pub mod statuses;

use margrave_core::time::{Clock, Timestamp};
use margrave_server::app::publisher;
use margrave_server::catalog::Descriptions;
use margrave_server::heads::Heads;
use margrave_server::telemetry::Metrics;
use margrave_store::Store;
use std::path::Path;
use std::sync::Arc;

/// A scratch folder on a real disk: syncing is part of what is measured.
pub fn scratch() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir()
}

/// How the cost grows: the exponent `e` in `cost ~ size^e` between the two largest sizes, where fixed costs no longer hide
/// it. 1 is linear.
pub fn growth_exponent(points: &[(usize, f64)]) -> f64 {
    let [.., (small, low), (large, high)] = points else { return f64::NAN };
    (high / low).ln() / (*large as f64 / *small as f64).ln()
}

/// Time plays no part in what is measured here.
const NOW: Timestamp = Timestamp(1_780_000_000_000_000);

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        NOW
    }
}

/// What the publisher needs.
async fn parts(store: &Store) -> anyhow::Result<publisher::Parts> {
    Ok(publisher::Parts {
        store: store.clone(),
        heads: Arc::new(Heads::load(store).await?),
        clock: Arc::new(Still),
        descriptions: Arc::new(Descriptions::default()),
        metrics: Arc::new(Metrics::default()),
    })
}

fn sqlite(path: &Path) -> margrave_store::StoreOptions {
    margrave_store::StoreOptions { url: format!("sqlite://{}", path.display()), readers: 2 }
}

#[cfg(test)]
mod tests {
    use super::growth_exponent;

    #[test]
    fn growth_is_told_from_the_two_largest() {
        assert!((growth_exponent(&[(1, 9.0), (10, 1.0), (100, 10.0)]) - 1.0).abs() < 1e-9);
        assert!((growth_exponent(&[(10, 1.0), (100, 100.0)]) - 2.0).abs() < 1e-9);
        assert!(growth_exponent(&[(10, 1.0)]).is_nan());
    }
}
