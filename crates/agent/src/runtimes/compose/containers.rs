//! The containers of a project: their state, and manual changes.

use super::names;
use super::socket::{SocketError, labeled};
use super::{Compose, socket};
use crate::disk::{DiskError, read_record, write_record};
use crate::machine::io::Run;
use margo::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

const APPLIED: &str = "applied.json";
/// Relevant container events: start, stop, manual changes, health.
const RELEVANT_EVENTS: [&str; 9] =
    ["start", "die", "destroy", "pause", "unpause", "update", "rename", "oom", "health_status"];
/// Settings that `docker update` and `docker run` change. A fixed list: new settings of a newer engine must not cause
/// restarts.
const SETTINGS: [&str; 24] = [
    "Memory",
    "MemorySwap",
    "MemoryReservation",
    "NanoCpus",
    "CpuShares",
    "CpuQuota",
    "CpuPeriod",
    "CpusetCpus",
    "PidsLimit",
    "BlkioWeight",
    "OomKillDisable",
    "RestartPolicy",
    "PortBindings",
    "NetworkMode",
    "Privileged",
    "CapAdd",
    "CapDrop",
    "Devices",
    "Ulimits",
    "ReadonlyRootfs",
    "ExtraHosts",
    "Dns",
    "SecurityOpt",
    "Sysctls",
];
/// The longest log line that is returned.
const LINE_CHARS_MAX: usize = 2_000;

/// The relevant properties of a container.
#[derive(Debug, Clone)]
pub(super) struct Container {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) service: String,
    pub(super) number: String,
    /// `running`, `exited`, `paused`, `restarting`, `created`, `dead`.
    pub(super) status: String,
    pub(super) exit_code: i64,
    /// How often the engine has restarted it, and when it was last started.
    pub(super) restarts: u64,
    pub(super) started_at: String,
    /// `starting`, `healthy`, `unhealthy`; `None` without a health check.
    pub(super) health: Option<String>,
    /// The last output of the health check.
    pub(super) probe: Option<String>,
    terminal: bool,
    /// `restart: on-failure`: it may exit with success at any time.
    may_end: bool,
    /// Digests of its settings.
    parts: BTreeMap<String, String>,
}

impl Container {
    pub(super) fn of(inspected: &Value) -> Option<Self> {
        let labels = &inspected["Config"]["Labels"];
        let label = |name: &str| labels[name].as_str().unwrap_or_default().to_owned();
        let state = &inspected["State"];
        let health = &state["Health"];
        let probe = health["Log"].as_array().and_then(|log| log.last()).and_then(|last| last["Output"].as_str());
        let status = health["Status"].as_str().filter(|status| !matches!(*status, "" | "none"));
        Some(Self {
            id: inspected["Id"].as_str()?.to_owned(),
            name: inspected["Name"].as_str()?.trim_start_matches('/').to_owned(),
            service: label(names::SERVICE),
            number: label(names::NUMBER),
            status: state["Status"].as_str().unwrap_or_default().to_owned(),
            exit_code: state["ExitCode"].as_i64().unwrap_or_default(),
            restarts: inspected["RestartCount"].as_u64().unwrap_or_default(),
            started_at: state["StartedAt"].as_str().unwrap_or_default().to_owned(),
            health: status.map(str::to_owned),
            probe: probe.map(|text| text.trim().chars().take(LINE_CHARS_MAX).collect()),
            terminal: inspected["Config"]["Tty"] == true,
            may_end: inspected["HostConfig"]["RestartPolicy"]["Name"] == "on-failure",
            parts: parts(inspected),
        })
    }

    pub(super) fn runs(&self) -> bool {
        self.status == "running"
    }

    /// A job that has finished.
    pub(super) fn is_done(&self) -> bool {
        self.status == "exited" && self.exit_code == 0
    }
}

/// Settings that can be changed manually, grouped under readable names.
fn parts(inspected: &Value) -> BTreeMap<String, String> {
    let config = &inspected["Config"];
    let mounts = inspected["Mounts"].as_array().into_iter().flatten();
    let mut mounts: Vec<String> = mounts
        .map(|mount| {
            let source = if mount["Type"] == "volume" { &mount["Name"] } else { &mount["Source"] };
            json!([mount["Type"], source, mount["Destination"], mount["RW"]]).to_string()
        })
        .collect();
    mounts.sort();
    let networks = inspected["NetworkSettings"]["Networks"].as_object();
    let mut networks: Vec<_> = networks.into_iter().flatten().map(|(name, _)| name.clone()).collect();
    networks.sort();
    let host =
        SETTINGS.iter().map(|name| (*name, &inspected["HostConfig"][*name])).filter(|(_, value)| !is_empty(value));
    let host: BTreeMap<&str, &Value> = host.collect();
    let all = [
        ("configuration", config["Labels"][names::CONFIG_HASH].clone()),
        ("image", inspected["Image"].clone()),
        ("command", json!([config["Entrypoint"], config["Cmd"], config["User"], config["WorkingDir"]])),
        ("environment", config["Env"].clone()),
        ("limits, ports or other settings", json!(host)),
        ("mounts", json!(mounts)),
        ("networks", json!(networks)),
        ("name", inspected["Name"].clone()),
    ];
    all.into_iter()
        .map(|(name, value)| (name.to_owned(), Digest::of(value.to_string().as_bytes()).to_string()))
        .collect()
}

