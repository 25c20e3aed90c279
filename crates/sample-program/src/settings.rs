//! The settings of the program, all from environment variables.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Longer than any time limit of a test or a tutorial; a typo must not stop a device for a year.
const SLOW_SECONDS_MAX: u64 = 3600;

/// | variable | meaning |
/// |---|---|
/// | `SAMPLE_NAME`, `SAMPLE_VERSION` | title of the page |
/// | `SAMPLE_LISTEN` | address and port, `0.0.0.0:8080` by default |
/// | `SAMPLE_SHOW` | names of variables to show, separated by commas; those that end in `PASSWORD`, `KEY`, `TOKEN` or `SECRET` are shown as set or not set |
/// | `SAMPLE_CONFIG` | a file whose text is shown |
/// | `SAMPLE_DATA` | a folder for the counters; without it they are in memory |
/// | `SAMPLE_UPSTREAM` | `HOST:PORT` of another instance, which must be healthy for this one to be healthy |
/// | `SAMPLE_SLOW` | seconds to wait before listening |
/// | `SAMPLE_FAIL` | exit with this code instead of listening; empty and `0` disable it |
/// | `SAMPLE_UNHEALTHY` | if not empty, `/healthz` reports unhealthy |
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) listen: SocketAddr,
    pub(crate) shown: Vec<(String, String)>,
    pub(crate) config: Option<PathBuf>,
    pub(crate) data: Option<PathBuf>,
    pub(crate) upstream: Option<String>,
    pub(crate) slow: Duration,
    pub(crate) fail: Option<u8>,
    pub(crate) unhealthy: bool,
}

impl Settings {
    /// `lookup` is the environment.
    pub(crate) fn from(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let listen = set("SAMPLE_LISTEN").unwrap_or_else(|| "0.0.0.0:8080".to_owned());
        let shown = set("SAMPLE_SHOW").unwrap_or_default();
        let names = shown.split(',').map(str::trim).filter(|name| !name.is_empty());
        let slow = number(&set, "SAMPLE_SLOW", SLOW_SECONDS_MAX)?.unwrap_or(0);
        let fail = number(&set, "SAMPLE_FAIL", u64::from(u8::MAX))?.and_then(|code| u8::try_from(code).ok());
        Ok(Self {
            name: set("SAMPLE_NAME").unwrap_or_else(|| "Sample".to_owned()),
            version: set("SAMPLE_VERSION").unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned()),
            listen: listen.parse().map_err(|_| format!("SAMPLE_LISTEN is `{listen}`; write it as 0.0.0.0:8080"))?,
            shown: names.map(|name| (name.to_owned(), shown_value(name, lookup(name)))).collect(),
            config: set("SAMPLE_CONFIG").map(PathBuf::from),
            data: set("SAMPLE_DATA").map(PathBuf::from),
            upstream: set("SAMPLE_UPSTREAM"),
            slow: Duration::from_secs(slow),
            fail: fail.filter(|code| *code > 0),
            unhealthy: set("SAMPLE_UNHEALTHY").is_some(),
        })
    }
}

fn number(set: &dyn Fn(&str) -> Option<String>, name: &str, max: u64) -> Result<Option<u64>, String> {
    let Some(text) = set(name) else { return Ok(None) };
    match text.parse() {
        Ok(value) if value <= max => Ok(Some(value)),
        _ => Err(format!("{name} is `{text}`; write a number from 0 to {max}")),
    }
}

/// Secrets must not be on a page that everyone in the plant can open.
fn shown_value(name: &str, value: Option<String>) -> String {
    let secret = ["PASSWORD", "KEY", "TOKEN", "SECRET"].iter().any(|end| name.ends_with(end));
    match (secret, value.filter(|value| !value.is_empty())) {
        (true, Some(_)) => "(set)".to_owned(),
        (_, None) => "(not set)".to_owned(),
        (false, Some(value)) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::from(&|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned()))
    }

    #[test]
    fn all_settings_have_defaults() {
        let settings = with(&[]).expect("defaults are complete");
        assert_eq!(settings.listen.port(), 8080);
        assert!(settings.fail.is_none() && !settings.unhealthy && settings.slow.is_zero());
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = [("SAMPLE_SHOW", "LINE, API_KEY,OTHER_TOKEN"), ("LINE", "Press 7"), ("API_KEY", "hush")];
        let settings = with(&shown).expect("valid");
        let values: Vec<_> = settings.shown.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["Press 7", "(set)", "(not set)"]);
    }

    #[test]
    fn rejects_a_wrong_value() {
        assert!(with(&[("SAMPLE_SLOW", "soon")]).is_err_and(|problem| problem.contains("SAMPLE_SLOW")));
        assert!(with(&[("SAMPLE_FAIL", "256")]).is_err_and(|problem| problem.contains("0 to 255")));
        assert!(with(&[("SAMPLE_FAIL", "0")]).is_ok_and(|settings| settings.fail.is_none()));
    }
}
