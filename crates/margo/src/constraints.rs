//! Device constraints and matching, with a reason per rule (requirements §3.5).

use crate::capabilities::DeviceCapabilities;
use crate::description::ProfileType;
use serde_json::Value;

mod evaluate;
pub(crate) mod read;
mod words;

use evaluate::ReasonDetail;
pub use words::Subject;

/// Constraints as the supplier wrote them. `raw` is copied into a deployment, unmodified (CON-03).
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceConstraints {
    pub capacity: Option<CapacityRequirements>,
    /// `None` means no constraint (CON-07).
    pub eligibility_rules: Option<Vec<EligibilityRule>>,
    pub raw: Value,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct CapacityRequirements {
    pub cpu: Option<CpuRequirement>,
    pub memory: Option<String>,
    pub storage: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CpuRequirement {
    pub cores: f64,
    pub architectures: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EligibilityRule {
    pub property_selector: Option<Selector>,
    pub label_selector: Option<Selector>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Selector {
    pub match_expressions: Vec<MatchExpression>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MatchExpression {
    pub key: String,
    pub operator: Operator,
    pub values: Vec<Value>,
    pub item_selector: Option<Selector>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
    ContainsAll,
    ContainsAny,
}

impl Operator {
    pub const ALL: [Self; 8] = [
        Self::In,
        Self::NotIn,
        Self::Exists,
        Self::DoesNotExist,
        Self::Gt,
        Self::Lt,
        Self::ContainsAll,
        Self::ContainsAny,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::ContainsAll => "ContainsAll",
            Self::ContainsAny => "ContainsAny",
        }
    }
}

/// Unknown is a value: an unreadable quantity is neither enough nor too little (W-17).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Yes,
    No,
    Unknown,
}

/// Why one rule holds or does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// `deploymentType`, `cpu`, `memory`, `storage`, or a path such as
    /// `eligibilityRules[0].labelSelector.matchExpressions[1]`.
    pub rule: String,
    pub outcome: Outcome,
    /// A sentence for people: `has 2 GiB of memory, needs 4 GiB`.
    pub message: String,
    /// The label of the device that this rule requires.
    pub label: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompatibilityCheck {
    pub outcome: Outcome,
    /// One per evaluated rule, for yes and for no.
    pub reasons: Vec<Reason>,
}

/// Deployment type, then capacity, then rules only if capacity passes (CON-05).
pub fn evaluate(
    profile_type: ProfileType,
    constraints: Option<&DeviceConstraints>,
    capabilities: &DeviceCapabilities,
) -> CompatibilityCheck {
    evaluate::evaluate(profile_type, constraints, capabilities, ReasonDetail::Full)
}

/// The same without reasons: several times as fast, for a whole fleet.
pub fn outcome(
    profile_type: ProfileType,
    constraints: Option<&DeviceConstraints>,
    capabilities: &DeviceCapabilities,
) -> Outcome {
    evaluate::evaluate(profile_type, constraints, capabilities, ReasonDetail::Omitted).outcome
}

#[cfg(test)]
mod tests;
