//! Reading DeviceCapabilities (CAP-04 to CAP-10, W-16 to W-18).

use super::{Cpu, DeviceCapabilities, DeviceProperties, Interface, Peripheral, UnknownTypes};
use crate::constraints::read::architecture;
use crate::reader::{Cursor, Object, shown};
use crate::tree::Tree;
use indexmap::IndexMap;
use serde_json::Value;

const KINDS: [&str; 2] = ["DeviceCapabilitiesManifest", "DeviceCapabilities"];
/// The last two are missing from the enumeration for devices although constraints may name them (§18 no. 10).
const ARCHITECTURES: [&str; 5] = ["amd64", "arm64", "arm", "riscv64", "other"];
const PERIPHERALS: [&str; 5] = ["gpu", "display", "camera", "microphone", "speaker"];
const INTERFACES: [&str; 7] = ["ethernet", "wifi", "cellular", "bluetooth", "usb", "canbus", "rs232"];
const RUNTIMES: [&str; 2] = ["oci", "custom"];
const DEPLOYMENT_TYPES: [&str; 3] = ["helm", "compose", "custom"];

pub(super) fn capabilities(root: &Cursor<'_>, unknown_types: UnknownTypes) -> Option<DeviceCapabilities> {
    let object = root.object()?;
    envelope(&object);
    let properties_cursor = object.required("properties");
    let properties = properties_cursor.as_ref().and_then(|cursor| properties(cursor, unknown_types));
    let labels = match object.get("labels") {
        Some(cursor) => labels(&cursor),
        None => Some(IndexMap::new()),
    };
    let extensions = object.extensions();
    for cursor in object.unread() {
        if cursor.path().starts_with("x-") {
            // CAP-09: an extension never causes a failure, not even one whose name is wrong.
            cursor.warning("is ignored: extension names have the form x-<name>-extensions, in lower case");
        } else {
            cursor.error("is not allowed here; only `properties`, `labels` and extensions are");
        }
    }
    let (properties, raw_properties) = properties?;
    Some(DeviceCapabilities { properties, labels: labels?, extensions, raw_properties })
}

/// Generation B has no envelope, but peers still send it (W-16).
fn envelope(object: &Object<'_>) {
    if let Some(cursor) = object.get("apiVersion")
        && cursor.text().is_some()
    {
        cursor.warning("is no longer part of this document; remove it");
    }
    if let Some(cursor) = object.get("kind") {
        match cursor.text() {
            Some(text) if KINDS.contains(&text.as_str()) => {
                cursor.warning("is no longer part of this document; remove it");
            }
            Some(text) => cursor.error(format!("is `{}`, but this must be a {}", shown(&text), KINDS[0])),
            None => {}
        }
    }
}

fn properties(cursor: &Cursor<'_>, unknown_types: UnknownTypes) -> Option<(DeviceProperties, Value)> {
    let object = cursor.object()?;
    let id = object.required("id").and_then(|cursor| cursor.parse());
    let vendor = object.required_text("vendor");
    let model_number = object.required_text("modelNumber");
    let serial_number = object.required_text("serialNumber");
    let roles = object.optional("roles", |cursor| {
        cursor.warning("is from an older preview; write `supportedDeploymentTypes`");
        cursor.list_of(Cursor::text)
    });
    let resources = object.optional("resources", |cursor| {
        cursor.warning("is from an older preview; write its members into `properties`");
        cursor.object()
    });
    // A1 has the hosting fields in `resources`.
    let hosting = Hosting::read(resources.as_ref().unwrap_or(&object));
    if let Some(resources) = &resources {
        resources.warn_unread();
    }
    let otel_collector = object.optional("otelCollector", Cursor::boolean);
    let types = object.optional("supportedDeploymentTypes", |cursor| types(cursor, &DEPLOYMENT_TYPES, unknown_types));
    let runtimes = object.optional("supportedRuntimes", |cursor| types_of_runtimes(cursor, unknown_types));
    object.warn_unread();
    let older = roles.is_some() || resources.is_some();
    let properties = DeviceProperties {
        id: id?,
        vendor: vendor?,
        model_number: model_number?,
        serial_number: serial_number?,
        cpus: hosting.cpus,
        memory: hosting.memory,
        storage: hosting.storage,
        peripherals: hosting.peripherals,
        interfaces: hosting.interfaces,
        otel_collector,
        supported_runtimes: runtimes.or_else(|| roles.as_deref().and_then(runtimes_of_roles)),
        supported_deployment_types: types.or_else(|| roles.as_deref().and_then(deployment_types_of_roles)),
    };
    check_hosting_fields(cursor, &properties, older);
    let raw = if older || hosting.mapped {
        // Selectors point into the form of generation B, so they get that form.
        merged(cursor.value()?, &super::write::properties(&properties))
    } else {
        cursor.value()?
    };
    Some((properties, raw))
}

