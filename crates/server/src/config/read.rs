//! Parses settings, with errors that name file, line, column and key.

use super::{Config, check};
use margrave_core::settings::{self, Place, Problem, Reading};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("read the configuration file `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("invalid configuration:{}", settings::list(path, problems))]
    Unusable { path: PathBuf, problems: Vec<Problem> },
}

/// The valid part of a file, with all problems of its form.
#[derive(Debug)]
pub struct ConfigFile {
    pub path: PathBuf,
    /// `None` when the text is not TOML.
    pub config: Option<Config>,
    pub problems: Vec<Problem>,
    /// The position of each key.
    pub places: BTreeMap<String, Place>,
}

impl ConfigFile {
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Ok(Self::parse(path, &text))
    }

    pub fn parse(name: &Path, text: &str) -> Self {
        let keys: Vec<String> = Config::reference().into_iter().map(|setting| setting.key).collect();
        let Reading { settings, problems, places } = settings::read(text, &keys);
        Self { path: name.to_owned(), config: settings, problems, places }
    }

    /// Adds another problem, unless its key has one already.
    pub fn add(&mut self, found: Vec<check::Problem>) {
        for check::Problem { key, text } in found {
            if self.problems.iter().all(|problem| problem.key != key) {
                let place = self.places.get(key).copied();
                self.problems.push(Problem { place, key: key.to_owned(), text });
            }
        }
        // First the keys in the file, in their order.
        self.problems.sort_by_key(|problem| (problem.place.is_none(), problem.place));
    }

    /// The settings, if there are no problems.
    pub fn finish(self) -> Result<Config, ConfigError> {
        let Self { path, config, problems, places: _ } = self;
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(ConfigError::Unusable { path, problems }),
        }
    }
}

pub(super) fn checked(mut file: ConfigFile) -> Result<Config, ConfigError> {
    if let Some(config) = &file.config {
        let found = config.problems();
        file.add(found);
    }
    file.finish()
}
