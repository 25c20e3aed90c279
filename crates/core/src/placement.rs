//! Which profile of an application fits a device, and why (CON-02).

#[cfg(test)]
mod tests;

use margo::capabilities::DeviceCapabilities;
use margo::constraints::{Fit, Outcome, evaluate};
use margo::description::{ApplicationDescription, ProfileType};

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

/// Judges every profile, or only `wanted`. A `wanted` that the description does not have leaves `profiles` empty.
pub fn place(
    description: &ApplicationDescription,
    capabilities: &DeviceCapabilities,
    wanted: Option<&str>,
) -> Placement {
    let profiles: Vec<ProfileFit> = description
        .deployment_profiles
        .iter()
        .filter(|profile| wanted.is_none_or(|wanted| profile.id == wanted))
        .map(|profile| ProfileFit {
            profile: profile.id.clone(),
            profile_type: profile.profile_type,
            fit: evaluate(profile.profile_type, profile.device_constraints.as_ref(), capabilities),
        })
        .collect();
    decide(profiles)
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
