//! From text to settings, with errors that name file, line and key.

use super::Config;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A setting that cannot be used, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    pub line: Option<usize>,
    pub key: String,
    pub text: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("read the configuration file `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the configuration cannot be used:{}", list(path, problems))]
    Unusable { path: PathBuf, problems: Vec<Located> },
}

fn list(path: &Path, problems: &[Located]) -> String {
    problems.iter().fold(String::new(), |mut out, Located { line, key, text }| {
        let _ = write!(out, "\n  {}", path.display());
        if let Some(line) = line {
            let _ = write!(out, ", line {line}");
        }
        if !key.is_empty() {
            let _ = write!(out, ", `{key}`");
        }
        let _ = write!(out, ": {text}");
        out
    })
}

pub(super) fn file(path: &Path) -> Result<Config, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    self::text(path, &text)
}

pub(super) fn text(name: &Path, text: &str) -> Result<Config, ConfigError> {
    let unusable = |problems| ConfigError::Unusable { path: name.to_owned(), problems };
    let config: Config = match toml::Deserializer::parse(text) {
        Err(error) => return Err(unusable(vec![located(text, &error, String::new())])),
        Ok(deserializer) => serde_path_to_error::deserialize(deserializer).map_err(|error| {
            let path = error.path().to_string();
            unusable(vec![located(text, error.inner(), if path == "." { String::new() } else { path })])
        })?,
    };
    let problems: Vec<Located> = config
        .problems()
        .into_iter()
        .map(|problem| Located {
            line: line_of_key(text, problem.key),
            key: problem.key.to_owned(),
            text: problem.text,
        })
        .collect();
    if problems.is_empty() { Ok(config) } else { Err(unusable(problems)) }
}

fn located(text: &str, error: &toml::de::Error, key: String) -> Located {
    let line = error.span().map(|span| line_at(text, span.start));
    Located { line, key, text: error.message().trim().replace('\n', " ") }
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

/// The line a key stands on, for settings that are well-formed but cannot be used.
fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let table = toml::de::DeTable::parse(text).ok()?;
    let mut table = table.into_inner();
    let mut steps = key.split('.').peekable();
    loop {
        let step = steps.next()?;
        let (name, value) = table.into_iter().find(|(name, _)| name.get_ref().as_ref() == step)?;
        if steps.peek().is_none() {
            return Some(line_at(text, name.span().start));
        }
        match value.into_inner() {
            toml::de::DeValue::Table(inner) => table = inner,
            _ => return None,
        }
    }
}
