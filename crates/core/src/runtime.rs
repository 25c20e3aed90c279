//! What a device runs workloads with, as far as its agent tells: one that only pretends to run them says so, and one that has
//! nothing to run them with.

#[cfg(test)]
mod tests;

use crate::policy::EXTENSION;
use margo::capabilities::DeviceCapabilities;
use serde_json::{Value, json};

const MEMBER: &str = "runtime";
const SIMULATED: &str = "simulated";
const NONE: &str = "none";

/// Why nothing fits a device whose agent has nothing to run it with.
pub const NO_RUNTIME: &str = "this device runs no applications: no runtime is switched on; add `[compose]` or `[kubernetes]` \
                              to the settings of its agent";

/// The extension of a capability report by which an agent says that it runs nothing; others ignore it (CAP-09).
pub fn simulated_announcement() -> (String, Value) {
    (EXTENSION.to_owned(), json!({ MEMBER: SIMULATED }))
}

/// Whether the agent of this device says that it only pretends to run workloads. Anything else it may say there, and every device
/// that says nothing, counts as real.
pub fn is_simulated(capabilities: &DeviceCapabilities) -> bool {
    said(capabilities) == Some(SIMULATED)
}

/// The extension by which an agent says that nothing is switched on to run workloads with: otherwise its device looks like a
/// gateway that only relays (CAP-06).
pub fn none_announcement() -> (String, Value) {
    (EXTENSION.to_owned(), json!({ MEMBER: NONE }))
}

/// Whether this device hosts no workloads because its agent has nothing to run them with.
pub fn has_none(capabilities: &DeviceCapabilities) -> bool {
    !capabilities.properties.hosts_workloads() && said(capabilities) == Some(NONE)
}

fn said(capabilities: &DeviceCapabilities) -> Option<&str> {
    capabilities.extensions.get(EXTENSION)?.get(MEMBER)?.as_str()
}
