//! DeviceCapabilities: what a device offers to workloads (requirements §7).

use crate::ReadResult;
use crate::description::Extensions;
use crate::ids::DeviceId;
use crate::node::Limits;
use crate::reader;
use indexmap::IndexMap;
use serde_json::Value;

mod read;
mod write;

#[derive(Debug, Clone, PartialEq)]
pub struct DeviceCapabilities {
    pub properties: DeviceProperties,
    pub labels: IndexMap<String, Value>,
    pub extensions: Extensions,
    /// The `properties` object as sent: property selectors point into it (CON-08).
    pub raw_properties: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeviceProperties {
    pub id: DeviceId,
    pub vendor: String,
    pub model_number: String,
    pub serial_number: String,
    pub cpus: Option<Vec<Cpu>>,
    /// As sent; see [`crate::quantity`] for its meaning (W-17).
    pub memory: Option<String>,
    pub storage: Option<String>,
    pub peripherals: Option<Vec<Peripheral>>,
    pub interfaces: Option<Vec<Interface>>,
    pub otel_collector: Option<bool>,
    pub supported_runtimes: Option<Vec<String>>,
    pub supported_deployment_types: Option<Vec<String>>,
}

impl DeviceProperties {
    /// A device without hosting fields is a see-thru gateway that only relays (CAP-06).
    pub fn hosts_workloads(&self) -> bool {
        self.supported_deployment_types.is_some()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Cpu {
    pub cores: f64,
    pub architecture: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peripheral {
    pub kind: String,
    pub manufacturer: Option<String>,
    pub model: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub kind: String,
}

/// How to treat a runtime or deployment type that the standard does not list (CAP-07).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownTypes {
    /// Rejects it, naming the field: the machine-readable contract.
    #[default]
    Refuse,
    /// Counts it as `custom`: the prose.
    Custom,
}

impl DeviceCapabilities {
    /// Reads JSON of generation B with or without the old envelope (W-16), or of A where it differs in form.
    pub fn read(json: &[u8], unknown_types: UnknownTypes) -> ReadResult<Self> {
        reader::read_json(json, Limits::DOCUMENT, |root| read::capabilities(root, unknown_types))
    }

    /// Writes JSON of generation B.
    pub fn to_json(&self) -> Vec<u8> {
        write::capabilities(self).to_json()
    }
}

#[cfg(test)]
mod tests;
