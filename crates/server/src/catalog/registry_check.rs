//! Checks whether registries have the components of an application. Runs when a package is added and on request; never
//! a reason to reject a package, because devices may reach registries that this server does not (ADR 42).

#[cfg(test)]
mod tests;

use super::registry::{Source, with_saved};
use crate::app::registry::address;
use crate::copies::mirrored;
use crate::registry::RepositoryName;
use crate::state::ServerState;
use futures_util::StreamExt as _;
use margo::description::{ApplicationDescription, ComponentSource};
use margo::digest::Digest;
use margrave_core::time::Timestamp;
use margrave_oci::reference::is_loopback_host;
use margrave_oci::{Connection, Kind, OciError, Reference, Registry};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use url::{Host, Url};

/// A request waits for the answer.
const TIME_MAX: Duration = Duration::from_secs(4);
/// Artifacts checked; an application has a few.
const ARTIFACTS_MAX: usize = 32;
const REGISTRIES_AT_ONCE: usize = 8;
/// Results cached, by description.
const ANSWERS_MAX: usize = 500;
/// A registry that did not respond is not tried again for this long: packages are often added one after another.
const UNRESPONSIVE_FOR: Duration = Duration::from_secs(30);
const OFFLINE_MAX: usize = 100;
/// Metadata services of clouds, apart from link-local addresses.
const METADATA_V4: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Results, while this server runs.
#[derive(Debug, Default)]
pub struct RegistryChecks(Mutex<CheckCache>);

#[derive(Debug, Default)]
struct CheckCache {
    results: VecDeque<(Digest, CheckResult)>,
    unresponsive: HashMap<String, (Timestamp, String)>,
}

/// Results of the registries for one description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckResult {
    pub(crate) at: Timestamp,
    /// Artifacts that were checked.
    pub(crate) artifacts: usize,
    pub(crate) problems: Vec<Problem>,
}

/// A component that devices may be unable to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// ``component `web`: registry `registry.plant:5000` does not have `line/web:1.0` (not found)``
    pub(crate) text: String,
    /// It is definitely missing; otherwise it could not be determined.
    pub(crate) missing: bool,
    /// The artifact, if it is about one.
    reference: Option<Reference>,
}

impl CheckResult {
    pub(crate) fn missing(&self) -> usize {
        self.problems.iter().filter(|problem| problem.missing).count()
    }
}

impl RegistryChecks {
    /// Results by the digest of a description.
    fn get(&self, description: &Digest) -> Option<CheckResult> {
        let stored = self.0.lock();
        stored.results.iter().find(|(known, _)| known == description).map(|(_, result)| result.clone())
    }

    fn keep(&self, description: Digest, result: CheckResult) {
        let results = &mut self.0.lock().results;
        results.retain(|(known, _)| *known != description);
        results.push_front((description, result));
        results.truncate(ANSWERS_MAX);
    }

    fn unresponsive(&self, host: &str, now: Timestamp) -> Option<String> {
        let stored = self.0.lock();
        stored
            .unresponsive
            .get(host)
            .filter(|(at, _)| now.since(*at) < UNRESPONSIVE_FOR)
            .map(|(_, failure)| failure.clone())
    }

    fn note_unresponsive(&self, host: &str, failure: &str, now: Timestamp) {
        let unresponsive = &mut self.0.lock().unresponsive;
        unresponsive.retain(|_, (at, _)| now.since(*at) < UNRESPONSIVE_FOR);
        if unresponsive.len() < OFFLINE_MAX {
            unresponsive.insert(host.to_owned(), (now, failure.to_owned()));
        }
    }
}

/// The last result for a description, without components that were added to the embedded registry since.
pub(crate) fn last_result(state: &ServerState, description: &Digest) -> Option<CheckResult> {
    let mut result = state.served.get(description)?;
    result.problems.retain(|problem| !problem.reference.as_ref().is_some_and(|reference| is_here(state, reference)));
    Some(result)
}