fn merged(sent: Value, written: &Tree) -> Value {
    let (Value::Object(mut sent), Value::Object(written)) = (sent, written.to_value()) else { return Value::Null };
    for older in ["roles", "resources", "cpu"] {
        sent.remove(older);
    }
    sent.extend(written);
    Value::Object(sent)
}

struct Hosting {
    cpus: Option<Vec<Cpu>>,
    memory: Option<String>,
    storage: Option<String>,
    peripherals: Option<Vec<Peripheral>>,
    interfaces: Option<Vec<Interface>>,
    /// Whether something was read in another form than it was sent.
    mapped: bool,
}

impl Hosting {
    fn read(object: &Object<'_>) -> Self {
        let older = object.get("cpu");
        let cpus = match (object.get("cpus"), &older) {
            (Some(cursor), _) => cursor.list_of(cpu),
            (None, Some(cursor)) => {
                cursor.warning("is from an older preview; write the list `cpus`");
                match cursor.node().kind {
                    crate::node::Kind::Mapping(_) => cpu(cursor).map(|cpu| vec![cpu]),
                    _ => cursor.list_of(cpu),
                }
            }
            (None, None) => None,
        };
        let mapped = older.is_some() || cpus.iter().flatten().any(|(_, mapped)| *mapped);
        Self {
            cpus: cpus.map(|cpus| cpus.into_iter().map(|(cpu, _)| cpu).collect()),
            memory: object.text("memory"),
            storage: object.text("storage"),
            peripherals: object.optional("peripherals", |cursor| cursor.list_of(peripheral)),
            interfaces: object.optional("interfaces", |cursor| cursor.list_of(interface)),
            mapped,
        }
    }
}

/// The CPU and whether its architecture was mapped to the standard's name.
fn cpu(cursor: &Cursor<'_>) -> Option<(Cpu, bool)> {
    let object = cursor.object()?;
    let cores = object.required("cores").and_then(|cursor| {
        let cores = cursor.float()?;
        if cores < 0.0 {
            cursor.error("must not be negative");
        }
        Some(cores)
    });
    let sent = object.get("architecture");
    let architecture = sent.as_ref().and_then(|cursor| architecture(cursor, &ARCHITECTURES));
    let mapped = sent.is_some_and(|cursor| architecture.is_some() && cursor.text() != architecture);
    object.warn_unread();
    Some((Cpu { cores: cores?, architecture }, mapped))
}

fn peripheral(cursor: &Cursor<'_>) -> Option<Peripheral> {
    let object = cursor.object()?;
    let kind = object.required("type").and_then(|cursor| one_of(&cursor, &PERIPHERALS));
    let manufacturer = object.text("manufacturer");
    let model = object.text("model");
    object.warn_unread();
    Some(Peripheral { kind: kind?, manufacturer, model })
}

fn interface(cursor: &Cursor<'_>) -> Option<Interface> {
    let object = cursor.object()?;
    let kind = object.required("type").and_then(|cursor| one_of(&cursor, &INTERFACES));
    object.warn_unread();
    Some(Interface { kind: kind? })
}

fn one_of(cursor: &Cursor<'_>, known: &[&str]) -> Option<String> {
    let text = cursor.text()?;
    if !known.contains(&text.as_str()) {
        cursor.error(format!("`{}` is not allowed; it must be one of {}", shown(&text), known.join(", ")));
        return None;
    }
    Some(text)
}

