//! `make bench`: measures, prints tables, and with `--write` writes them to docs/bench.md with plots.

use margrave_sim::bench::machine::Machine;
use margrave_sim::bench::results::{Results, Section};
use margrave_sim::bench::{SECTIONS, Setting, bare, measure, print_progress, report};
use std::path::{Path, PathBuf};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

const USAGE: &str = "usage: margrave-bench [--only SECTION[,SECTION ..]] [--write] [--quick]";

#[derive(Debug, Default)]
struct Arguments {
    /// All if empty.
    only: Vec<String>,
    /// Write the numbers to docs/.
    write: bool,
    /// A short run that only checks that everything works.
    quick: bool,
}

impl Arguments {
    fn read(arguments: impl IntoIterator<Item = String>) -> anyhow::Result<Self> {
        let mut read = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--write" => read.write = true,
                "--quick" => read.quick = true,
                "--only" => {
                    let names = arguments.next().ok_or_else(|| anyhow::anyhow!("{USAGE}"))?;
                    read.only.extend(names.split([',', ' ']).filter(|name| !name.is_empty()).map(str::to_owned));
                }
                _ => anyhow::bail!("unknown argument `{argument}`\n{USAGE}"),
            }
        }
        for name in &read.only {
            let known: Vec<_> = SECTIONS.iter().map(|(name, _)| *name).collect();
            anyhow::ensure!(
                known.contains(&name.as_str()),
                "unknown section `{name}`; expected one of: {}",
                known.join(", ")
            );
        }
        Ok(read)
    }
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    // A server under load runs in its own process, so that its processor time can be measured.
    if arguments.peek().is_some_and(|first| first == "serve-bare") {
        let folder = arguments.nth(1).ok_or_else(|| anyhow::anyhow!("{USAGE}"))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        return runtime.block_on(bare::serve(Path::new(&folder)));
    }
    let arguments = Arguments::read(arguments)?;
    // One thread, so that the generator is simple and servers end with the thread that started them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            done = run(&arguments) => done,
            // Dropping `run` ends all child processes.
            _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
        }
    })
}

async fn run(Arguments { only, write, quick }: &Arguments) -> anyhow::Result<()> {
    let docs = PathBuf::from(DOCS);
    let (kept, machine) = (docs.join("bench.json"), Machine::detect());
    let setting = Setting::new(*quick);
    for (name, title) in SECTIONS {
        if !only.is_empty() && !only.iter().any(|only| only == name) {
            continue;
        }
        print_progress(&format!("measuring: {title}"));
        let findings = measure(name, &setting).await?;
        let section = Section { machine: machine.clone(), quick: *quick, findings };
        show(&report::section(name, title, &section));
        if *write {
            // Save at once, so that the results survive a failure of a later section.
            let mut results = Results::load(&kept)?;
            results.sections.insert((*name).to_owned(), section);
            results.save(&kept)?;
            report::write(&results, &docs.join("bench.md"), &docs.join("bench"))?;
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the tables are what this program is for")]
fn show(text: &str) {
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::Arguments;

    fn read(arguments: &[&str]) -> anyhow::Result<Arguments> {
        Arguments::read(arguments.iter().map(|&argument| argument.to_owned()))
    }

    #[test]
    fn accepts_sections_separately_or_as_a_list() {
        let read = read(&["--only", "polls,publish", "--only", "statuses", "--write"]).expect("known sections");
        assert_eq!(read.only, ["polls", "publish", "statuses"]);
        assert!(read.write && !read.quick);
    }

    #[test]
    fn rejects_an_unknown_section_and_lists_the_valid_ones() {
        let error = read(&["--only", "pols"]).expect_err("no such section").to_string();
        assert!(error.contains("polls, "), "{error}");
        assert!(read(&["--only"]).is_err());
        assert!(read(&["polls"]).is_err());
    }
}
