//! Finds the programs under test.

use anyhow::Context as _;
use std::path::PathBuf;

/// A folder with `margrave` and `margrave-agent` to use instead of the current build.
const FOLDER_VARIABLE: &str = "MARGRAVE_PROGRAMS";

/// Finds a program in the folder named by the environment, otherwise in cargo's output folder.
pub fn find(name: &str) -> anyhow::Result<PathBuf> {
    let folder = match std::env::var_os(FOLDER_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => {
            let test = std::env::current_exe().context("find the test executable")?;
            // target/debug/deps/test-1234 -> target/debug
            test.ancestors().nth(2).context("the test executable has no parent folder")?.to_owned()
        }
    };
    let path = folder.join(name);
    anyhow::ensure!(
        path.is_file(),
        "`{}` does not exist: run `cargo build -p margrave-cli -p margrave-agent` first, or set {FOLDER_VARIABLE}",
        path.display()
    );
    Ok(path)
}
