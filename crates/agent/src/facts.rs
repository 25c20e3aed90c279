//! Capabilities of this device and its children: discovered, then overridden by a file (CAP-01 to CAP-10).

mod hardware;

use crate::config::{AgentConfig, ChildConfig};
use crate::machine::io::{DeviceReport, Hold};
use crate::runtimes::Runtime;
use hardware::{Hardware, UNKNOWN};
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::node::Limits;
use margo::{DeviceId, Digest};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Label by which applications select devices that run plain Kubernetes manifests (CR-01).
pub const MANIFESTS_LABEL: (&str, &str) = ("org.margrave/manifests", "v1");

/// Fields that only devices that host workloads report (CAP-06).
const HOSTING: [&str; 8] = [
    "cpus",
    "memory",
    "storage",
    "peripherals",
    "interfaces",
    "otelCollector",
    "supportedRuntimes",
    "supportedDeploymentTypes",
];

/// Far above any real description of a device.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FactsError {
    #[error("read the capabilities `{}`: {message}", path.display())]
    File { path: PathBuf, message: String },
    #[error("the capabilities of `{device}` cannot be reported: {message}")]
    Invalid { device: DeviceId, message: String },
    #[error("`{0}` is not a device id")]
    Child(String),
}

/// The runtime of this agent, as reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// Empty: no runtime is enabled.
    pub types: &'static [&'static str],
    /// The runtime is simulated.
    pub simulated: bool,
}

impl Host {
    pub fn of(runtime: &dyn Runtime) -> Self {
        Self { types: runtime.deployment_types(), simulated: runtime.is_simulated() }
    }
}

/// The reports of this client: its own device first, then the children of a gateway (GW-02).
/// A maintenance hold is reported with the own device, as an extension.
pub fn reports(
    config: &AgentConfig,
    own: &DeviceId,
    host: Host,
    hold: Option<&Hold>,
) -> Result<Vec<DeviceReport>, FactsError> {
    let mut base = if config.device.discover { discover(&config.state_dir, host.types) } else { json!({}) };
    if let Some(path) = &config.device.capabilities {
        merge(&mut base, read_file(path)?);
    }
    if let Some(Hold { reason, until }) = hold {
        let (key, announcement) = margrave_core::hold::announcement(reason, *until);
        merge(&mut base, json!({ key: announcement }));
    }
    let mut reports = vec![report(own.clone(), base, host)?];
    for ChildConfig { id, capabilities } in &config.child {
        let full = format!("{own}/{id}");
        let child = full.parse::<DeviceId>().map_err(|_| FactsError::Child(full))?;
        let mut base = json!({"properties": {"vendor": UNKNOWN, "modelNumber": UNKNOWN, "serialNumber": UNKNOWN}});
        merge(&mut base, read_file(capabilities)?);
        reports.push(report(child, base, host)?);
    }
    Ok(reports)
}

/// Changes whenever one of the files changes.
pub fn fingerprint(config: &AgentConfig) -> Digest {
    let own = config.device.capabilities.iter();
    let files = own.chain(config.child.iter().map(|child| &child.capabilities));
    let contents: Vec<Vec<u8>> = files.map(|path| std::fs::read(path).unwrap_or_default()).collect();
    Digest::of(&contents.join(&b"\n--\n"[..]))
}

fn report(id: DeviceId, mut value: Value, host: Host) -> Result<DeviceReport, FactsError> {
    if let Some(properties) = value.get_mut("properties").and_then(Value::as_object_mut) {
        // The id is the path it is reported under (CAP-05).
        properties.insert("id".to_owned(), Value::String(id.as_str().to_owned()));
    }
    // Independent of the file: without a runtime no hosting fields are reported.
    let taken_away = host.types.is_empty() && remove_hosting_fields(&mut value);
    let text = serde_json::to_vec(&value)
        .map_err(|error| FactsError::Invalid { device: id.clone(), message: error.to_string() })?;
    let read = DeviceCapabilities::read(&text, UnknownTypes::Refuse)
        .map_err(|findings| FactsError::Invalid { device: id.clone(), message: findings.to_string() })?;
    let mut capabilities = read.document;
    // Independent of the file: a simulated runtime must be recognizable. A gateway that hosts nothing simulates nothing.
    if host.simulated && capabilities.properties.hosts_workloads() {
        let (key, announcement) = margrave_core::runtime::simulated_announcement();
        merge(capabilities.extensions.entry(key).or_insert(Value::Null), announcement);
    }
    if taken_away {
        let (key, announcement) = margrave_core::runtime::none_announcement();
        merge(capabilities.extensions.entry(key).or_insert(Value::Null), announcement);
    }
    Ok(DeviceReport { id, json: capabilities.to_json(), capabilities })
}

/// Returns whether there were hosting fields: a relay has none.
fn remove_hosting_fields(capabilities: &mut Value) -> bool {
    let Some(properties) = capabilities.get_mut("properties").and_then(Value::as_object_mut) else { return false };
    // `count` visits all of them.
    HOSTING.iter().filter(|key| properties.remove(**key).is_some()).count() > 0
}

