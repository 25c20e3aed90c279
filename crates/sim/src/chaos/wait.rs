//! Waiting for a condition, never for a time.

use std::time::{Duration, Instant};

/// How long to rest between two looks: short against everything that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks until something is there; fails with the last thing seen when the deadline passes.
pub async fn until<T, F>(what: &str, deadline: Duration, mut look: F) -> anyhow::Result<T>
where
    F: AsyncFnMut() -> anyhow::Result<Result<T, String>>,
{
    let begun = Instant::now();
    loop {
        let seen = match look().await? {
            Ok(found) => return Ok(found),
            Err(seen) => seen,
        };
        anyhow::ensure!(begun.elapsed() < deadline, "{what} did not happen within {deadline:?}; last seen: {seen}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
