//! Results of the sections, stored as JSON so that one section can be measured again without losing the others.

use super::machine::Machine;
use super::plot::Plot;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// One line of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub what: String,
    pub measured: String,
    /// Empty if there is no target.
    pub target: String,
    /// Whether the target was met.
    pub met: Option<bool>,
}

impl Row {
    pub fn new(what: impl Into<String>, measured: impl Into<String>) -> Self {
        Self { what: what.into(), measured: measured.into(), target: String::new(), met: None }
    }

    #[must_use]
    pub fn target(mut self, target: impl Into<String>, met: bool) -> Self {
        self.target = target.into();
        self.met = Some(met);
        self
    }
}

/// The results of one section.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    pub rows: Vec<Row>,
    #[serde(default)]
    pub plots: Vec<Plot>,
}

/// Results with the conditions of the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Section {
    pub machine: Machine,
    /// A short run that only checks that everything works.
    pub quick: bool,
    #[serde(flatten)]
    pub findings: Findings,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub sections: BTreeMap<String, Section>,
}

impl Results {
    /// Empty if the file does not exist yet.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        match std::fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| format!("read `{}`", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("read `{}`", path.display())),
        }
    }

    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        std::fs::write(path, text).with_context(|| format!("write `{}`", path.display()))
    }
}
