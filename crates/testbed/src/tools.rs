//! Programs of the machine, and helpers to wait.

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Far above any normal duration, even on a busy machine; reached only on failure.
pub const PATIENCE: Duration = Duration::from_mins(3);

/// A program the machine or the cache has.
pub fn tool(name: &str) -> PathBuf {
    let cached = cache().map(|cache| cache.join("tools/bin").join(name));
    let on_path = std::env::var_os("PATH");
    let on_path = on_path.iter().flat_map(std::env::split_paths).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = cached.into_iter().chain(on_path.map(|folder| folder.join(name))).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("`{name}` is missing: run scripts/tools.sh"))
}

/// The download and build cache of the scripts, outside the tree.
pub(crate) fn cache() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("margrave"))
}

/// Waits for a condition; `what` says what never happened.
pub async fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
