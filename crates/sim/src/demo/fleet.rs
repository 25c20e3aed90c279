//! The devices of the demo: different kinds, the same at every start.

use serde_json::{Value, json};

/// The smallest fleet with every kind.
pub const CLIENTS_MIN: usize = 8;
/// Each simulated device has its own connection and files.
pub const CLIENTS_MAX: usize = 500;

const SITES: [&str; 3] = ["graz", "linz", "brno"];

/// A demo client with its reports.
#[derive(Debug, Clone, PartialEq)]
pub struct DemoClient {
    /// Also the device id.
    pub id: String,
    pub capabilities: Value,
    /// Children of a gateway: the id without the gateway's prefix, and their capabilities.
    pub children: Vec<(String, Value)>,
    /// Operator labels of the device and its children.
    pub labels: Vec<(&'static str, String)>,
    /// The TOML script of its simulated runtime.
    pub behavior: String,
    /// Whether it runs. One device reports once and stays offline.
    pub online: bool,
}

#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    model: &'static str,
    architecture: &'static str,
    cores: f64,
    memory: &'static str,
    storage: &'static str,
    deployment_types: &'static [&'static str],
    interfaces: &'static [&'static str],
    zone: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "press",
        model: "Box PC 427",
        architecture: "amd64",
        cores: 4.0,
        memory: "8Gi",
        storage: "64Gi",
        deployment_types: &["compose"],
        interfaces: &["ethernet"],
        zone: "pressing",
    },
    Kind {
        name: "packer",
        model: "Panel 12",
        architecture: "arm64",
        cores: 4.0,
        memory: "4Gi",
        storage: "32Gi",
        deployment_types: &["helm"],
        interfaces: &["ethernet", "usb", "rs232"],
        zone: "packaging",
    },
    Kind {
        name: "robot",
        model: "Rack 9",
        architecture: "amd64",
        cores: 16.0,
        memory: "32Gi",
        storage: "512Gi",
        deployment_types: &["helm", "custom"],
        interfaces: &["ethernet", "canbus"],
        zone: "assembly",
    },
    Kind {
        name: "pump",
        model: "Rail 3",
        architecture: "arm64",
        cores: 4.0,
        memory: "4Gi",
        storage: "16Gi",
        deployment_types: &["compose"],
        interfaces: &["ethernet", "wifi"],
        zone: "utilities",
    },
];

const TINY: Kind = Kind {
    name: "tiny",
    model: "Rail 1",
    architecture: "arm64",
    cores: 1.0,
    memory: "128Mi",
    storage: "512Mi",
    deployment_types: &["compose"],
    interfaces: &["ethernet"],
    zone: "utilities",
};

/// Delays, so that progress is visible.
const UNHURRIED: &str = "delay = \"1500ms\"\nremove_delay = \"1s\"\n";
/// The second component of an application always fails.
const FAILING: &str = "delay = \"1s\"\n\n[[rule]]\ncomponent = \"analyser\"\nfail = \"always\"\n\
                       message = \"the sensor board does not answer\"\n";

/// A fleet of `count` clients, clamped to the limits.
pub fn fleet(count: usize) -> Vec<DemoClient> {
    let count = count.clamp(CLIENTS_MIN, CLIENTS_MAX);
    let mut clients = vec![gateway(), tiny(), offline(), failing()];
    for index in 0..count - clients.len() {
        let kind = KINDS[index % KINDS.len()];
        let number = index / KINDS.len() + 1;
        let id = format!("{}-{number:02}", kind.name);
        clients.push(DemoClient {
            capabilities: capabilities(kind, &id, index),
            id,
            children: Vec::new(),
            labels: labels(number - 1, number),
            behavior: UNHURRIED.to_owned(),
            online: true,
        });
    }
    clients
}

/// A see-thru gateway that hosts nothing itself (GW-01, CAP-06), with three children.
fn gateway() -> DemoClient {
    let children = (1..=3)
        .map(|number| {
            let name = format!("cell-{number}");
            let kind = if number == 3 { KINDS[1] } else { KINDS[3] };
            let capabilities = capabilities(kind, &format!("gateway-01/{name}"), 900 + number);
            (name, capabilities)
        })
        .collect();
    DemoClient {
        id: "gateway-01".to_owned(),
        capabilities: json!({
            "properties": {
                "id": "gateway-01",
                "vendor": "Example Edge Works",
                "modelNumber": "Gate 2",
                "serialNumber": "GW-0001",
            },
            "labels": { "plant.example/zone": "assembly" },
        }),
        children,
        labels: labels(0, 9),
        behavior: UNHURRIED.to_owned(),
        online: true,
    }
}