fn read_file(path: &Path) -> Result<Value, FactsError> {
    let problem = |message: String| FactsError::File { path: path.to_owned(), message };
    let size = std::fs::metadata(path).map_err(|error| problem(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(problem(format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    let bytes = std::fs::read(path).map_err(|error| problem(error.to_string()))?;
    if path.extension().is_some_and(|extension| extension == "json") {
        return serde_json::from_slice(&bytes).map_err(|error| problem(error.to_string()));
    }
    let node = margo::yaml::parse(&bytes, Limits::DOCUMENT).map_err(|findings| problem(findings.to_string()))?;
    node.to_value().map_err(|line| problem(format!("line {line} holds a value JSON cannot express")))
}

/// Objects are merged member by member, everything else is replaced, null removes a member.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                if value.is_null() {
                    base.remove(&key);
                } else {
                    merge(base.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (base, over) => *base = over,
    }
}

/// The capabilities that can be discovered on this machine.
fn discover(state_dir: &Path, types: &[&str]) -> Value {
    let mut properties = Map::new();
    let mut put = |key: &str, value: Value| properties.insert(key.to_owned(), value);
    let Hardware { vendor, model, serial } = Hardware::of(Path::new("/"));
    put("vendor", vendor.into());
    put("modelNumber", model.into());
    put("serialNumber", serial.into());
    put("cpus", json!([cpu()]));
    put("memory", format!("{}Mi", memory_bytes() >> 20).into());
    put("storage", format!("{}Mi", storage_bytes(state_dir) >> 20).into());
    put("peripherals", peripherals().into());
    put("interfaces", interfaces().into());
    // CAP-06: a device that hosts workloads has a collector, a runtime and a deployment type.
    put("otelCollector", true.into());
    let custom = types.contains(&crate::runtimes::kubernetes::Manifests::TYPE);
    put("supportedRuntimes", if custom { json!(["oci", "custom"]) } else { json!(["oci"]) });
    put("supportedDeploymentTypes", types.into());
    let mut found = json!({ "properties": properties });
    if custom {
        let (label, version) = MANIFESTS_LABEL;
        found["labels"] = json!({ label: version });
    }
    found
}

fn cpu() -> Value {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let architecture = match std::env::consts::ARCH {
        "x86_64" => Some("amd64"),
        "aarch64" => Some("arm64"),
        "arm" => Some("arm"),
        // The device enum of the standard knows no other (§18 no. 10).
        _ => None,
    };
    match architecture {
        Some(architecture) => json!({"cores": cores, "architecture": architecture}),
        None => json!({"cores": cores}),
    }
}

fn memory_bytes() -> u64 {
    let Ok(mut system) = sysinfo::System::new() else { return 0 };
    system.refresh_memory();
    system.total_memory()
}

fn storage_bytes(state_dir: &Path) -> u64 {
    let existing = state_dir.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    rustix::fs::statvfs(existing).map_or(0, |stat| stat.f_blocks.saturating_mul(stat.f_frsize))
}

fn names_in(folder: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Kinds of hardware workloads may reach; one entry per kind and device.
fn peripherals() -> Vec<Value> {
    let drm = names_in("/sys/class/drm");
    let is_card =
        |name: &&String| name.strip_prefix("card").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    let connected = |name: &&String| {
        std::fs::read_to_string(format!("/sys/class/drm/{name}/status")).is_ok_and(|text| text.trim() == "connected")
    };
    let gpus = drm.iter().filter(is_card).map(|_| "gpu");
    let displays = drm.iter().filter(|name| name.contains('-')).filter(connected).map(|_| "display");
    let cameras = names_in("/sys/class/video4linux").len().min(1);
    let kinds = gpus.chain(displays).chain(std::iter::repeat_n("camera", cameras));
    kinds.map(|kind| json!({ "type": kind })).collect()
}

fn interfaces() -> Vec<Value> {
    let mut kinds: Vec<&str> = names_in("/sys/class/net").iter().filter_map(|name| interface_kind(name)).collect();
    if names_in("/sys/bus/usb/devices").iter().any(|name| name.starts_with("usb")) {
        kinds.push("usb");
    }
    if !names_in("/sys/class/bluetooth").is_empty() {
        kinds.push("bluetooth");
    }
    kinds.iter().map(|kind| json!({ "type": kind })).collect()
}

/// Only hardware interfaces: bridges and tunnels do not count.
fn interface_kind(name: &str) -> Option<&'static str> {
    /// ARPHRD numbers of `/sys/class/net/*/type`.
    const ETHERNET: &str = "1";
    const CAN: &str = "280";
    let folder = PathBuf::from("/sys/class/net").join(name);
    let kind = std::fs::read_to_string(folder.join("type")).ok()?;
    if kind.trim() == CAN {
        return Some("canbus");
    }
    if kind.trim() != ETHERNET || !folder.join("device").exists() {
        return None;
    }
    let is = |marker: &str| folder.join(marker).exists();
    Some(if is("wireless") || is("phy80211") {
        "wifi"
    } else if name.starts_with("ww") {
        "cellular"
    } else {
        "ethernet"
    })
}

#[cfg(test)]
mod tests;
