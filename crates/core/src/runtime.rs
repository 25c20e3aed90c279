//! What a device runs workloads with, as far as its agent announces it: an agent with the simulated runtime says so,
//! and so does an agent without any runtime.

#[cfg(test)]
mod tests;

use crate::policy::EXTENSION;
use margo::capabilities::DeviceCapabilities;
use serde_json::{Value, json};

const MEMBER: &str = "runtime";
const SIMULATED: &str = "simulated";
const NONE: &str = "none";

/// Why no application is compatible with a device whose agent has no runtime.
pub const NO_RUNTIME: &str = "this device runs no applications: no runtime is switched on; add `[compose]` or `[kubernetes]` \
                              to the settings of its agent";

/// The extension of a capability report by which an agent announces the simulated runtime; others ignore it (CAP-09).
pub fn simulated_announcement() -> (String, Value) {
    (EXTENSION.to_owned(), json!({ MEMBER: SIMULATED }))
}

/// Whether the agent of this device announces the simulated runtime. Any other value, and a device without the
/// extension, counts as real.
pub fn is_simulated(capabilities: &DeviceCapabilities) -> bool {
    said(capabilities) == Some(SIMULATED)
}

/// The extension by which an agent announces that no runtime is switched on: without it the device looks like a gateway
/// that only relays (CAP-06).
pub fn none_announcement() -> (String, Value) {
    (EXTENSION.to_owned(), json!({ MEMBER: NONE }))
}

/// Whether this device hosts no workloads because its agent has no runtime.
pub fn has_none(capabilities: &DeviceCapabilities) -> bool {
    !capabilities.properties.hosts_workloads() && said(capabilities) == Some(NONE)
}

fn said(capabilities: &DeviceCapabilities) -> Option<&str> {
    capabilities.extensions.get(EXTENSION)?.get(MEMBER)?.as_str()
}
