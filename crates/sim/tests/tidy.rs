//! Tidiness as an ordinary test: which crate may use which, what must not be in the tree, documents that must match.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "tidy/sentences.rs"]
mod sentences;
#[path = "tidy/identifiers.rs"]
mod identifiers;
#[path = "tidy/vocabulary.rs"]
mod vocabulary;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arrows point inward; a new edge is a design change (see docs/adr).
const ALLOWED: &[(&str, &[&str])] = &[
    ("margo", &[]),
    ("margrave-core", &["margo"]),
    ("margrave-api", &["margo", "margrave-core"]),
    ("margrave-oci", &["margo"]),
    ("margrave-store", &["margo", "margrave-core"]),
    ("margrave-sample-program", &[]),
    ("margrave-testbed", &["margo", "margrave-oci"]),
    ("margrave-agent", &["margo", "margrave-core", "margrave-oci"]),
    ("margrave-server", &["margo", "margrave-core", "margrave-api", "margrave-oci", "margrave-store"]),
    (
        "margrave-sim",
        &["margo", "margrave-core", "margrave-api", "margrave-store", "margrave-server", "margrave-agent"],
    ),
    (
        "margrave-cli",
        &[
            "margo",
            "margrave-core",
            "margrave-api",
            "margrave-oci",
            "margrave-server",
            "margrave-agent",
            "margrave-sim",
        ],
    ),
];

/// Never in the built tree: a second crypto provider, C TLS, abandoned parsers.
const BANNED: &[&str] = &["ring", "openssl-sys", "native-tls", "serde_yaml", "serde_yml", "backoff"];

/// Longer files are hard to enter; see ARCHITECTURE.md.
const LINES_MAX: usize = 800;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn tracked(pattern: &str) -> Vec<PathBuf> {
    let output = Command::new("git").args(["ls-files", "--", pattern]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "git ls-files failed");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| root().join(line))
        .filter(|path| path.exists())
        .collect()
}

fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--no-deps"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn crates_only_depend_inward() {
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    assert_eq!(packages.len(), allowed.len(), "a crate was added or removed: decide its place in ALLOWED");
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let allowed = allowed[name];
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            let ours = used == "margo" || used.starts_with("margrave");
            let in_tests_only = dependency["kind"].as_str() == Some("dev");
            assert!(!ours || in_tests_only || allowed.contains(&used), "`{name}` must not depend on `{used}`");
        }
    }
}

#[test]
fn banned_crates_are_not_built() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--workspace", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    for banned in BANNED {
        assert!(!tree.lines().any(|line| line.split(' ').next() == Some(banned)), "`{banned}` is in the built tree");
    }
}

#[test]
fn source_files_stay_readable() {
    for path in tracked("*.rs") {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines; split it by idea", path.display());
        let code = text.trim_start();
        // `foo/tests.rs` says by its name what it is.
        let documented = code.starts_with("//!") || code.starts_with("#!") || path.ends_with("tests.rs");
        assert!(documented, "{} lacks a module comment (`//!`) that says what it is for", path.display());
    }
}

#[test]
fn unfinished_marks_do_not_land() {
    let marks = [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("#[ign", "ore"), concat!("FIX", "ME")];
    for path in tracked("*.rs") {
        let text = std::fs::read_to_string(&path).unwrap();
        for mark in marks {
            assert!(!text.contains(mark), "{} contains `{mark}`", path.display());
        }
    }
}

/// Operator commands reach a fleet only through the public API.
#[test]
fn operator_commands_use_only_the_public_api() {
    let allowed = ["serve.rs", "demo.rs", "config.rs", "offline.rs", "sim.rs", "main.rs"];
    for path in tracked("crates/cli/src/*.rs") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        if !allowed.contains(&name.as_str()) {
            for forbidden in ["margrave_server", "margrave_store"] {
                assert!(!text.contains(forbidden), "{} must not use `{forbidden}`", path.display());
            }
        }
    }
}

