//! Which profile of an application fits a device, and why (CON-02).

#[cfg(test)]
mod tests;

use crate::runtime::{self, NO_RUNTIME};
use margo::capabilities::DeviceCapabilities;
use margo::constraints::{Fit, Outcome, evaluate, outcome};
use margo::description::{ApplicationDescription, DeploymentProfile, ProfileType};

#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// Yes when some profile fits; unknown when none does but some might; no otherwise.
    pub outcome: Outcome,
    /// The first profile in description order that fits.
    pub profile: Option<String>,
    pub profiles: Vec<ProfileFit>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ProfileFit {
    pub profile: String,
    pub profile_type: ProfileType,
    pub fit: Fit,
}

/// Judges every profile, or only `wanted`, with a reason for each rule. A `wanted` that the description does not have leaves
/// `profiles` empty.
pub fn place_with_reasons(
    description: &ApplicationDescription,
    capabilities: &DeviceCapabilities,
    wanted: Option<&str>,
) -> Placement {
    judge(description, wanted, |profile| in_words(profile, capabilities))
}

/// The same where only what does not surely fit has to say why, as for a whole fleet: what fits has no reasons.
pub fn place(
    description: &ApplicationDescription,
    capabilities: &DeviceCapabilities,
    wanted: Option<&str>,
) -> Placement {
    judge(description, wanted, |profile| {
        match outcome(profile.profile_type, profile.device_constraints.as_ref(), capabilities) {
            Outcome::Yes => Fit { outcome: Outcome::Yes, reasons: Vec::new() },
            _ => in_words(profile, capabilities),
        }
    })
}

/// The standard knows devices that host nothing; why one does not, only its agent can tell.
fn in_words(profile: &DeploymentProfile, capabilities: &DeviceCapabilities) -> Fit {
    let mut fit = evaluate(profile.profile_type, profile.device_constraints.as_ref(), capabilities);
    if runtime::has_none(capabilities) {
        fit.reasons.iter_mut().for_each(|reason| NO_RUNTIME.clone_into(&mut reason.message));
    }
    fit
}

fn judge(
    description: &ApplicationDescription,
    wanted: Option<&str>,
    fit: impl Fn(&DeploymentProfile) -> Fit,
) -> Placement {
    let wanted = |profile: &&DeploymentProfile| wanted.is_none_or(|wanted| profile.id == wanted);
    let profiles = description.deployment_profiles.iter().filter(wanted).map(|profile| ProfileFit {
        profile: profile.id.clone(),
        profile_type: profile.profile_type,
        fit: fit(profile),
    });
    decide(profiles.collect())
}

/// CON-02: only a profile that surely fits is chosen; one that might keeps the answer from being a plain no.
fn decide(profiles: Vec<ProfileFit>) -> Placement {
    let chosen =
        profiles.iter().find(|profile| profile.fit.outcome == Outcome::Yes).map(|profile| profile.profile.clone());
    let outcome = if chosen.is_some() {
        Outcome::Yes
    } else if profiles.iter().any(|profile| profile.fit.outcome == Outcome::Unknown) {
        Outcome::Unknown
    } else {
        Outcome::No
    };
    Placement { outcome, profile: chosen, profiles }
}
