//! Memory per idle connection and per long poll, for each allocator of the server.

use super::generator::{self, Exchange, Line, poll_request};
use super::results::{Findings, Row};
use super::server::{Server, program};
use super::{Setting, print_progress};
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Warm-up connections, so that one-time allocations are not counted.
const FIRST: usize = 100;
const COUNTED: usize = 2_000;
const COUNTED_QUICK: usize = 300;

const IDLE_KIB_TARGET: f64 = 24.0;

/// Time for buffers to be released after a response.
const SETTLE: Duration = Duration::from_secs(3);

/// Longer than the measurement takes.
const HELD_SECONDS: u32 = 50;

/// In kibibytes.
struct Cost {
    allocator: &'static str,
    idle: f64,
    /// A connection with an open long poll.
    held: f64,
}

pub async fn run(setting: &Setting) -> anyhow::Result<Findings> {
    let mut costs = Vec::new();
    for (allocator, path) in programs()? {
        let cost = measure(setting, allocator, &path).await.with_context(|| format!("with {allocator}"))?;
        print_progress(&format!("  {allocator}: idle {:.1} KiB, long poll {:.1} KiB", cost.idle, cost.held));
        costs.push(cost);
    }
    let mut rows = Vec::new();
    for Cost { allocator, idle, held } in &costs {
        let default = allocator.ends_with(DEFAULT);
        let row = Row::new(format!("idle TLS connection, {allocator}"), format!("{idle:.1} KiB"));
        let met = *idle <= IDLE_KIB_TARGET;
        rows.push(if default { row.target(format!("at most {IDLE_KIB_TARGET} KiB"), met) } else { row });
        let held = format!("{held:.1} KiB");
        rows.push(Row::new(format!("connection with a long poll (`Prefer: wait`), {allocator}"), held));
    }
    Ok(Findings { rows, plots: Vec::new() })
}

const DEFAULT: &str = "(default)";

/// The default server and, if present, those built for this comparison by `scripts/bench-allocators.sh`.
fn programs() -> anyhow::Result<Vec<(&'static str, PathBuf)>> {
    let shipped = program("margrave")?;
    let folder = shipped.with_file_name("allocators");
    let others = [("glibc malloc", "margrave-glibc"), ("mimalloc", "margrave-mimalloc")];
    let others = others.map(|(allocator, name)| (allocator, folder.join(name)));
    let missing = others.iter().filter(|(_, path)| !path.is_file());
    missing.for_each(|(name, _)| {
        print_progress(&format!("  no server with {name}: scripts/bench-allocators.sh builds it"));
    });
    let others = others.into_iter().filter(|(_, path)| path.is_file());
    Ok(std::iter::once(("jemalloc (default)", shipped)).chain(others).collect())
}

async fn measure(setting: &Setting, allocator: &'static str, program: &Path) -> anyhow::Result<Cost> {
    let counted = if setting.quick { COUNTED_QUICK } else { COUNTED };
    let folder = super::scratch()?;
    let server = Server::start_program(program, folder.path(), setting.cores.server).await?;
    // One client each, as in a plant; the server keeps only one long poll per client.
    let identities = server.new_clients("bench", FIRST + counted).await?;
    let mut lines = Vec::new();
    let mut base = 0;
    let mut request = Vec::new();
    for (index, identity) in identities.iter().enumerate() {
        if index == FIRST {
            tokio::time::sleep(SETTLE).await;
            base = server.process.rss_bytes()?;
        }
        let mut line = Line::open(server.devices, &generator::config(identity, Exchange::X25519)?).await?;
        let first = line.ask(&poll_request(None)).await?;
        request = poll_request(Some(&first.etag.context("a response without ETag")?));
        anyhow::ensure!(line.ask(&request).await?.status == 304, "a poll did not return 304");
        lines.push(line);
    }
    tokio::time::sleep(SETTLE).await;
    let each = |rss: u64| rss.saturating_sub(base) as f64 / 1024.0 / counted as f64;
    let idle = each(server.process.rss_bytes()?);
    let request = holding(&request);
    for line in &mut lines[FIRST..] {
        line.send(&request).await?;
    }
    tokio::time::sleep(SETTLE).await;
    let held = each(server.process.rss_bytes()?);
    // By the server's metric: a poll with an immediate response does not count as a long poll.
    let holding = server.metric("margrave_long_polls_open").await?;
    anyhow::ensure!(holding == counted as u64, "{holding} of {counted} long polls are open");
    Ok(Cost { allocator, idle, held })
}

/// Adds `Prefer: wait` to a poll request.
fn holding(request: &[u8]) -> Vec<u8> {
    let end = request.len() - 2;
    [&request[..end], format!("Prefer: wait={HELD_SECONDS}\r\n\r\n").as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::{holding, poll_request};

    #[test]
    fn a_long_poll_is_a_poll_with_one_more_header() {
        let text = String::from_utf8(holding(&poll_request(Some("\"x\"")))).expect("text");
        assert!(text.ends_with("If-None-Match: \"x\"\r\nPrefer: wait=50\r\n\r\n"), "{text}");
    }
}
