//! What a device runs workloads with, as far as its agent tells: one that only pretends to run them says so.

#[cfg(test)]
mod tests;

use crate::policy::EXTENSION;
use margo::capabilities::DeviceCapabilities;
use serde_json::{Value, json};

const MEMBER: &str = "runtime";
const SIMULATED: &str = "simulated";

/// The extension of a capability report by which an agent says that it runs nothing; others ignore it (CAP-09).
pub fn simulated_announcement() -> (String, Value) {
    (EXTENSION.to_owned(), json!({ MEMBER: SIMULATED }))
}

/// Whether the agent of this device says that it only pretends to run workloads. Anything else it may say there, and every device
/// that says nothing, counts as real.
pub fn is_simulated(capabilities: &DeviceCapabilities) -> bool {
    let said = capabilities.extensions.get(EXTENSION).and_then(|ours| ours.get(MEMBER));
    said.and_then(Value::as_str) == Some(SIMULATED)
}
