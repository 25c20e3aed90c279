//! Devices, their capabilities, and labels from both sides.

use crate::{Result, Store};
use indexmap::IndexMap;
use margo::capabilities::DeviceCapabilities;
use margo::ids::ClientId;
use margrave_core::model::{Actor, Device, DeviceKey};
use margrave_core::selector::LabelSelector;
use margrave_core::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DevicePut {
    Created,
    Updated,
    /// The parent of a child device has not been reported (GW-02).
    GatewayNotFound,
}

#[derive(Debug, Clone, Default)]
pub struct DeviceFilter {
    pub client: Option<ClientId>,
    pub selector: LabelSelector,
}

impl Store {
    /// Upserts what a client reports about one of its devices; `body` is kept as received. Recorded in the audit only when it changed.
    pub async fn device_put(&self, key: &DeviceKey, capabilities: &DeviceCapabilities, body: &[u8], now: Timestamp) -> Result<DevicePut> { let _ = (key, capabilities, body, now); todo!() }
    /// Removes a device and its children; false when the client has no such device.
    pub async fn device_delete(&self, actor: &Actor, key: &DeviceKey, now: Timestamp) -> Result<bool> { let _ = (actor, key, now); todo!() }
    pub async fn device_get(&self, key: &DeviceKey) -> Result<Option<Device>> { let _ = key; todo!() }
    /// In order of key. Uses the label index when the selector names a value; the rest is filtered while reading.
    pub async fn devices_page(&self, filter: &DeviceFilter, after: Option<&DeviceKey>, limit: u32) -> Result<Vec<Device>> { let _ = (filter, after, limit); todo!() }
    pub async fn devices_count(&self) -> Result<u64> { todo!() }
    /// Sets (`Some`) or removes (`None`) operator labels.
    pub async fn device_labels_set(&self, actor: &Actor, key: &DeviceKey, labels: &IndexMap<String, Option<String>>, expected: Option<i64>, now: Timestamp) -> Result<Device> { let _ = (actor, key, labels, expected, now); todo!() }
}
