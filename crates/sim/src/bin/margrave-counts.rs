//! `make check` and `make counts`: compares instruction counts of the hot paths with stored ones, or updates them.

use margrave_sim::bench::counts::{Counts, TOLERANCE, made_with, work};
use std::path::Path;
use std::process::ExitCode;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench/counts.json");

const USAGE: &str = "usage: margrave-counts check|write";

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check(),
        ["write"] => {
            Counts::take(&std::env::current_exe()?)?.save(Path::new(KEPT))?;
            Ok(ExitCode::SUCCESS)
        }
        // Under callgrind.
        [name] => work(name).map(|()| ExitCode::SUCCESS),
        _ => anyhow::bail!("{USAGE}"),
    }
}

#[expect(clippy::print_stdout, reason = "what is compared is what this program is for")]
fn check() -> anyhow::Result<ExitCode> {
    let kept = Counts::load(Path::new(KEPT))?;
    if kept.made_with != made_with() {
        println!(
            "instruction counts are not compared: they were recorded with {}, this is {}.",
            kept.made_with,
            made_with()
        );
        println!("`make counts` updates them; do it in a separate commit.");
        return Ok(ExitCode::SUCCESS);
    }
    let mut failed = false;
    for (work, kept, now, too_many) in kept.compare(&Counts::take(&std::env::current_exe()?)?) {
        let change = (now as f64 / kept as f64 - 1.0) * 100.0;
        println!(
            "{work:<10} {now:>10} instructions, {change:+.1} % of {kept}{}",
            if too_many { "  TOO MANY" } else { "" }
        );
        failed |= too_many;
    }
    if failed {
        println!(
            "More than {:.0} % above the stored count: find the cause, or accept it with `make counts`.",
            TOLERANCE * 100.0
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
