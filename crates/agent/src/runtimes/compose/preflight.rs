//! Checks before anything is pulled or stopped: names, ports, memory, disk space.

use super::project::{Image, Model, Project};
use super::{Compose, from_socket, names};
use crate::artifacts::images::manifest_for_here;
use crate::machine::io::{ApplyWork, WorkFailure};
use crate::runtimes::engine::{blocked_by_own, failed};
use margrave_oci::Reference;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;

/// An image needs more space on disk than in transfer: layers are compressed.
const UNPACKED_FACTOR: u64 = 3;
/// The engine needs some space for itself.
const RESERVE_BYTES: u64 = 64 << 20;

impl Compose {
    pub(super) async fn preflight(
        &self,
        work: &ApplyWork,
        project: &Project,
        model: &Model,
        images: &[Image],
    ) -> Result<(), WorkFailure> {
        let listed = self.socket.get("/containers/json?all=1").await.map_err(from_socket)?;
        let listed = listed.as_array().map(Vec::as_slice).unwrap_or_default();
        let is_own = |container: &Value| container["Labels"][names::PROJECT] == project.name.as_str();
        let (own, others): (Vec<&Value>, Vec<&Value>) = listed.iter().partition(|container| is_own(container));
        let deployment = work.deployment.to_string();
        let mut problems = Vec::new();
        // Of other components of this deployment.
        let mut of_ours = 0;
        let mut count =
            |other: &Value| of_ours += usize::from(other["Labels"][names::DEPLOYMENT] == deployment.as_str());
        for (service, value) in model.services() {
            if let Some(name) = value["container_name"].as_str()
                && let Some(other) = others.iter().find(|other| has_name(other, name))
            {
                count(other);
                let id = other["Id"].as_str().unwrap_or_default().chars().take(12).collect::<String>();
                problems.push(format!("service `{service}`: a container named `{name}` already exists ({id})"));
            }
            for desired in published(value) {
                let Published { port, protocol, .. } = &desired;
                let is_it = |container: &&&Value| desired.is_held_by(container);
                if let Some(other) = others.iter().find(is_it) {
                    count(other);
                    let name = other["Names"][0].as_str().unwrap_or_default().trim_start_matches('/');
                    problems
                        .push(format!("service `{service}`: port {port}/{protocol} is in use by container `{name}`"));
                } else if !own.iter().any(|container| is_it(&container)) && desired.is_taken() {
                    problems.push(format!("service `{service}`: port {port}/{protocol} of this device is in use"));
                }
            }
        }
        problems.extend(memory(model));
        problems.extend(self.room(images).await?);
        if problems.is_empty() {
            return Ok(());
        }
        let message = format!("rejected before any change: {}", problems.join("; "));
        Err(if of_ours == problems.len() { blocked_by_own(message) } else { failed(message) })
    }

    /// Compares the size of missing images with the free space of the engine. Unknown sizes do not count.
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
        Ok((free < needed)
            .then(|| format!("its images need about {} MiB in `{root}`, {} MiB are free", needed >> 20, free >> 20)))
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

/// A port of this device.
#[derive(Debug, PartialEq, Eq)]
struct Published {
    /// One address of the device; `None` for all.
    address: Option<IpAddr>,
    port: u16,
    protocol: String,
}

impl Published {
    fn is_held_by(&self, container: &Value) -> bool {
        let ports = container["Ports"].as_array().into_iter().flatten();
        ports.into_iter().any(|known| {
            let other = address(&known["IP"]);
            let meet = self.address.is_none() || other.is_none() || self.address == other;
            known["PublicPort"] == self.port && known["Type"] == self.protocol.as_str() && meet
        })
    }

    fn is_taken(&self) -> bool {
        let taken = |error: std::io::Error| error.kind() == std::io::ErrorKind::AddrInUse;
        let place = (self.address.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), self.port);
        match self.protocol.as_str() {
            "udp" => UdpSocket::bind(place).err().is_some_and(taken),
            _ => TcpListener::bind(place).err().is_some_and(taken),
        }
    }
}

/// One address of the device; `None` for all of them.
fn address(value: &Value) -> Option<IpAddr> {
    value.as_str()?.parse().ok().filter(|address: &IpAddr| !address.is_unspecified())
}

/// Ports of this device that a service wants, each one of a range.
fn published(service: &Value) -> Vec<Published> {
    let mut found = Vec::new();
    for item in service["ports"].as_array().into_iter().flatten() {
        let protocol = item["protocol"].as_str().unwrap_or("tcp").to_owned();
        let text = match &item["published"] {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => continue,
        };
        // With a range the engine selects a free port.
        if let Ok(port) = text.parse::<u16>()
            && port != 0
        {
            found.push(Published { address: address(&item["host_ip"]), port, protocol });
        }
    }
    if service["network_mode"] == "host" {
        found.clear();
    }
    found
}

/// Compares the memory that services reserve with the memory of the device.
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

    fn port(address: Option<&str>, port: u16, protocol: &str) -> Published {
        Published { address: address.map(|text| text.parse().unwrap()), port, protocol: protocol.to_owned() }
    }

    #[test]
    fn checks_only_single_device_ports() {
        let service = json!({ "ports": [
            { "published": "8080", "protocol": "tcp" }, { "published": "9000-9010", "protocol": "tcp" },
            { "target": 80 }, { "published": "5353", "protocol": "udp" },
        ]});
        assert_eq!(published(&service), [port(None, 8080, "tcp"), port(None, 5353, "udp")]);
    }

    #[test]
    fn the_same_port_on_two_addresses_is_not_a_conflict() {
        let holder = json!({ "Ports": [{ "IP": "10.0.0.1", "PublicPort": 502, "Type": "tcp" }] });
        assert!(!port(Some("10.0.0.2"), 502, "tcp").is_held_by(&holder));
        assert!(!port(Some("10.0.0.1"), 502, "udp").is_held_by(&holder));
        assert!(port(Some("10.0.0.1"), 502, "tcp").is_held_by(&holder));
        assert!(port(None, 502, "tcp").is_held_by(&holder));
        let everywhere = json!({ "Ports": [{ "IP": "::", "PublicPort": 502, "Type": "tcp" }] });
        assert!(port(Some("10.0.0.2"), 502, "tcp").is_held_by(&everywhere));
        let service = json!({ "ports": [{ "published": "502", "protocol": "tcp", "host_ip": "10.0.0.2" }] });
        assert_eq!(published(&service), [port(Some("10.0.0.2"), 502, "tcp")]);
    }

    #[test]
    fn a_port_with_a_listener_is_in_use() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let number = listener.local_addr().unwrap().port();
        assert!(port(None, number, "tcp").is_taken());
        assert!(port(Some("127.0.0.1"), number, "tcp").is_taken());
        drop(listener);
        assert!(!port(None, number, "tcp").is_taken());
        let _one = TcpListener::bind(("127.0.0.1", number)).unwrap();
        assert!(!port(Some("127.0.0.2"), number, "tcp").is_taken());
    }
}
