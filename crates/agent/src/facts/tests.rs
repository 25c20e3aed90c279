use super::*;
use crate::config::DeviceConfig;

fn config(folder: &Path, file: Option<(&str, &str)>) -> AgentConfig {
    let capabilities = file.map(|(name, text)| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name)
    });
    let device = DeviceConfig { id: None, capabilities, discover: true };
    AgentConfig { state_dir: folder.to_owned(), device, ..AgentConfig::default() }
}

const COMPOSE: Host = Host { types: &["compose"], simulated: false };

fn own() -> DeviceId {
    "press-07".parse().unwrap()
}

#[test]
fn discovers_a_complete_report_of_a_hosting_device() {
    // CAP-01, CAP-06, CAP-10
    let folder = tempfile::tempdir().unwrap();
    let reports = reports(&config(folder.path(), None), &own(), COMPOSE, None).unwrap();
    let properties = &reports[0].capabilities.properties;
    assert_eq!(properties.id, own());
    assert!(properties.hosts_workloads() && properties.otel_collector == Some(true));
    assert!(properties.cpus.as_ref().unwrap()[0].cores >= 1.0);
    assert!(margo::quantity::parse_bytes(properties.memory.as_ref().unwrap()).unwrap() > 1 << 20);
    assert!(margo::quantity::parse_bytes(properties.storage.as_ref().unwrap()).unwrap() > 1 << 20);
}

#[test]
fn reports_manifest_support_in_both_lists_and_a_label() {
    // CR-01
    let folder = tempfile::tempdir().unwrap();
    let reports =
        reports(&config(folder.path(), None), &own(), Host { types: &["helm", "custom"], ..COMPOSE }, None).unwrap();
    let capabilities = &reports[0].capabilities;
    let list = |types: &Option<Vec<String>>| types.clone().unwrap_or_default().join(" ");
    assert_eq!(list(&capabilities.properties.supported_deployment_types), "helm custom");
    assert_eq!(list(&capabilities.properties.supported_runtimes), "oci custom");
    assert_eq!(capabilities.labels["org.margrave/manifests"], "v1");
}

#[test]
fn merges_a_json_or_yaml_file_over_discovered_capabilities() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "properties:\n  memory: 2Gi\n  vendor: Northstar\n  id: ignored\nlabels:\n  site: berlin\n";
    let json = "{\"properties\":{\"memory\":\"2Gi\",\"vendor\":\"Northstar\"},\"labels\":{\"site\":\"berlin\"}}";
    for file in [("c.yaml", yaml), ("c.json", json)] {
        let reports = reports(&config(folder.path(), Some(file)), &own(), COMPOSE, None).unwrap();
        let capabilities = &reports[0].capabilities;
        assert_eq!(capabilities.properties.memory.as_deref(), Some("2Gi"));
        assert_eq!(capabilities.properties.vendor, "Northstar");
        assert_eq!(capabilities.properties.id, own());
        assert_eq!(capabilities.labels["site"], "berlin");
        assert!(capabilities.properties.cpus.is_some(), "fields that are not in the file stay");
    }
}

#[test]
fn a_relay_gateway_removes_hosting_fields_with_null() {
    // CAP-06
    let folder = tempfile::tempdir().unwrap();
    let keys = [
        "cpus",
        "memory",
        "storage",
        "peripherals",
        "interfaces",
        "otelCollector",
        "supportedRuntimes",
        "supportedDeploymentTypes",
    ];
    let text = keys.iter().fold("properties:\n".to_owned(), |text, key| format!("{text}  {key}: null\n"));
    let reports = reports(&config(folder.path(), Some(("c.yaml", &text))), &own(), COMPOSE, None).unwrap();
    assert!(!reports[0].capabilities.properties.hosts_workloads());
}

#[test]
fn children_come_after_their_gateway_with_their_full_id() {
    // GW-02, CAP-04
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("child.yaml");
    std::fs::write(&path, "properties:\n  serialNumber: 7\n").unwrap();
    let mut config = config(folder.path(), None);
    config.child = vec![ChildConfig { id: "plc-1".parse().unwrap(), capabilities: path.clone() }];
    std::fs::write(&path, "properties:\n  serialNumber: \"7\"\n").unwrap();
    let before = fingerprint(&config);
    let reports = reports(&config, &own(), COMPOSE, None).unwrap();
    assert_eq!(reports[1].id.as_str(), "press-07/plc-1");
    assert_eq!(reports[1].capabilities.properties.id, reports[1].id);
    std::fs::write(&path, "properties:\n  serialNumber: \"8\"\n").unwrap();
    assert_ne!(fingerprint(&config), before, "a changed file is noticed");
}

