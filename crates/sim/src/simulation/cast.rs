//! The participants: clients with their devices, and the applications in the catalog.

use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::digest::Digest;
use margo::{ClientId, DeviceId};
use margrave_agent::machine::io::DeviceReport;
use margrave_core::model::ApplicationVersion;
use margrave_core::time::Timestamp;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Large enough for interleavings, small enough for a thousand runs.
const CLIENTS_MAX: usize = 4;

/// One client with its devices, its own first.
pub(crate) struct Member {
    pub(crate) client: ClientId,
    pub(crate) devices: Vec<DeviceReport>,
}

/// A random fleet: always a gateway with children, plus single devices of either kind.
pub(crate) fn fleet(rng: &mut StdRng) -> Vec<Member> {
    let count = rng.random_range(2..=CLIENTS_MAX);
    (0..count)
        .map(|index| {
            let name = format!("client-{index}");
            let devices = match index {
                0 => gateway(rng.random_range(1..=2)),
                1 => vec![device("press", Some("compose"))],
                _ if rng.random_bool(0.5) => vec![device("robot", Some("helm"))],
                _ => vec![device("scale", Some("compose"))],
            };
            Member { client: name.parse().expect("letters, digits and dashes"), devices }
        })
        .collect()
}

/// A see-thru gateway that hosts nothing itself (CAP-06, GW-02).
fn gateway(children: usize) -> Vec<DeviceReport> {
    let child = |index| device(&format!("gw/child-{index}"), Some("compose"));
    std::iter::once(device("gw", None)).chain((0..children).map(child)).collect()
}

pub(crate) fn device(id: &str, hosts: Option<&str>) -> DeviceReport {
    let json = capabilities(id, hosts).to_string().into_bytes();
    let read = DeviceCapabilities::read(&json, UnknownTypes::Refuse)
        .unwrap_or_else(|findings| panic!("the simulated capabilities are valid: {findings}"));
    let id: DeviceId = id.parse().expect("letters, dashes and slashes");
    DeviceReport { id, json, capabilities: read.document }
}

/// Capabilities of generation B.
pub fn capabilities(id: &str, hosts: Option<&str>) -> Value {
    let mut properties = json!({
        "id": id, "vendor": "Margrave Simulation", "modelNumber": "S1", "serialNumber": id.replace('/', "-"),
    });
    if let Some(kind) = hosts {
        let hosting = json!({
            "cpus": [{ "cores": 4, "architecture": "amd64" }],
            "memory": "8Gi", "storage": "64Gi", "peripherals": [], "interfaces": [{ "type": "ethernet" }],
            "otelCollector": true, "supportedRuntimes": ["oci"], "supportedDeploymentTypes": [kind],
        });
        let members = properties.as_object_mut().expect("an object was just created");
        members.extend(hosting.as_object().expect("an object was just created").clone());
    }
    json!({ "properties": properties, "labels": { "sim.example/kind": hosts.unwrap_or("gateway") } })
}

/// One application version in the catalog.
pub(crate) struct CatalogEntry {
    pub(crate) version: ApplicationVersion,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn catalog() -> Vec<CatalogEntry> {
    [("alpha", "1.0.0", 2), ("alpha", "1.1.0", 3), ("beta", "1.0.0", 1), ("beta", "2.0.0", 1)]
        .into_iter()
        .map(|(application, version, components)| {
            let bytes = description(application, version, components).into_bytes();
            let digest = Digest::of(&bytes);
            let version = ApplicationVersion {
                application: application.parse().expect("letters"),
                version: version.to_owned(),
                name: application.to_owned(),
                tagline: None,
                vendor: "Margrave Simulation".to_owned(),
                package_digest: Digest::of(format!("{application} {version}").as_bytes()),
                description_digest: digest,
                source: "simulation".to_owned(),
                resources: Vec::new(),
                warnings: Vec::new(),
                imported_at: Timestamp(0),
            };
            CatalogEntry { version, bytes }
        })
        .collect()
}

/// A description with a Compose and a Helm profile; later versions may have more components.
pub fn description(application: &str, version: &str, components: usize) -> String {
    let list = |kind: &str| {
        let mut text = String::new();
        for index in 0..components {
            let _ = write!(
                text,
                "      - name: {application}-{kind}-{index}\n        properties:\n          \
                 repository: oci://registry.example/{application}/{kind}-{index}\n          \
                 revision: {version}\n          timeout: 1m0s\n"
            );
        }
        text
    };
    format!(
        "apiVersion: v1\nid: {application}\nmetadata:\n  name: {application}\n  version: \"{version}\"\n  catalog:\n    \
         organization:\n      - name: Margrave Simulation\ndeploymentProfiles:\n  \
         - type: compose\n    id: {application}-compose\n    components:\n{}  \
         - type: helm\n    id: {application}-helm\n    components:\n{}\
         parameters:\n  mode:\n    value: plain\n    targets:\n      - pointer: MODE\n        \
         components: [\"{application}-compose-0\"]\n      - pointer: mode\n        \
         components: [\"{application}-helm-0\"]\n\
         configuration:\n  sections:\n    - name: General\n      settings:\n        - parameter: mode\n          \
         name: Mode\n          schema: mode\n  schema:\n    - name: mode\n      dataType: string\n      \
         allowEmpty: false\n      maxLength: 20\n",
        list("compose"),
        list("helm"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use margo::description::ApplicationDescription;

    #[test]
    fn every_description_of_the_catalog_is_valid() {
        for shipped in catalog() {
            let read = ApplicationDescription::read(&shipped.bytes).unwrap_or_else(|findings| panic!("{findings}"));
            assert_eq!(read.document.metadata.version, shipped.version.version);
            assert_eq!(read.document.deployment_profiles.len(), 2);
        }
    }
}