/// Engines write empty values in several ways.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(true) => false,
    }
}

impl Compose {
    /// All containers of a project except those of `compose run`.
    pub(super) async fn containers(&self, project: &str) -> Result<Vec<Container>, SocketError> {
        let label = format!("{}={project}", names::PROJECT);
        let listed = self.socket.get(&format!("/containers/json?all=1&filters={}", labeled(&label))).await?;
        let mut found = Vec::new();
        for item in listed.as_array().into_iter().flatten() {
            let one_off = item["Labels"][names::ONE_OFF].as_str().unwrap_or_default();
            let Some(id) = item["Id"].as_str().filter(|_| !one_off.eq_ignore_ascii_case("true")) else { continue };
            match self.socket.get(&format!("/containers/{id}/json")).await {
                Ok(inspected) => found.extend(Container::of(&inspected)),
                // Removed between two requests.
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error),
            }
        }
        found.sort_by(|one, other| (&one.service, &one.number).cmp(&(&other.service, &other.number)));
        Ok(found)
    }

    /// The last log lines of a container, each with its name.
    pub(super) async fn last_log_lines(&self, container: &Container, lines: usize) -> Result<String, SocketError> {
        let path = format!("/containers/{}/logs?stdout=1&stderr=1&tail={lines}", socket::query(&container.id));
        let bytes = match self.socket.bytes(&path).await {
            Err(error) if error.is_missing() => return Ok(String::new()),
            other => other?,
        };
        let text = if container.terminal { bytes } else { joined(&bytes) };
        let text = String::from_utf8_lossy(&text);
        let cut = |line: &str| line.chars().take(LINE_CHARS_MAX).collect::<String>();
        let mut words = String::new();
        for line in text.lines() {
            words.extend([container.name.as_str(), " | ", &cut(line.trim_end()), "\n"]);
        }
        Ok(words)
    }
}

/// Output and errors come in frames: a stream byte, three zero bytes, four length bytes.
fn joined(mut frames: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    while let Some((head, rest)) = frames.split_at_checked(8) {
        let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (content, rest) = rest.split_at(length.min(rest.len()));
        text.extend_from_slice(content);
        frames = rest;
    }
    text
}

/// The containers after a component was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Applied {
    containers: Vec<AppliedContainer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AppliedContainer {
    service: String,
    number: String,
    /// It had finished by then, as jobs do.
    done: bool,
    /// It may finish at any time.
    may_end: bool,
    parts: BTreeMap<String, String>,
}

impl Applied {
    pub(super) fn of(containers: &[Container]) -> Self {
        let one = |container: &Container| AppliedContainer {
            service: container.service.clone(),
            number: container.number.clone(),
            done: container.is_done(),
            may_end: container.may_end,
            parts: container.parts.clone(),
        };
        Self { containers: containers.iter().map(one).collect() }
    }

    pub(super) fn read(project: &Path) -> Option<Self> {
        read_record(&project.join(APPLIED), &mut |_| {})
    }

    pub(super) fn write(&self, project: &Path) -> Result<(), DiskError> {
        if Self::read(project).as_ref() == Some(self) {
            return Ok(());
        }
        write_record(&project.join(APPLIED), self)
    }

    fn find(&self, container: &Container) -> Option<&AppliedContainer> {
        self.containers.iter().find(|known| known.service == container.service && known.number == container.number)
    }

    /// Services with container changes that compose does not detect.
    pub(super) fn changed(&self, containers: &[Container]) -> Vec<String> {
        let is_changed = |container: &&Container| {
            self.find(container).is_some_and(|known| {
                // Compose detects another configuration.
                let configured = known.parts.get("configuration") == container.parts.get("configuration");
                configured && known.parts != container.parts
            })
        };
        let mut services: Vec<String> =
            containers.iter().filter(is_changed).map(|container| container.service.clone()).collect();
        services.dedup();
        services
    }
}

