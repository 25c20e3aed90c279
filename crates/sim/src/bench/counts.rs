//! Instruction counts of the hot paths, by callgrind: independent of the load of the machine, so that `make check` can
//! detect a regression.

use crate::simulation::{capabilities, routes_for};
use anyhow::Context as _;
use axum::body::Body;
use http::header;
use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::description::ApplicationDescription;
use margo::digest::Digest;
use margo::manifest::{MANIFEST_MEDIA_TYPE, StateManifest};
use margo::spiffe::{ClientIdentity, WfmIdentity};
use margo::{ClientId, DeploymentId, bundle};
use margrave_core::placement::place;
use margrave_core::plan::{DesiredDigests, Observed, ObservedState, plan};
use margrave_core::publish::{ServedDeployment, next};
use margrave_server::net::Peer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use tower::ServiceExt as _;
use uuid::Uuid;

/// The measured pieces of work.
pub const WORKS: [&str; 5] = ["poll", "match", "plan", "bundle", "manifest"];

/// A larger increase over the stored count fails.
pub const TOLERANCE: f64 = 0.10;

/// Enough that one-time costs are negligible.
const REPEATS: usize = 20;

/// Number of deployments in the bundle, manifest and plan.
const DEPLOYMENTS: usize = 20;

/// Counts with the toolchain that produced them: another compiler gives other counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub made_with: String,
    /// Instructions per piece of work.
    pub instructions: BTreeMap<String, u64>,
}

impl Counts {
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read(path).with_context(|| format!("read `{}`: `make counts` writes it", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("read `{}`", path.display()))
    }

    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        std::fs::write(path, text).with_context(|| format!("write `{}`", path.display()))
    }

    /// Runs `program WORK` under callgrind, once per piece of work.
    pub fn take(program: &Path) -> anyhow::Result<Self> {
        let mut instructions = BTreeMap::new();
        for work in WORKS {
            let output = Command::new("valgrind")
                .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*counted_section*"])
                .arg(program)
                .arg(work)
                .output()
                .context("valgrind is not installed: run `make setup` as root on Debian, or install it")?;
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            anyhow::ensure!(output.status.success(), "counting `{work}` failed:\n{text}");
            let counted =
                collected(&text).with_context(|| format!("callgrind counted nothing for `{work}`:\n{text}"))?;
            instructions.insert(work.to_owned(), counted / REPEATS as u64);
        }
        Ok(Self { made_with: made_with(), instructions })
    }

    /// Every piece of work with the stored count, the current count, and whether it is too high.
    pub fn compare(&self, now: &Self) -> Vec<(String, u64, u64, bool)> {
        let one = |(work, counted): (&String, &u64)| {
            let kept = self.instructions.get(work).copied().unwrap_or(*counted);
            (work.clone(), kept, *counted, *counted as f64 > kept as f64 * (1.0 + TOLERANCE))
        };
        now.instructions.iter().map(one).collect()
    }
}

/// Compiler and processor family.
pub fn made_with() -> String {
    let output = Command::new("rustc").arg("--version").output();
    let rustc = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    format!("{rustc}, {}, dev profile", std::env::consts::ARCH)
}

/// `==7== Collected : 12345`.
fn collected(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.split_once("Collected : "))?.1;
    line.split_whitespace().next()?.parse().ok().filter(|count| *count > 0)
}

/// Callgrind counts only this function.
#[inline(never)]
pub fn counted_section(work: &mut dyn FnMut()) {
    for _ in 0..REPEATS {
        work();
    }
}

/// Prepares one of [`WORKS`] and runs it in [`counted_section`].
pub fn work(name: &str) -> anyhow::Result<()> {
    match name {
        "poll" => poll(),
        "match" => matching(),
        "plan" => {
            planning();
            Ok(())
        }
        "bundle" => {
            bundling();
            Ok(())
        }
        "manifest" => {
            manifest();
            Ok(())
        }
        _ => anyhow::bail!("unknown work `{name}`; expected one of {}", WORKS.join(", ")),
    }
}

