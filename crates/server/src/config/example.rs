//! The whole configuration as one commented file and as one page, generated from the struct.

use super::Config;
use super::settings::{Described, Setting};
use std::fmt::Write as _;

/// Comments are wrapped before this column.
const WIDTH: usize = 100;

const FILE_HEAD: &str = "\
# Margrave server: every setting with its default. Settings that have none are commented out.
# `margrave config check FILE` reports all problems of a file.
# Durations are a whole number and a unit: 250ms, 30s, 5m, 12h, 90d.
";

/// The text above the table of settings.
const PAGE_HEAD: &str = "\
# Configuration reference

The server reads one TOML file, named by `margrave serve --config FILE`; without a file every setting has its default.
An unknown key or an invalid value prevents the start; the error names file, line, column and key.
Durations are written as a whole number and a unit: `250ms`, `30s`, `5m`, `12h`, `90d`.
Files named by `identity.*_file` and `https.*_file` are reloaded when they change; all other settings need a restart.

| command | what it does |
|---|---|
| `margrave config example` | prints one commented TOML file with every setting, its default and its meaning |
| `margrave config check FILE` | reports all problems of a file, and what this machine lacks for it |
| `margrave config show --config FILE` | prints the settings in effect and where each comes from: flag, file and line, or default; passwords are omitted |
| `margrave config reference` | prints the table below |

`check` and `show` also accept the flags of `serve`, and check the combined settings.
The agent has `margrave-agent config example` and `margrave-agent config check FILE`.

This page is generated from the code; a test compares the two.

| key | kind | default | meaning |
|---|---|---|---|
";

/// A sample value for each setting without a default, to show its form.
const SAMPLES: &[(&str, &str)] = &[
    ("store.url", "\"postgres://margrave@db.example:5432/margrave\""),
    ("store.seal_key_file", "\"/etc/margrave/seal.key\""),
    ("listeners.operators.tls", "true"),
    ("urls.devices", "\"https://fleet.example\""),
    ("urls.trust", "\"https://fleet.example:8443\""),
    ("urls.operators", "\"https://fleet.example:8080\""),
    ("https.certificate_file", "\"/etc/margrave/https.pem\""),
    ("https.key_file", "\"/etc/margrave/https.key\""),
    ("identity.anchors_file", "\"/etc/margrave/anchors.pem\""),
    ("identity.issuer_file", "\"/etc/margrave/issuer.pem\""),
    ("identity.wfm_svid_file", "\"/etc/margrave/wfm-svid.pem\""),
    ("registry.bytes_max", "1099511627776"),
    ("registry.repository_bytes_max", "109951162777"),
];

/// Every setting with its default and meaning.
pub(super) fn reference() -> Vec<Setting> {
    let defaults = toml::Table::try_from(Config::default()).expect("the defaults can be written as TOML");
    let mut described = Vec::new();
    Config::describe("", &mut described);
    described
        .into_iter()
        .filter_map(|entry| match entry {
            Described::Section { .. } => None,
            Described::Value { key, kind, text } => {
                Some(Setting { default: value_text(&defaults, &key), key, kind, text })
            }
        })
        .collect()
}

pub(super) fn markdown() -> String {
    let mut page = String::from(PAGE_HEAD);
    for Setting { key, kind, default, text } in reference() {
        let default = if default.is_empty() { "not set".to_owned() } else { format!("`{default}`") };
        let _ = writeln!(page, "| `{key}` | {kind} | {default} | {} |", text.replace('|', "\\|"));
    }
    page
}

/// One commented file with every setting and its default.
pub(super) fn file() -> String {
    let defaults = toml::Table::try_from(Config::default()).expect("the defaults can be written as TOML");
    let mut described = Vec::new();
    Config::describe("", &mut described);
    let mut file = String::from(FILE_HEAD);
    let mut entries = described.iter().peekable();
    while let Some(entry) = entries.next() {
        file.push('\n');
        match entry {
            Described::Section { key, text } if !key.is_empty() => {
                comment(&mut file, text);
                // A section with only subsections needs no header of its own.
                if matches!(entries.peek(), Some(Described::Value { .. })) {
                    let _ = writeln!(file, "[{key}]");
                }
            }
            Described::Section { .. } => {
                file.pop();
            }
            Described::Value { key, kind, text } => {
                let name = key.rsplit('.').next().unwrap_or(key);
                comment(&mut file, text);
                let default = value_text(&defaults, key);
                if default.is_empty() {
                    let sample = SAMPLES.iter().find(|(sample, _)| sample == key).map_or("", |(_, value)| value);
                    let _ = writeln!(file, "# ({kind}; not set by default)\n# {name} = {sample}");
                } else {
                    let _ = writeln!(file, "# ({kind}; default {default})\n{name} = {default}");
                }
            }
        }
    }
    file
}

fn comment(file: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() > 1 && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(file, "{line}");
            line.truncate(1);
        }
        let _ = write!(line, " {word}");
    }
    if line.len() > 1 {
        let _ = writeln!(file, "{line}");
    }
}

fn value_text(table: &toml::Table, key: &str) -> String {
    value(table, key).map_or_else(String::new, ToString::to_string)
}

/// The value of a table at a dotted key.
pub(super) fn value<'a>(table: &'a toml::Table, key: &str) -> Option<&'a toml::Value> {
    let mut steps = key.split('.');
    let first = steps.next().and_then(|step| table.get(step));
    steps.fold(first, |value, step| value?.get(step))
}
