//! Waits for a condition, never for a fixed time.

use std::time::{Duration, Instant};

/// Check interval, short compared with everything that tests wait for.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Checks until the condition holds; after the deadline, fails with the last observation.
pub async fn until<T, F>(what: &str, deadline: Duration, mut look: F) -> anyhow::Result<T>
where
    F: AsyncFnMut() -> anyhow::Result<Result<T, String>>,
{
    let started = Instant::now();
    loop {
        let seen = match look().await? {
            Ok(found) => return Ok(found),
            Err(seen) => seen,
        };
        anyhow::ensure!(started.elapsed() < deadline, "{what} did not happen within {deadline:?}; last seen: {seen}");
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}
