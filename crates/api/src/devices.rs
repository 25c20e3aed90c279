//! Devices and groups.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceState {
    /// Its client is not accepted.
    Blocked,
    /// All of its deployments failed.
    Failed,
    /// Some of its deployments failed.
    Degraded,
    Offline,
    Updating,
    /// Everything is as desired.
    Online,
}

impl DeviceState {
    /// The wire value.
    pub fn as_str(self) -> &'static str {
        margrave_core::model::DeviceState::from(self).as_str()
    }
}

impl From<margrave_core::model::DeviceState> for DeviceState {
    fn from(state: margrave_core::model::DeviceState) -> Self {
        use margrave_core::model::DeviceState as Domain;
        match state {
            Domain::Blocked => Self::Blocked,
            Domain::Failed => Self::Failed,
            Domain::Degraded => Self::Degraded,
            Domain::Offline => Self::Offline,
            Domain::Updating => Self::Updating,
            Domain::Online => Self::Online,
        }
    }
}

impl From<DeviceState> for margrave_core::model::DeviceState {
    fn from(state: DeviceState) -> Self {
        match state {
            DeviceState::Blocked => Self::Blocked,
            DeviceState::Failed => Self::Failed,
            DeviceState::Degraded => Self::Degraded,
            DeviceState::Offline => Self::Offline,
            DeviceState::Updating => Self::Updating,
            DeviceState::Online => Self::Online,
        }
    }
}

#[expect(clippy::struct_excessive_bools, reason = "four independent facts about a device")]
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    pub client: String,
    pub device: String,
    pub state: DeviceState,
    pub vendor: String,
    pub model_number: String,
    pub serial_number: String,
    /// Whether it can host workloads at all; compatibility is evaluated per application.
    pub hosts_workloads: bool,
    /// Its agent runs with the simulated runtime: what it reports as installed does not really run.
    #[serde(default)]
    pub simulated: bool,
    /// Its agent has no runtime for applications, so it hosts nothing.
    #[serde(default)]
    pub no_runtime: bool,
    pub deployment_types: Vec<String>,
    pub architectures: Vec<String>,
    /// Labels the device reported.
    #[schema(value_type = Object)]
    pub device_labels: IndexMap<String, serde_json::Value>,
    /// Labels set by an operator.
    #[schema(value_type = Object)]
    pub operator_labels: IndexMap<String, String>,
    pub first_reported_at: String,
    pub reported_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<String>,
    /// Its client was not seen for longer than the server's limit.
    pub offline: bool,
    /// Unusual but accepted properties of the report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The capabilities as received; only in the response for one device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub capabilities: Option<serde_json::Value>,
    pub revision: i64,
}

/// Placeholder texts of agents where the standard requires a value and they have none.
const UNKNOWN: &str = "unknown";

impl Device {
    /// Vendor and model, if the device reports them.
    pub fn made_by(&self) -> Option<String> {
        let known: Vec<&str> = [&self.vendor, &self.model_number].into_iter().filter_map(|text| known(text)).collect();
        (!known.is_empty()).then(|| known.join(" "))
    }
}

/// A meaningful text about a device.
pub fn known(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty() && !text.eq_ignore_ascii_case(UNKNOWN))
}

/// `PATCH /api/devices/{client}/{device}`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateDevice {
    /// A value sets an operator label, null removes it.
    #[schema(value_type = Object)]
    pub labels: IndexMap<String, Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Names a device in a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceRef {
    pub client: String,
    /// A device id, or `gateway/*` to let the gateway select one.
    pub device: String,
}

// Unlike `DeviceRef` it is flattened into larger objects, so it allows other members.
/// Names a device in a response.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceName {
    pub client: String,
    /// A device id, or `gateway/*`.
    pub device: String,
}

impl From<DeviceRef> for DeviceName {
    fn from(DeviceRef { client, device }: DeviceRef) -> Self {
        Self { client, device }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    pub name: String,
    pub selector: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub created_at: String,
    pub revision: i64,
}

/// `PUT /api/groups/{name}`: creates without `If-Match`, updates with it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutGroup {
    pub selector: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn treats_placeholder_texts_as_unknown() {
        assert_eq!(
            (known(" Box PC 427 "), known("unknown"), known("Unknown"), known(" ")),
            (Some("Box PC 427"), None, None, None)
        );
    }
}
