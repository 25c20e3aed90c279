//! `make bench`: measures, prints a table, and with `--write` puts it into docs/bench.md.

use anyhow::Context as _;
use margrave_sim::bench::{manifests, polls, publish, report, statuses};
use std::path::Path;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench.md");

/// The table stands between these two lines of the document.
const BEGIN: &str = "<!-- table: begin -->";
const END: &str = "<!-- table: end -->";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        // Servers under load are processes of their own, so that their processor time is theirs alone.
        ["serve-margrave", folder] => polls::serve_margrave(Path::new(folder)).await,
        ["serve-bare", folder] => polls::serve_bare(Path::new(folder)).await,
        [] => show(&measure().await?),
        ["--write"] => {
            let table = measure().await?;
            show(&table)?;
            write(&table)
        }
        _ => anyhow::bail!("usage: margrave-bench [--write]"),
    }
}

async fn measure() -> anyhow::Result<String> {
    tell("unchanged polls");
    let polls = polls::run().await.context("measure unchanged polls")?;
    tell("publishing");
    let publish = publish::run().await.context("measure publishing")?;
    tell("status reports");
    let statuses = statuses::run().await.context("measure status reports")?;
    tell("manifests");
    let manifests = manifests::run();
    Ok(report::markdown(&report::Numbers { polls, publish, statuses, manifests }))
}

#[expect(clippy::print_stderr, reason = "progress for whoever waits")]
fn tell(what: &str) {
    eprintln!("measuring {what}");
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
#[expect(clippy::unnecessary_wraps, reason = "an arm of a match over things that can fail")]
fn show(table: &str) -> anyhow::Result<()> {
    println!("{table}");
    Ok(())
}

fn write(table: &str) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(DOCUMENT).context("read docs/bench.md")?;
    let (before, rest) = text.split_once(BEGIN).context("docs/bench.md has no place for the table")?;
    let (_, after) = rest.split_once(END).context("docs/bench.md has no end of the table")?;
    std::fs::write(DOCUMENT, format!("{before}{BEGIN}\n{table}{END}{after}")).context("write docs/bench.md")
}
