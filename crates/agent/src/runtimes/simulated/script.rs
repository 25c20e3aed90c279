//! The TOML script of the simulated runtime.

use crate::config::duration;
use crate::machine::io::ApplyWork;
use margo::{DeploymentId, DeviceId};
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// Rules are evaluated in order; the first match applies.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// Duration of each apply without a matching rule.
    #[serde(with = "duration")]
    pub delay: Duration,
    #[serde(with = "duration")]
    pub remove_delay: Duration,
    /// Child devices that do not answer.
    pub unreachable: Vec<DeviceId>,
    pub rule: Vec<Rule>,
}

/// The behavior of matching components. An absent field matches everything.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    pub deployment: Option<DeploymentId>,
    pub application: Option<String>,
    pub device: Option<DeviceId>,
    pub component: Option<String>,
    #[serde(with = "duration::optional")]
    pub delay: Option<Duration>,
    /// Fail this many times before succeeding; `"always"` without end.
    pub fail: Option<Fail>,
    pub message: Option<String>,
    /// Start, then stop with this code (COMP-07).
    pub exit_code: Option<i32>,
    /// Drift: disappears after it was applied. Applying it again restores it for a moment.
    pub missing: bool,
    /// Drift: runs with these differences.
    pub differs: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Fail {
    Times(u32),
    Word(Always),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Always {
    Always,
}

/// The subject that rules match.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub deployment: DeploymentId,
    pub application: &'a str,
    pub device: &'a DeviceId,
    pub component: &'a str,
}

impl<'a> Subject<'a> {
    pub fn of(work: &'a ApplyWork) -> Self {
        let spec = &work.document.spec;
        Self {
            deployment: work.deployment,
            application: spec.application_id.as_str(),
            device: &work.device,
            component: &spec.deployment_profile.components[work.component].name,
        }
    }
}

impl Script {
    /// A missing file means no faults.
    pub fn read(path: &Path) -> Result<Self, String> {
        match std::fs::read_to_string(path) {
            Ok(text) => toml::from_str(&text).map_err(|error| format!("read `{}`: {error}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("read `{}`: {error}", path.display())),
        }
    }

    pub fn rule(&self, subject: Subject<'_>) -> Option<&Rule> {
        self.rule.iter().find(|rule| {
            rule.deployment.is_none_or(|id| id == subject.deployment)
                && rule.application.as_deref().is_none_or(|id| id == subject.application)
                && rule.device.as_ref().is_none_or(|device| device == subject.device)
                && rule.component.as_deref().is_none_or(|name| name == subject.component)
        })
    }

    pub(super) fn delay(&self, work: &ApplyWork) -> Duration {
        self.rule(Subject::of(work)).and_then(|rule| rule.delay).unwrap_or(self.delay)
    }
}