/// Checks and remembers. `source` is the registry of the package itself, with the operator's credentials.
/// Does nothing when checks are switched off.
pub(crate) async fn ask(
    state: &ServerState,
    digest: &Digest,
    description: &ApplicationDescription,
    source: Option<&Source>,
    anew: bool,
) {
    if !state.config.catalog.check_registries {
        return;
    }
    let mut requested = artifacts(description);
    let left_out = requested.split_off(ARTIFACTS_MAX.min(requested.len())).len();
    let result = requested.len();
    let mut by_host: BTreeMap<String, Vec<Artifact>> = BTreeMap::new();
    for artifact in requested.into_iter().filter(|artifact| !is_here(state, &artifact.reference)) {
        by_host.entry(artifact.reference.host.clone()).or_default().push(artifact);
    }
    let deadline = Instant::now() + TIME_MAX;
    let results = futures_util::stream::iter(by_host)
        .map(|(host, artifacts)| async move {
            let connection = match source.filter(|source| source.reference.host == host) {
                Some(source) => source.connection.clone(),
                None => connection(state, &host).await,
            };
            of_registry(state, &host, connection, artifacts, deadline, anew).await
        })
        .buffered(REGISTRIES_AT_ONCE);
    let mut problems: Vec<Problem> = results.collect::<Vec<_>>().await.into_iter().flatten().collect();
    if left_out > 0 {
        let text =
            format!("{left_out} more components were not checked: at most {ARTIFACTS_MAX} are checked at a time");
        problems.push(Problem { text, missing: false, reference: None });
    }
    state.served.keep(digest.clone(), CheckResult { at: state.now(), artifacts: result, problems });
}

/// Connection for a registry that no operator has just named: as stored under Settings. Loopback addresses use plain
/// HTTP by default, as container engines do.
async fn connection(state: &ServerState, host: &str) -> Connection {
    match with_saved(state, host, Connection::default()).await {
        Ok((connection, used)) if used.saved_login || used.saved_connection => connection,
        _ => Connection { plain_http: is_loopback_host(host), ..Connection::default() },
    }
}

/// An artifact in a registry, and the first component that refers to it.
struct Artifact {
    component: String,
    reference: Reference,
}

/// Each once. Locations of the older form are left to the devices.
fn artifacts(description: &ApplicationDescription) -> Vec<Artifact> {
    let components = description.deployment_profiles.iter().flat_map(|profile| &profile.components);
    let mut found: Vec<Artifact> = Vec::new();
    for component in components {
        let ComponentSource::Oci { repository, revision } = &component.properties.source else { continue };
        // Invalid references are reported when the package is parsed.
        let Ok(reference) = Reference::of_component(repository, revision) else { continue };
        if found.iter().all(|known| known.reference != reference) {
            found.push(Artifact { component: component.name.clone(), reference });
        }
    }
    found
}

/// In the embedded registry, under its own name or as a copy for devices that use it as a mirror.
fn is_here(state: &ServerState, reference: &Reference) -> bool {
    let Some(hosted) = &state.registry else { return false };
    let own = (reference.host == address(state)).then(|| reference.repository.parse::<RepositoryName>().ok()).flatten();
    let Ok(tag) = reference.tag.to_string().parse() else { return false };
    let has = |repository: RepositoryName| hosted.registry.stat_manifest(&repository, &tag).is_ok();
    own.is_some_and(has) || mirrored(reference).is_ok_and(has)
}

