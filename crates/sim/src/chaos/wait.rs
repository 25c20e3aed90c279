//! Waits for a condition, never for a fixed time.

use std::time::{Duration, Instant};

/// Check interval, short compared with everything that tests wait for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Checks until the condition holds; after the deadline, fails with the last observation.
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
