//! Which profile of an application is compatible with a device, and why (CON-02).

#[cfg(test)]
mod tests;

use crate::runtime::{self, NO_RUNTIME};
use margo::capabilities::DeviceCapabilities;
use margo::constraints::{CompatibilityCheck, Outcome, evaluate, outcome};
use margo::description::{ApplicationDescription, DeploymentProfile, ProfileType};

#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// Yes if some profile is compatible; unknown if none is but some might be; no otherwise.
    pub outcome: Outcome,
    /// The first compatible profile, in description order.
    pub profile: Option<String>,
    pub profiles: Vec<ProfileCompatibility>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ProfileCompatibility {
    pub profile: String,
    pub profile_type: ProfileType,
    pub compatibility: CompatibilityCheck,
}

/// Evaluates every profile, or only `wanted`, with a reason for each rule. If the description has no profile `wanted`,
/// `profiles` is empty.
pub fn place_with_reasons(
    description: &ApplicationDescription,
    capabilities: &DeviceCapabilities,
    wanted: Option<&str>,
) -> Placement {
    evaluate_with(description, wanted, |profile| explain_missing_runtime(profile, capabilities))
}

/// The same, with reasons only for profiles that are not certainly compatible; for a whole fleet.
pub fn place(
    description: &ApplicationDescription,
    capabilities: &DeviceCapabilities,
    wanted: Option<&str>,
) -> Placement {
    evaluate_with(description, wanted, |profile| {
        match outcome(profile.profile_type, profile.device_constraints.as_ref(), capabilities) {
            Outcome::Yes => CompatibilityCheck { outcome: Outcome::Yes, reasons: Vec::new() },
            _ => explain_missing_runtime(profile, capabilities),
        }
    })
}

/// The standard allows devices that host no workloads; only the agent knows why.
fn explain_missing_runtime(profile: &DeploymentProfile, capabilities: &DeviceCapabilities) -> CompatibilityCheck {
    let mut compatibility = evaluate(profile.profile_type, profile.device_constraints.as_ref(), capabilities);
    if runtime::has_none(capabilities) {
        compatibility.reasons.iter_mut().for_each(|reason| NO_RUNTIME.clone_into(&mut reason.message));
    }
    compatibility
}

fn evaluate_with(
    description: &ApplicationDescription,
    wanted: Option<&str>,
    compatibility: impl Fn(&DeploymentProfile) -> CompatibilityCheck,
) -> Placement {
    let wanted = |profile: &&DeploymentProfile| wanted.is_none_or(|wanted| profile.id == wanted);
    let profiles = description.deployment_profiles.iter().filter(wanted).map(|profile| ProfileCompatibility {
        profile: profile.id.clone(),
        profile_type: profile.profile_type,
        compatibility: compatibility(profile),
    });
    decide(profiles.collect())
}

/// CON-02: selects only a profile that is certainly compatible; one that might be turns "no" into "unknown".
fn decide(profiles: Vec<ProfileCompatibility>) -> Placement {
    let chosen = profiles
        .iter()
        .find(|profile| profile.compatibility.outcome == Outcome::Yes)
        .map(|profile| profile.profile.clone());
    let outcome = if chosen.is_some() {
        Outcome::Yes
    } else if profiles.iter().any(|profile| profile.compatibility.outcome == Outcome::Unknown) {
        Outcome::Unknown
    } else {
        Outcome::No
    };
    Placement { outcome, profile: chosen, profiles }
}