/// The problems of each artifact in one registry; none for those it has.
async fn of_registry(
    state: &ServerState,
    host: &str,
    connection: Connection,
    artifacts: Vec<Artifact>,
    deadline: Instant,
    anew: bool,
) -> Vec<Problem> {
    let every = |problem: &dyn Fn(&Artifact) -> Problem| artifacts.iter().map(problem).collect::<Vec<_>>();
    if host == address(state) {
        return every(&|artifact| missing(artifact));
    }
    if is_reserved(host) {
        return every(&|Artifact { component, reference }| Problem {
            text: format!("component `{component}`: registry `{host}` does not exist (example domain)"),
            missing: true,
            reference: Some(reference.clone()),
        });
    }
    if let Some(failure) = state.served.unresponsive(host, state.now()).filter(|_| !anew) {
        return every(&|artifact| unknown(artifact, &failure));
    }
    let late = || format!("no response within {} s", TIME_MAX.as_secs());
    let registry = timeout_at(deadline, connect(host, &connection)).await;
    let mut registry = match registry.unwrap_or_else(|_| Err(late())) {
        Ok(registry) => registry,
        Err(failure) => {
            state.served.note_unresponsive(host, &failure, state.now());
            return every(&|artifact| unknown(artifact, &failure));
        }
    };
    let mut problems = Vec::new();
    let mut gone: Option<String> = None;
    for artifact in &artifacts {
        if let Some(failure) = &gone {
            problems.push(unknown(artifact, failure));
            continue;
        }
        match timeout_at(deadline, registry.has(&artifact.reference)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => problems.push(missing(artifact)),
            Ok(Err(error)) => {
                let failure = words(&error);
                problems.push(unknown(artifact, &failure));
                gone = error.is_transient().then_some(failure);
            }
            Err(_) => {
                problems.push(unknown(artifact, &late()));
                gone = Some(late());
            }
        }
    }
    if let Some(failure) = gone {
        state.served.note_unresponsive(host, &failure, state.now());
    }
    problems
}

/// Whether a registry may be contacted: packages come from others and must not make this server reach metadata
/// services.
async fn connect(host: &str, connection: &Connection) -> Result<Registry, String> {
    let url = Url::parse(&format!("https://{host}/")).map_err(|error| error.to_string())?;
    let addresses: Vec<IpAddr> = match url.host() {
        Some(Host::Ipv4(address)) => vec![address.into()],
        Some(Host::Ipv6(address)) => vec![address.into()],
        Some(Host::Domain(name)) => {
            let port = url.port_or_known_default().unwrap_or(443);
            let found = tokio::net::lookup_host((name, port)).await.map_err(|error| innermost(&error.to_string()))?;
            found.map(|address| address.ip()).collect()
        }
        None => return Err("it has no address".to_owned()),
    };
    if addresses.iter().any(|address| is_forbidden(address.to_canonical())) {
        return Err("its address is not allowed for a registry, so this server does not connect to it".to_owned());
    }
    Registry::new(host, connection).map_err(|error| error.message)
}

fn is_forbidden(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            address.is_link_local()
                || address.is_unspecified()
                || address.is_broadcast()
                || address.is_multicast()
                || address == METADATA_V4
        }
        IpAddr::V6(address) => {
            address.is_unicast_link_local()
                || address.is_unspecified()
                || address.is_multicast()
                || address == METADATA_V6
        }
    }
}

/// RFC 2606: these names never exist, so they are not contacted.
fn is_reserved(host: &str) -> bool {
    let name = host.split(':').next().unwrap_or_default().trim_end_matches('.');
    matches!(name.rsplit('.').next(), Some("example" | "invalid"))
}

fn missing(Artifact { component, reference }: &Artifact) -> Problem {
    let text = format!(
        "component `{component}`: registry `{}` does not have `{}` (not found)",
        reference.host,
        path(reference)
    );
    Problem { text, missing: true, reference: Some(reference.clone()) }
}

fn unknown(Artifact { component, reference }: &Artifact, failure: &str) -> Problem {
    let text = format!(
        "component `{component}`: registry `{}` could not be checked for `{}` ({failure})",
        reference.host,
        path(reference)
    );
    Problem { text, missing: false, reference: Some(reference.clone()) }
}

fn path(reference: &Reference) -> String {
    let image = reference.image();
    image.strip_prefix(&format!("{}/", reference.host)).map_or_else(|| image.clone(), str::to_owned)
}

/// The error, without what the surrounding sentence says.
fn words(error: &OciError) -> String {
    match error.kind {
        Kind::Denied => "it requires a username and a password".to_owned(),
        Kind::Busy => "its rate limit is reached".to_owned(),
        Kind::Unreachable | Kind::NameUnknown | Kind::Untrusted => innermost(&error.message),
        _ => error.message.clone(),
    }
}

/// The cause at the end of a chain of causes: `connection refused`.
fn innermost(chain: &str) -> String {
    let last = match chain.find("invalid peer certificate") {
        Some(at) => &chain[at..],
        None => chain.rsplit(": ").next().unwrap_or(chain),
    };
    let last = last.split(" (os error").next().unwrap_or(last);
    let mut letters = last.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
