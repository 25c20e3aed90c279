//! What would go wrong, told before anything is pulled or stopped: names, ports, memory, room.

use super::project::{Image, Model, Project};
use super::{Compose, from_socket, names};
use crate::artifacts::images::manifest_for_here;
use crate::machine::io::WorkFailure;
use crate::runtimes::engine::failed;
use margrave_oci::Reference;
use serde_json::Value;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;

/// An image takes more room on disk than on its way: layers are packed.
const UNPACKED_FACTOR: u64 = 3;
/// The engine needs some room for itself.
const RESERVE_BYTES: u64 = 64 << 20;

impl Compose {
    pub(super) async fn preflight(
        &self,
        project: &Project,
        model: &Model,
        images: &[Image],
    ) -> Result<(), WorkFailure> {
        let listed = self.socket.get("/containers/json?all=1").await.map_err(from_socket)?;
        let listed = listed.as_array().map(Vec::as_slice).unwrap_or_default();
        let is_own = |container: &Value| container["Labels"][names::PROJECT] == project.name.as_str();
        let (own, others): (Vec<&Value>, Vec<&Value>) = listed.iter().partition(|container| is_own(container));
        let mut problems = Vec::new();
        for (service, value) in model.services() {
            if let Some(name) = value["container_name"].as_str()
                && let Some(other) = others.iter().find(|other| has_name(other, name))
            {
                let id = other["Id"].as_str().unwrap_or_default().chars().take(12).collect::<String>();
                problems.push(format!("service `{service}`: a container named `{name}` is there already ({id})"));
            }
            for (port, protocol) in published(value) {
                let is_it = |container: &&&Value| publishes(container, port, &protocol);
                if let Some(other) = others.iter().find(is_it) {
                    let name = other["Names"][0].as_str().unwrap_or_default().trim_start_matches('/');
                    problems
                        .push(format!("service `{service}`: port {port}/{protocol} is taken by container `{name}`"));
                } else if !own.iter().any(|container| is_it(&container)) && is_taken(port, &protocol) {
                    problems.push(format!("service `{service}`: port {port}/{protocol} of this device is taken"));
                }
            }
        }
        problems.extend(memory(model));
        problems.extend(self.room(images).await?);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(failed(format!("refused before anything was changed: {}", problems.join("; "))))
        }
    }

    /// Images that are not there against the room the engine has. What cannot be told is not held against it.
    async fn room(&self, images: &[Image]) -> Result<Option<String>, WorkFailure> {
        let mut needed = 0_u64;
        for image in images {
            if !self.has_image(image).await? {
                needed = needed.saturating_add(self.packed_bytes(&image.reference).await.unwrap_or(0));
            }
        }
        if needed == 0 {
            return Ok(None);
        }
        let info = self.socket.get("/info").await.map_err(from_socket)?;
        let Some(root) = info["DockerRootDir"].as_str() else { return Ok(None) };
        let Some(free) = free_bytes(Path::new(root)) else { return Ok(None) };
        let needed = needed.saturating_mul(UNPACKED_FACTOR).saturating_add(RESERVE_BYTES);
        Ok((free < needed).then(|| {
            format!("its images need about {} MiB of room in `{root}`, {} MiB are free", needed >> 20, free >> 20)
        }))
    }

    async fn packed_bytes(&self, reference: &Reference) -> Option<u64> {
        let registries = self.artifacts.registries();
        let place = registries.places(reference).into_iter().next()?;
        let mut registry = registries.connect(&place.host).ok()?;
        let manifest = manifest_for_here(&mut registry, &place).await.ok()?;
        Some(manifest.blobs.iter().fold(0, |sum: u64, blob| sum.saturating_add(blob.size)))
    }
}

fn free_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

fn has_name(container: &Value, name: &str) -> bool {
    let names = container["Names"].as_array().into_iter().flatten();
    names.filter_map(Value::as_str).any(|known| known.trim_start_matches('/') == name)
}

/// Ports of this device that a service wants, each one of a range.
fn published(service: &Value) -> Vec<(u16, String)> {
    let mut found = Vec::new();
    for port in service["ports"].as_array().into_iter().flatten() {
        let protocol = port["protocol"].as_str().unwrap_or("tcp").to_owned();
        let text = match &port["published"] {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => continue,
        };
        // A range lets the engine choose a free one.
        if let Ok(port) = text.parse::<u16>()
            && port != 0
        {
            found.push((port, protocol));
        }
    }
    if service["network_mode"] == "host" {
        found.clear();
    }
    found
}

fn publishes(container: &Value, port: u16, protocol: &str) -> bool {
    let ports = container["Ports"].as_array().into_iter().flatten();
    ports.into_iter().any(|known| known["PublicPort"] == port && known["Type"] == protocol)
}

fn is_taken(port: u16, protocol: &str) -> bool {
    let taken = |error: std::io::Error| error.kind() == std::io::ErrorKind::AddrInUse;
    match protocol {
        "udp" => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).err().is_some_and(taken),
        _ => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).err().is_some_and(taken),
    }
}

/// What services reserve against what the device has.
fn memory(model: &Model) -> Option<String> {
    let reserved = model.services().fold(0_u64, |sum, (_, service)| {
        let replicas = service["scale"].as_u64().or_else(|| service["deploy"]["replicas"].as_u64()).unwrap_or(1);
        let bytes = bytes_of(&service["deploy"]["resources"]["reservations"]["memory"])
            .or_else(|| bytes_of(&service["mem_reservation"]))
            .unwrap_or(0);
        sum.saturating_add(bytes.saturating_mul(replicas))
    });
    let total = total_memory()?;
    (reserved > total)
        .then(|| format!("its services reserve {} MiB of memory, the device has {} MiB", reserved >> 20, total >> 20))
}

fn bytes_of(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn total_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_single_ports_of_the_device_are_looked_at() {
        let service = json!({ "ports": [
            { "published": "8080", "protocol": "tcp" }, { "published": "9000-9010", "protocol": "tcp" },
            { "target": 80 }, { "published": "5353", "protocol": "udp" },
        ]});
        assert_eq!(published(&service), [(8080, "tcp".to_owned()), (5353, "udp".to_owned())]);
    }

    #[test]
    fn a_port_somebody_listens_on_is_taken() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_taken(port, "tcp"));
        drop(listener);
        assert!(!is_taken(port, "tcp"));
    }
}
