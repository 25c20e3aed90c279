//! Which profile of an application fits a device, and why (CON-02).

use margo::capabilities::DeviceCapabilities;
use margo::constraints::{Fit, Outcome};
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

/// Judges every profile, or only `wanted`.
pub fn place(description: &ApplicationDescription, capabilities: &DeviceCapabilities, wanted: Option<&str>) -> Placement {
    let _ = (description, capabilities, wanted);
    todo!()
}
