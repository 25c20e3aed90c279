//! Deployment policies: what a device does automatically about one deployment.

use margrave_core::policy as core;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $($(#[$word:meta])* $variant:ident),*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $($(#[$word])* $variant),*
        }

        impl From<core::$name> for $name {
            fn from(word: core::$name) -> Self {
                match word {
                    $(core::$name::$variant => Self::$variant),*
                }
            }
        }

        impl From<$name> for core::$name {
            fn from(word: $name) -> Self {
                match word {
                    $($name::$variant => Self::$variant),*
                }
            }
        }
    };
}

words!(
    /// What runs differs from what was applied.
    Drift:
    /// Correct and report.
    Correct,
    /// Report only.
    Report,
    Ignore
);

words!(
    /// A component could not be applied.
    OnFailure:
    /// Keep running parts and retry the rest.
    KeepPartial,
    /// Roll back to the last revision that ran.
    Rollback,
    /// Stop until an operator changes the deployment.
    Stop
);

words!(
    /// The deployment is removed.
    OnRemoval:
    /// Data volumes stay on the device.
    Keep,
    /// Data volumes are deleted.
    Purge
);

/// The policies of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    pub drift: Drift,
    pub on_failure: OnFailure,
    pub on_removal: OnRemoval,
}

/// The requested policies; absent ones stay unchanged, or are the default for a new deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyPatch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_removal: Option<OnRemoval>,
}

impl PolicyPatch {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Policy {
    fn default() -> Self {
        core::Policy::default().into()
    }
}

impl From<core::Policy> for Policy {
    fn from(policy: core::Policy) -> Self {
        // The number of retries is not set by an operator.
        let core::Policy { drift, on_failure, on_removal, attempt: _ } = policy;
        Self { drift: drift.into(), on_failure: on_failure.into(), on_removal: on_removal.into() }
    }
}

/// Exactly this policy.
impl From<core::Policy> for PolicyPatch {
    fn from(policy: core::Policy) -> Self {
        let Policy { drift, on_failure, on_removal } = policy.into();
        Self { drift: Some(drift), on_failure: Some(on_failure), on_removal: Some(on_removal) }
    }
}

impl From<Policy> for core::Policy {
    fn from(policy: Policy) -> Self {
        let Policy { drift, on_failure, on_removal } = policy;
        Self { drift: drift.into(), on_failure: on_failure.into(), on_removal: on_removal.into(), attempt: 0 }
    }
}

impl From<PolicyPatch> for core::PolicyUpdate {
    fn from(patch: PolicyPatch) -> Self {
        let PolicyPatch { drift, on_failure, on_removal } = patch;
        Self {
            drift: drift.map(Into::into),
            on_failure: on_failure.map(Into::into),
            on_removal: on_removal.map(Into::into),
            attempt: None,
        }
    }
}