/// An unchanged poll through the routes of the device API: identity, policy, metrics, 304 from memory.
fn poll() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let client_id: ClientId = "press".parse()?;
    let routes = runtime.block_on(routes_for(folder.path(), &client_id))?;
    let wfm = WfmIdentity::parse("spiffe://example.org/margo/wfm/main")?;
    let peer = Peer(ClientIdentity { wfm, client_id });
    let ask = |etag: &str| {
        let request = http::Request::get("/api/v1/deployments")
            .header(header::ACCEPT, MANIFEST_MEDIA_TYPE)
            .header(header::IF_NONE_MATCH, etag)
            .extension(peer.clone())
            .body(Body::empty())
            .expect("a request");
        runtime.block_on(routes.clone().oneshot(request)).unwrap_or_else(|never| match never {})
    };
    let first = ask("\"none\"");
    let etag = first.headers().get(header::ETAG).context("a manifest has an ETag")?.to_str()?.to_owned();
    anyhow::ensure!(ask(&etag).status() == 304, "a poll did not return 304");
    counted_section(&mut || {
        black_box(ask(&etag));
    });
    Ok(())
}

/// An application with several rules about its devices.
const SAMPLE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/vibration-analytics/2.3.0/margo.yaml"));

fn matching() -> anyhow::Result<()> {
    let read = ApplicationDescription::read(SAMPLE.as_bytes()).map_err(|findings| anyhow::anyhow!("{findings}"))?;
    let json = capabilities("press", Some("compose")).to_string();
    let device = DeviceCapabilities::read(json.as_bytes(), UnknownTypes::Refuse);
    let device = device.map_err(|findings| anyhow::anyhow!("{findings}"))?.document;
    counted_section(&mut || {
        black_box(place(black_box(&read.document), black_box(&device), None));
    });
    Ok(())
}

/// A manifest with some new, some changed and mostly unchanged deployments.
fn planning() {
    let id = |number: usize| DeploymentId(Uuid::from_u128(number as u128));
    let desired: DesiredDigests = (0..DEPLOYMENTS).map(|number| (id(number), Digest::of(&[number as u8]))).collect();
    let seen = |number: usize| match number % 5 {
        0 => ObservedState::Running(Digest::of(b"another")),
        _ => ObservedState::Running(Digest::of(&[number as u8])),
    };
    let observed: Observed = (2..DEPLOYMENTS + 2).map(|number| (id(number), seen(number))).collect();
    counted_section(&mut || {
        black_box(plan(black_box(&desired), black_box(&observed)));
    });
}

fn served() -> Vec<ServedDeployment> {
    (0..DEPLOYMENTS).map(super::manifests::deployment).collect()
}

fn bundling() {
    let served = served();
    let parts: Vec<(DeploymentId, &[u8])> = served.iter().map(|one| (one.id, one.yaml.as_slice())).collect();
    counted_section(&mut || {
        black_box(bundle::pack(black_box(&parts)));
    });
}

/// Built by the server, parsed by the agent.
fn manifest() {
    let served = served();
    counted_section(&mut || {
        let publication = next(7, black_box(&served)).expect("far from the last version");
        black_box(StateManifest::read(&publication.body).is_ok());
    });
}

#[cfg(test)]
mod tests {
    use super::{Counts, WORKS, collected, work};

    fn counts(plan: u64) -> Counts {
        Counts { made_with: "rustc".to_owned(), instructions: [("plan".to_owned(), plan)].into() }
    }

    #[test]
    fn parses_callgrind_output() {
        assert_eq!(collected("==7== Events    : Ir\n==7== Collected : 12345\n"), Some(12_345));
        assert_eq!(collected("==7== Collected : 0\n"), None);
        assert_eq!(collected(""), None);
    }

    #[test]
    fn tolerates_ten_percent_more_instructions_and_no_more() {
        let too_much = |now: u64| counts(1_000).compare(&counts(now))[0].3;
        assert!(!too_much(500) && !too_much(1_100) && too_much(1_101));
    }

    #[test]
    fn every_measured_piece_of_work_runs() {
        for name in WORKS {
            work(name).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        }
        assert!(work("nothing").is_err());
    }
}
