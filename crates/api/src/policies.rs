//! What a device does by itself about one deployment.

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
    /// What runs is not what was applied.
    Drift:
    /// Repair it and report what differed.
    Correct,
    /// Report what differs, touch nothing.
    Report,
    Ignore
);

words!(
    /// A component could not be applied.
    OnFailure:
    /// What was applied stays, the rest is tried again.
    KeepPartial,
    /// Back to the last revision that ran.
    Rollback,
    /// Stop until something is changed here.
    Hold
);

words!(
    /// The deployment is removed.
    OnRemoval:
    /// Data volumes stay on the device.
    Keep,
    /// Data volumes are deleted.
    Purge
);

/// The policy of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    pub drift: Drift,
    pub on_failure: OnFailure,
    pub on_removal: OnRemoval,
}

/// The policy asked for; what is left out stays as it is, or is the default for a new deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyWish {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_removal: Option<OnRemoval>,
}

impl PolicyWish {
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
        // How often it was tried again is no choice somebody makes.
        let core::Policy { drift, on_failure, on_removal, attempt: _ } = policy;
        Self { drift: drift.into(), on_failure: on_failure.into(), on_removal: on_removal.into() }
    }
}

/// Exactly this, whatever it is now.
impl From<core::Policy> for PolicyWish {
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

impl From<PolicyWish> for core::Wish {
    fn from(wish: PolicyWish) -> Self {
        let PolicyWish { drift, on_failure, on_removal } = wish;
        Self {
            drift: drift.map(Into::into),
            on_failure: on_failure.map(Into::into),
            on_removal: on_removal.map(Into::into),
            attempt: None,
        }
    }
}