/// Whether a component runs, and its differences from the applied state as text.
pub(super) fn compare_containers(containers: &[Container], applied: Option<&Applied>) -> (Run, Vec<String>) {
    let mut differs = Vec::new();
    let mut stopped = Vec::new();
    let known = applied.map(|applied| applied.containers.as_slice()).unwrap_or_default();
    for desired in known {
        let is_it = |container: &&Container| container.service == desired.service && container.number == desired.number;
        if !containers.iter().any(|container| is_it(&container)) && !desired.done {
            stopped.push(format!("container {} of `{}` is missing", desired.number, desired.service));
        }
    }
    let mut starting = false;
    for container in containers {
        let desired = applied.and_then(|applied| applied.find(container));
        if applied.is_some() && desired.is_none() {
            differs.push(format!("container `{}` was added", container.name));
            continue;
        }
        let done = desired.is_none_or(|desired| desired.done || desired.may_end) && container.is_done();
        if !container.runs() && !done {
            stopped.push(match container.status.as_str() {
                "exited" => format!("container `{}` exited with code {}", container.name, container.exit_code),
                other => format!("container `{}` is {other}", container.name),
            });
        }
        starting |= container.health.as_deref() == Some("starting");
        if let Some(desired) = desired {
            let changed = container.parts.iter().filter(|(name, digest)| desired.parts.get(*name) != Some(*digest));
            let changed: Vec<&str> = changed.map(|(name, _)| name.as_str()).collect();
            if !changed.is_empty() {
                differs.push(format!("container `{}`: different {}", container.name, changed.join(", ")));
            }
        }
    }
    if containers.is_empty() && stopped.is_empty() {
        stopped.push("it has no container".to_owned());
    }
    differs.extend(stopped.iter().cloned());
    let run = match (stopped.is_empty(), starting) {
        (false, _) => Run::Stopped { message: stopped.join("; ") },
        (true, true) => Run::Starting,
        (true, false) => Run::Running,
    };
    (run, differs)
}

/// Whether an engine event requires an observation.
pub(super) fn is_relevant(event: &Value) -> bool {
    let action = event["Action"].as_str().or_else(|| event["status"].as_str()).unwrap_or_default();
    RELEVANT_EVENTS.iter().any(|telling| action == *telling || action.starts_with(&format!("{telling}:")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspected(service: &str, status: &str, exit_code: i64, memory: u64) -> Value {
        json!({
            "Id": format!("id-{service}"), "Name": format!("/p-{service}-1"), "Image": "sha256:1",
            "State": { "Status": status, "ExitCode": exit_code },
            "Config": { "Labels": { names::SERVICE: service, names::NUMBER: "1", names::CONFIG_HASH: "h" }, "Env": ["A=1"] },
            "HostConfig": { "Memory": memory }, "Mounts": [], "NetworkSettings": { "Networks": { "n": {} } },
        })
    }

    fn container(service: &str, status: &str, exit_code: i64) -> Container {
        Container::of(&inspected(service, status, exit_code, 0)).unwrap()
    }

    #[test]
    fn describes_differences_as_text() {
        let before = [container("job", "exited", 0), container("web", "running", 0)];
        let applied = Applied::of(&before);
        assert_eq!(compare_containers(&before, Some(&applied)), (Run::Running, Vec::new()));
        // A finished job may be gone.
        assert_eq!(compare_containers(&before[1..], Some(&applied)), (Run::Running, Vec::new()));
        let (run, differs) = compare_containers(&before[..1], Some(&applied));
        assert_eq!(differs, ["container 1 of `web` is missing"]);
        assert!(matches!(run, Run::Stopped { .. }));
        let (run, differs) = compare_containers(&[before[0].clone(), container("web", "exited", 137)], Some(&applied));
        assert_eq!(differs, ["container `p-web-1` exited with code 137"]);
        assert!(matches!(run, Run::Stopped { .. }));
        // A service that runs forever must not exit, not even with success.
        let (run, _) = compare_containers(&[before[0].clone(), container("web", "exited", 0)], Some(&applied));
        assert!(matches!(run, Run::Stopped { .. }));
        let (_, differs) = compare_containers(
            &[before[0].clone(), before[1].clone(), container("extra", "running", 0)],
            Some(&applied),
        );
        assert_eq!(differs, ["container `p-extra-1` was added"]);
    }

    #[test]
    fn detects_manual_changes_of_a_running_container() {
        let applied = Applied::of(&[container("web", "running", 0)]);
        let changed = [Container::of(&inspected("web", "running", 0, 64)).unwrap()];
        let (run, differs) = compare_containers(&changed, Some(&applied));
        assert_eq!(
            (run, differs.as_slice()),
            (Run::Running, &["container `p-web-1`: different limits, ports or other settings".to_owned()][..])
        );
        assert_eq!(applied.changed(&changed), ["web"]);
        assert!(applied.changed(&[container("web", "exited", 1)]).is_empty());
    }

    #[test]
    fn a_component_without_containers_is_not_running() {
        assert!(matches!(compare_containers(&[], None).0, Run::Stopped { .. }));
    }

    #[test]
    fn frames_of_output_and_errors_are_joined() {
        let frames = [&[1, 0, 0, 0, 0, 0, 0, 3][..], b"one", &[2, 0, 0, 0, 0, 0, 0, 9], b"cut"].concat();
        assert_eq!(joined(&frames), b"onecut");
    }
}