/// Pages show what `app` answers; they know neither the store nor raw HTML from elsewhere.
#[test]
fn pages_call_only_the_application() {
    let (mut trusted, mut files) = (0, 0);
    for path in tracked("crates/server/src/ui.rs").into_iter().chain(tracked("crates/server/src/ui/*")) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        files += 1;
        for forbidden in ["margrave_store", ".store.", "sqlx"] {
            assert!(!text.contains(forbidden), "{} must not use `{forbidden}`", path.display());
        }
        assert!(!text.contains("|safe") && !text.contains("| safe"), "{} prints without escaping", path.display());
        trusted += text.matches("impl HtmlSafe for").count();
        let page = path.extension().is_some_and(|kind| kind == "html");
        assert!(
            !page || !(text.contains(" style=") || text.contains("<script>")),
            "{} has something inline",
            path.display()
        );
    }
    assert!(files > 50, "only {files} files of the front end were found");
    assert_eq!(trusted, 1, "one type makes markup, where it can be read in one file");
}

/// Every rule of the standard is mapped to a test that exists, or to a reason.
#[test]
fn conformance_names_tests_that_exist() {
    let text = std::fs::read_to_string(root().join("docs/conformance.md")).unwrap();
    let mut rules = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [rule, _, shown] = cells[..] else { continue };
        if !rule.contains('-') || rule.starts_with('-') {
            continue;
        }
        rules.push(rule.to_owned());
        if shown.starts_with("not ours, because ") || shown.starts_with("not yet, because ") {
            continue;
        }
        let tests: Vec<_> = shown.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "{rule}: name a test in backticks, or write `not ours, because ...`");
        for test in tests {
            let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{rule}: `{test}` is not file::test"));
            let source = std::fs::read_to_string(root().join(file))
                .unwrap_or_else(|error| panic!("{rule}: `{file}` cannot be read: {error}"));
            let found = source.contains(&format!("fn {name}(")) || source.contains(&format!("test(\"{name}\""));
            assert!(found, "{rule}: no test `{name}` in {file}");
        }
    }
    rules.sort();
    assert!(rules.len() > 150, "the table holds only {} rules", rules.len());
    let before = rules.len();
    rules.dedup();
    assert_eq!(before, rules.len(), "a rule is listed twice");
    check_complete(&rules);
}

/// Every row of the table of defined behavior is shown by tests that exist.
#[test]
fn behavior_names_tests_that_exist() {
    let text = std::fs::read_to_string(root().join("docs/guides/behavior.md")).unwrap();
    let situations = text.split("## Situations").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<_> = situations.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 10, "the table holds only {} rows", rows.len());
    for row in rows {
        let tests: Vec<_> = row.split('`').filter(|part| part.contains("::")).collect();
        assert!(!tests.is_empty(), "no test is named in: {row}");
        for test in tests {
            let (file, name) = test.split_once("::").unwrap();
            let source = std::fs::read_to_string(root().join(file)).unwrap_or_default();
            assert!(source.contains(&format!("fn {name}(")), "no test `{name}` in {file}");
        }
    }
}

/// With the standard's rules at hand, the table must hold every one of them.
fn check_complete(rules: &[String]) {
    let Some(folder) = std::env::var_os("MARGO_SPEC_DIR") else { return };
    let text = std::fs::read_to_string(Path::new(&folder).join("requirements.md")).unwrap();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("- **") else { continue };
        let Some((id, _)) = rest.split_once("**") else { continue };
        let is_rule = id.split_once('-').is_some_and(|(area, number)| {
            area.chars().all(|c| c.is_ascii_uppercase()) && number.chars().all(|c| c.is_ascii_digit())
        });
        assert!(!is_rule || rules.iter().any(|rule| rule == id), "docs/conformance.md lacks {id}");
    }
}

#[test]
fn documents_link_to_files_that_exist() {
    for path in tracked("*.md") {
        let text = std::fs::read_to_string(&path).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") || target.starts_with('#') || target.starts_with("mailto:") {
                continue;
            }
            let file = target.split('#').next().unwrap();
            let exists = path.parent().unwrap().join(file).exists();
            assert!(exists, "{} links to `{target}`, which does not exist", path.display());
        }
    }
}
