//! Where the programs under test are.

use anyhow::Context as _;
use std::path::PathBuf;

/// A folder with `margrave` and `margrave-agent` to use instead of those just built.
const FOLDER_VARIABLE: &str = "MARGRAVE_PROGRAMS";

/// Finds a program: in the folder named by the environment, else where cargo puts it, beside the test's own.
pub fn find(name: &str) -> anyhow::Result<PathBuf> {
    let folder = match std::env::var_os(FOLDER_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => {
            let test = std::env::current_exe().context("find this test's own program")?;
            // target/debug/deps/test-1234 -> target/debug
            test.ancestors().nth(2).context("this test's program is in no folder")?.to_owned()
        }
    };
    let path = folder.join(name);
    anyhow::ensure!(
        path.is_file(),
        "`{}` is not there: run `cargo build -p margrave-cli -p margrave-agent` first, or set {FOLDER_VARIABLE}",
        path.display()
    );
    Ok(path)
}