fn types_of_runtimes(cursor: &Cursor<'_>, unknown_types: UnknownTypes) -> Option<Vec<String>> {
    types(cursor, &RUNTIMES, unknown_types)
}

/// At least one; a value that the standard does not list is rejected or counts as `custom` (CAP-07).
fn types(cursor: &Cursor<'_>, known: &[&str], unknown_types: UnknownTypes) -> Option<Vec<String>> {
    let mut types = cursor.list_of(|cursor| match unknown_types {
        UnknownTypes::Refuse => one_of(cursor, known),
        UnknownTypes::Custom => {
            let text = cursor.text()?;
            if known.contains(&text.as_str()) {
                return Some(text);
            }
            cursor.warning(format!("`{}` is not listed by the standard and counts as `custom`", shown(&text)));
            Some("custom".to_owned())
        }
    })?;
    if types.is_empty() {
        cursor.error(format!("must name at least one of {}", known.join(", ")));
    }
    let mut seen = std::collections::HashSet::new();
    types.retain(|name| seen.insert(name.clone()));
    Some(types)
}

/// Roles in generation A correspond to the deployment types in B (DEV-04).
fn deployment_types_of_roles(roles: &[String]) -> Option<Vec<String>> {
    let mut types: Vec<String> = roles
        .iter()
        .filter_map(|role| match role.to_lowercase().as_str() {
            "standalone cluster" | "cluster leader" => Some("helm".to_owned()),
            "standalone device" => Some("compose".to_owned()),
            _ => None,
        })
        .collect();
    types.sort();
    types.dedup();
    (!types.is_empty()).then_some(types)
}

fn runtimes_of_roles(roles: &[String]) -> Option<Vec<String>> {
    deployment_types_of_roles(roles).map(|_| vec!["oci".to_owned()])
}

/// CAP-06 binds the client; the report is accepted with a warning (W-18).
fn check_hosting_fields(cursor: &Cursor<'_>, properties: &DeviceProperties, older: bool) {
    let fields = [
        ("cpus", properties.cpus.is_some()),
        ("memory", properties.memory.is_some()),
        ("storage", properties.storage.is_some()),
        ("peripherals", properties.peripherals.is_some()),
        ("interfaces", properties.interfaces.is_some()),
        ("otelCollector", properties.otel_collector.is_some()),
        ("supportedRuntimes", properties.supported_runtimes.is_some()),
        ("supportedDeploymentTypes", properties.supported_deployment_types.is_some()),
    ];
    let missing: Vec<_> = fields.iter().filter(|(_, present)| !present).map(|(name, _)| *name).collect();
    if !older && !missing.is_empty() && missing.len() < fields.len() {
        cursor.warning(format!("a device that hosts workloads should also report {}", missing.join(", ")));
    }
    if properties.otel_collector == Some(false) {
        cursor.warning("`otelCollector` is false, but a device that hosts workloads must have a collector");
    }
}

/// Values are text, numbers, booleans, or lists of texts or of numbers (CAP-08).
fn labels(cursor: &Cursor<'_>) -> Option<IndexMap<String, Value>> {
    let read: Vec<_> = cursor
        .entries()?
        .into_iter()
        .map(|(key, cursor)| {
            let value = cursor.value()?;
            let valid = match &value {
                Value::String(_) | Value::Number(_) | Value::Bool(_) => true,
                Value::Array(items) => items.iter().all(Value::is_string) || items.iter().all(Value::is_number),
                _ => false,
            };
            if !valid {
                cursor.error("must be text, a number, true, false, or a list of texts or of numbers");
            }
            valid.then(|| (key.to_owned(), value))
        })
        .collect();
    read.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_become_deployment_types() {
        // DEV-04
        let roles = ["Standalone Device", "standalone cluster", "Cluster Leader", "Gateway"].map(str::to_owned);
        assert_eq!(deployment_types_of_roles(&roles).unwrap(), ["compose", "helm"]);
        assert_eq!(deployment_types_of_roles(&["Gateway".to_owned()]), None);
    }
}