fn tiny() -> DemoClient {
    DemoClient {
        id: "tiny-01".to_owned(),
        capabilities: capabilities(TINY, "tiny-01", 901),
        children: Vec::new(),
        labels: labels(0, 1),
        behavior: UNHURRIED.to_owned(),
        online: true,
    }
}

fn offline() -> DemoClient {
    DemoClient {
        id: "offline-01".to_owned(),
        capabilities: capabilities(KINDS[0], "offline-01", 902),
        children: Vec::new(),
        labels: labels(2, 2),
        behavior: UNHURRIED.to_owned(),
        online: false,
    }
}

fn failing() -> DemoClient {
    DemoClient {
        id: "flaky-01".to_owned(),
        capabilities: capabilities(KINDS[0], "flaky-01", 903),
        children: Vec::new(),
        labels: labels(1, 3),
        behavior: FAILING.to_owned(),
        online: true,
    }
}

fn labels(site: usize, line: usize) -> Vec<(&'static str, String)> {
    vec![("site", SITES[site % SITES.len()].to_owned()), ("line", line.to_string())]
}

fn capabilities(kind: Kind, id: &str, serial: usize) -> Value {
    let interfaces: Vec<_> = kind.interfaces.iter().map(|name| json!({ "type": name })).collect();
    let mut labels = json!({ "plant.example/zone": kind.zone });
    let mut runtimes = vec!["oci"];
    if kind.deployment_types.contains(&"custom") {
        // Like an agent on Kubernetes that runs plain manifests.
        runtimes.push("custom");
        labels["org.margrave/manifests"] = json!("v1");
    }
    json!({
        "properties": {
            "id": id,
            "vendor": "Example Edge Works",
            "modelNumber": kind.model,
            "serialNumber": format!("EEW-{serial:05}"),
            "cpus": [{ "cores": kind.cores, "architecture": kind.architecture }],
            "memory": kind.memory,
            "storage": kind.storage,
            "peripherals": [],
            "interfaces": interfaces,
            "otelCollector": true,
            "supportedRuntimes": runtimes,
            "supportedDeploymentTypes": kind.deployment_types,
        },
        "labels": labels,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use margo::capabilities::{DeviceCapabilities, UnknownTypes};
    use std::collections::BTreeSet;

    #[test]
    fn every_demo_device_reports_valid_capabilities() {
        for client in fleet(36) {
            let children = client.children.iter().map(|(_, capabilities)| capabilities);
            for capabilities in std::iter::once(&client.capabilities).chain(children) {
                let read = DeviceCapabilities::read(capabilities.to_string().as_bytes(), UnknownTypes::Refuse)
                    .unwrap_or_else(|findings| panic!("{}: {findings}", client.id));
                assert!(read.warnings.is_empty(), "{}: {:?}", client.id, read.warnings);
            }
        }
    }

    #[test]
    fn the_smallest_fleet_has_every_kind() {
        let clients = fleet(0);
        assert_eq!(clients.len(), CLIENTS_MIN);
        assert!(clients.iter().any(|client| client.children.len() == 3));
        assert_eq!(clients.iter().filter(|client| !client.online).count(), 1);
        assert!(clients.iter().any(|client| client.behavior.contains("always")));
        let types: BTreeSet<_> = clients
            .iter()
            .filter_map(|client| client.capabilities.pointer("/properties/supportedDeploymentTypes")?.as_array())
            .flatten()
            .filter_map(serde_json::Value::as_str)
            .collect();
        assert_eq!(types, BTreeSet::from(["compose", "custom", "helm"]));
        let architectures: BTreeSet<_> = clients
            .iter()
            .filter_map(|client| client.capabilities.pointer("/properties/cpus/0/architecture")?.as_str())
            .collect();
        assert_eq!(architectures, BTreeSet::from(["amd64", "arm64"]));
    }

    #[test]
    fn no_two_clients_share_a_name() {
        let clients = fleet(100);
        let names: BTreeSet<_> = clients.iter().map(|client| &client.id).collect();
        assert_eq!(names.len(), clients.len());
    }

    #[test]
    fn the_simulated_runtime_parses_every_device_script() {
        for client in fleet(CLIENTS_MIN) {
            toml::from_str::<margrave_agent::runtimes::simulated::script::Script>(&client.behavior).unwrap();
        }
    }
}
