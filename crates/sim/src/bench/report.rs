//! Writes the results as Markdown tables.

use super::SECTIONS;
use super::plot;
use super::results::{Results, Row, Section};
use anyhow::Context as _;
use std::fmt::Write as _;
use std::path::Path;

/// The tables are between these two lines of the document.
const BEGIN: &str = "<!-- tables: begin -->";
const END: &str = "<!-- tables: end -->";

/// One section: heading, command, machine, table, plots.
pub fn section(name: &str, title: &str, section: &Section) -> String {
    let Section { machine, quick, findings } = section;
    let mut text = format!("### {title}\n\n");
    let _ = writeln!(text, "`make bench ONLY={name}` on {}.\n", machine.describe());
    if *quick {
        text.push_str("From a short run (`--quick`): these numbers only show that it works.\n\n");
    }
    text.push_str("| what | measured | target | met |\n|---|---|---|---|\n");
    for Row { what, measured, target, met } in &findings.rows {
        let met = match met {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "",
        };
        let _ = writeln!(text, "| {what} | {measured} | {target} | {met} |");
    }
    for plot in &findings.plots {
        let _ = writeln!(text, "\n![{}](bench/{}.svg)", plot.title, plot.name);
    }
    text
}

/// All sections in the order of measurement.
pub fn markdown(results: &Results) -> String {
    let known = SECTIONS.iter().filter_map(|(name, title)| Some(section(name, title, results.sections.get(*name)?)));
    known.collect::<Vec<_>>().join("\n")
}

/// Writes the tables into the document and the plots next to it.
pub fn write(results: &Results, document: &Path, plots: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(document).context("read docs/bench.md")?;
    std::fs::write(document, replaced(&text, &markdown(results))?).context("write docs/bench.md")?;
    std::fs::create_dir_all(plots)?;
    for plot in results.sections.values().flat_map(|section| &section.findings.plots) {
        std::fs::write(plots.join(format!("{}.svg", plot.name)), plot::svg(plot)).context("write a plot")?;
    }
    Ok(())
}

fn replaced(text: &str, tables: &str) -> anyhow::Result<String> {
    let (before, rest) = text.split_once(BEGIN).context("docs/bench.md has no place for the tables")?;
    let (_, after) = rest.split_once(END).context("docs/bench.md has no end of the tables")?;
    Ok(format!("{before}{BEGIN}\n{tables}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::{markdown, replaced};
    use crate::bench::machine::Machine;
    use crate::bench::results::{Findings, Results, Row, Section};

    fn results() -> Results {
        let machine = Machine {
            processor: "P".to_owned(),
            cores: 2,
            memory_gib: 4,
            system: "Linux 6.1".to_owned(),
            nginx: "nginx/1".to_owned(),
            openssl: "OpenSSL 3".to_owned(),
            rustc: "rustc 1".to_owned(),
        };
        let rows = vec![Row::new("ratio", "0.95").target("at least 0.9", true), Row::new("polls", "7")];
        let section = Section { machine, quick: false, findings: Findings { rows, plots: Vec::new() } };
        Results { sections: [("polls".to_owned(), section)].into() }
    }

    #[test]
    fn a_section_shows_the_command_the_machine_and_the_target() {
        let text = markdown(&results());
        assert!(text.contains("`make bench ONLY=polls` on P, 2 cores, 4 GiB, Linux 6.1; nginx/1 with OpenSSL 3"));
        assert!(text.contains("| ratio | 0.95 | at least 0.9 | yes |\n| polls | 7 |  |  |\n"), "{text}");
    }

    #[test]
    fn replaces_only_the_text_between_the_markers() {
        let text = "before\n<!-- tables: begin -->\nold\n<!-- tables: end -->\nafter\n";
        let new = replaced(text, "new\n").expect("both marks are there");
        assert_eq!(new, "before\n<!-- tables: begin -->\nnew\n<!-- tables: end -->\nafter\n");
        assert!(replaced("no marks", "new").is_err());
    }

    #[test]
    fn results_survive_saving_and_loading() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bench.json");
        assert_eq!(Results::load(&path).expect("nothing yet"), Results::default());
        results().save(&path).expect("written");
        assert_eq!(Results::load(&path).expect("read"), results());
    }
}