#[test]
fn reports_a_simulated_runtime_with_every_hosting_device() {
    let folder = tempfile::tempdir().unwrap();
    let child = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        ChildConfig { id: name.parse().unwrap(), capabilities: path }
    };
    // A file may claim another runtime, and contain other extensions.
    let file = "x-margrave-extensions:\n  runtime: compose\n  note: kept\n";
    let mut config = config(folder.path(), Some(("c.yaml", file)));
    config.child = vec![child("relay", "properties:\n  serialNumber: \"7\"\n")];
    let simulated = Host { simulated: true, ..COMPOSE };
    let reports = |host| {
        let made = super::reports(&config, &own(), host, None).unwrap();
        let read =
            |one: &DeviceReport| serde_json::from_slice::<Value>(&one.json).unwrap()["x-margrave-extensions"].clone();
        made.iter().map(read).collect::<Vec<_>>()
    };
    assert_eq!(reports(simulated), [json!({"runtime": "simulated", "note": "kept"}), Value::Null]);
    assert_eq!(reports(COMPOSE), [json!({"runtime": "compose", "note": "kept"}), Value::Null]);
    let hosting = std::fs::read(folder.path().join("relay")).unwrap();
    let hosts = "  cpus: [{cores: 1}]\n  memory: 1Gi\n  storage: 1Gi\n  peripherals: []\n  interfaces: []\n  \
                 otelCollector: true\n  supportedRuntimes: [oci]\n  supportedDeploymentTypes: [compose]\n";
    std::fs::write(folder.path().join("relay"), [&hosting[..], hosts.as_bytes()].concat()).unwrap();
    assert_eq!(
        reports(simulated)[1],
        json!({"runtime": "simulated"}),
        "the runtime of the gateway is that of its children"
    );
}

#[test]
fn reports_no_hosting_fields_without_a_runtime() {
    // CAP-06
    let folder = tempfile::tempdir().unwrap();
    let child = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        ChildConfig { id: name.parse().unwrap(), capabilities: path }
    };
    let file = "properties:\n  vendor: Northstar\n  memory: 2Gi\n  supportedDeploymentTypes: [compose]\nlabels:\n  site: berlin\n";
    let mut config = config(folder.path(), Some(("c.yaml", file)));
    config.child = vec![
        child("relay", "properties:\n  serialNumber: \"7\"\n"),
        child("box", "properties:\n  supportedDeploymentTypes: [compose]\n"),
    ];
    let made = reports(&config, &own(), Host { types: &[], simulated: false }, None).unwrap();
    for (report, announced) in made.iter().zip([true, false, true]) {
        let json: Value = serde_json::from_slice(&report.json).unwrap();
        let keys: Vec<_> = json["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["id", "modelNumber", "serialNumber", "vendor"], "{json}");
        assert_eq!(margrave_core::runtime::has_none(&report.capabilities), announced, "{json}");
    }
    assert_eq!(made[0].capabilities.labels["site"], "berlin");
    assert_eq!(made[0].capabilities.properties.vendor, "Northstar");
}

#[test]
fn reports_hold_and_runtime_together() {
    let folder = tempfile::tempdir().unwrap();
    let hold = Hold { reason: "fan".to_owned(), until: margrave_core::time::Timestamp(0) };
    let simulated = Host { simulated: true, ..COMPOSE };
    let made = reports(&config(folder.path(), None), &own(), simulated, Some(&hold)).unwrap();
    let capabilities = &made[0].capabilities;
    assert!(margrave_core::runtime::is_simulated(capabilities));
    assert!(margrave_core::hold::announced(capabilities).is_some());
}

#[test]
fn names_an_unusable_file() {
    let folder = tempfile::tempdir().unwrap();
    for file in
        [("c.yaml", "properties: ["), ("c.json", "nope"), ("d.yaml", "properties:\n  supportedRuntimes: [wasm]\n")]
    {
        let error = reports(&config(folder.path(), Some(file)), &own(), COMPOSE, None).unwrap_err().to_string();
        assert!(error.contains(file.0) || error.contains("supportedRuntimes"), "{error}");
    }
}
