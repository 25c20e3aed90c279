//! The documented configuration reference matches the code.

use margrave_server::config::Config;
use std::path::Path;

/// Set to write the file instead of comparing it.
const WRITE: &str = "MARGRAVE_WRITE_DOCS";

#[test]
fn documented_settings_match_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let expected = Config::reference_markdown();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == expected,
        "docs/configuration.md is not up to date: run `{WRITE}=1 cargo test -p margrave-server --test it config`"
    );
}
