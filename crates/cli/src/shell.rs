//! `margrave completions` and `margrave man`: completion scripts and man pages for both programs.

use crate::failure::{Failure, Outcome};
use crate::output::Output;
use clap_complete::Shell;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
    /// The program to complete
    #[arg(long, value_enum, default_value = "margrave", value_name = "PROGRAM")]
    program: Program,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Output folder; created if missing
    #[arg(long = "out", value_name = "DIR")]
    folder: PathBuf,
}

/// Programs that have a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Program {
    Margrave,
    MargraveAgent,
}

impl Program {
    fn command(self) -> clap::Command {
        match self {
            Self::Margrave => crate::examples::command(),
            Self::MargraveAgent => margrave_agent::arguments::command(),
        }
    }
}

pub(crate) fn completions(args: &CompletionsArgs, out: Output) -> Outcome {
    let mut command = args.program.command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    out.data(&String::from_utf8_lossy(&script))
}

pub(crate) fn man(args: &ManArgs, out: Output) -> Outcome {
    let folder: &Path = &args.folder;
    let failed =
        |error: std::io::Error| Failure::failed(format!("write man pages to `{}`", folder.display())).caused_by(&error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    for program in [Program::Margrave, Program::MargraveAgent] {
        // No date, so that the pages are reproducible.
        clap_mangen::generate_to(program.command(), folder).map_err(failed)?;
    }
    let pages = std::fs::read_dir(folder).map_err(failed)?.flatten();
    let count = pages.filter(|page| page.path().extension().is_some_and(|extension| extension == "1")).count();
    out.say(format!(
        "{count} pages in `{}`; view one with `man -l {}`.",
        folder.display(),
        folder.join("margrave.1").display()
    ));
    Ok(())
}
