//! From publishing to a responding workload on a real Docker engine, compared with a plain `docker compose up`.
//!
//! The agent's log shows the phases: the manifest is offered (end of *poll*), accepted (end of *fetch*), applying begins
//! (end of *plan*), and the workload responds over HTTP (end of *apply*).

use super::process::Process;
use super::results::{Findings, Row};
use super::server::{Server, program};
use super::stats::Spread;
use super::{Setting, print_progress};
use crate::chaos::wait;
use crate::demo::real::Engine;
use anyhow::Context as _;
use indexmap::IndexMap;
use margrave_api::devices::DeviceRef;
use margrave_api::rollouts::{CreateRollout, RolloutKind, Scope};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const DEVICE: &str = "press-0";
const PORT: u16 = 38088;
/// Other Compose projects: the reference, and one that keeps the image.
const PLAIN: &str = "plain";
const KEEPER: &str = "keeper";
/// Built by `scripts/samples.sh build`, which `make bench` calls.
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/samples");
const SAMPLE: &str = "packages/line-monitor/1.0.0";
/// Time limit for a workload to respond.
const ANSWERS_WITHIN: Duration = Duration::from_mins(3);
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// Long enough for a processor time resolution of 10 ms.
const IDLE: Duration = Duration::from_mins(1);
const IDLE_QUICK: Duration = Duration::from_secs(3);
const MIB: f64 = 1024.0 * 1024.0;

/// Milliseconds of each part of one deployment.
#[derive(Debug, Default)]
struct Parts {
    poll: Vec<f64>,
    fetch: Vec<f64>,
    plan: Vec<f64>,
    apply: Vec<f64>,
    total: Vec<f64>,
}

pub async fn run(setting: &Setting) -> anyhow::Result<Findings> {
    let engine =
        Engine::find().await.map_err(anyhow::Error::msg).context("find a Docker engine; `make bench` starts one")?;
    let folder = super::scratch()?;
    let server = Server::start(folder.path(), setting.cores.server).await?;
    let identity = server.new_clients("press", 1).await?.remove(0);
    let samples = Path::new(SAMPLES);
    for artifact in ["images/line-monitor-1.0.0.tar", SAMPLE] {
        let path = samples.join(artifact);
        margrave(folder.path(), &["app", "push", &path.to_string_lossy()])?;
    }
    let agent = start(folder.path(), &identity, &engine)?;
    let api = server.api()?;
    wait::until("the first report of the device", ANSWERS_WITHIN, async || {
        let known = api.devices(None, None, &margrave_api::client::PageQuery::default()).await?;
        let there = known.items.iter().any(|device| device.device == DEVICE);
        Ok(if there { Ok(()) } else { Err(log(folder.path())) })
    })
    .await?;
    let (idle_pss, idle_cpu) = idle(&agent, setting).await?;

    let mut parts = Parts::default();
    let (mut cpu, mut pss) = (Vec::new(), 0_f64);
    let mut plain = Vec::new();
    // The first deployment pulls the image, which is not part of the comparison.
    for round in 0..=setting.rounds {
        let before = agent.own_cpu_seconds()?;
        let one = deploy(&api, folder.path(), &agent, &mut pss).await?;
        let spent = (agent.own_cpu_seconds()? - before) * 1e3;
        if round == 0 {
            // The agent removes unused images that it pulled: a container that never runs keeps the image.
            compose(samples, &engine, KEEPER, &["create", "--pull", "never"])?;
        }
        margrave(folder.path(), &["deployment", "remove", "--app", "line-monitor", "--all", "--yes", "--wait"])?;
        let alone = compose_up(samples, &engine).await?;
        if round > 0 {
            parts.add(one);
            cpu.push(spent);
            plain.push(alone);
        }
    }
    compose(samples, &engine, KEEPER, &["down", "--volumes"])?;
    compose(samples, &engine, PLAIN, &["down", "--volumes"])?;
    let spread = |values: &[f64]| format!("{} ms", Spread::of(values).show(0));
    let ratio = Spread::of(&parts.total).median / Spread::of(&plain).median;
    print_progress(&format!("  {} against {} ({ratio:.2} times)", spread(&parts.total), spread(&plain)));
    let rows = vec![
        Row::new("publishing until the workload responds over HTTP", spread(&parts.total)),
        Row::new("… of it poll: until the manifest is offered", spread(&parts.poll)),
        Row::new("… of it fetch: until it is verified and accepted", spread(&parts.fetch)),
        Row::new("… of it plan: until applying begins", spread(&parts.plan)),
        Row::new("… of it apply: until the workload responds", spread(&parts.apply)),
        Row::new("plain `docker compose up` of the same files until it responds", spread(&plain)),
        Row::new("ratio", format!("{ratio:.2}")),
        Row::new("agent memory (PSS), idle", format!("{idle_pss:.1} MiB")),
        Row::new("agent memory (PSS), peak while applying", format!("{pss:.1} MiB")),
        Row::new("agent processor time per minute, idle", format!("{idle_cpu:.0} ms")),
        Row::new("agent processor time for installing, without child processes", spread(&cpu)),
    ];
    Ok(Findings { rows, plots: Vec::new() })
}

impl Parts {
    fn add(&mut self, [poll, fetch, plan, apply]: [f64; 4]) {
        self.poll.push(poll);
        self.fetch.push(fetch);
        self.plan.push(plan);
        self.apply.push(apply);
        self.total.push(poll + fetch + plan + apply);
    }
}

async fn idle(agent: &Process, setting: &Setting) -> anyhow::Result<(f64, f64)> {
    let length = if setting.quick { IDLE_QUICK } else { IDLE };
    let before = agent.own_cpu_seconds()?;
    tokio::time::sleep(length).await;
    let spent = (agent.own_cpu_seconds()? - before) * 1e3;
    Ok((agent.pss_bytes()? as f64 / MIB, spent * 60.0 / length.as_secs_f64()))
}

/// Publishes and waits for a response; returns milliseconds of poll, fetch, plan, apply.
async fn deploy(
    api: &margrave_api::client::ApiClient,
    folder: &Path,
    agent: &Process,
    pss: &mut f64,
) -> anyhow::Result<[f64; 4]> {
    let known = log(folder).len();
    let values: IndexMap<String, Value> =
        [("lineName".to_owned(), json!("Press 7")), ("pagePort".to_owned(), json!(PORT))].into_iter().collect();
    let device = DeviceRef { client: DEVICE.to_owned(), device: DEVICE.to_owned() };
    let rollout = CreateRollout {
        kind: RolloutKind::Create,
        application: "line-monitor".to_owned(),
        version: Some("1.0.0".to_owned()),
        profile: None,
        policy: margrave_api::policies::PolicyPatch::default(),
        skip_incompatible: false,
        scope: Scope { devices: Some(vec![device]), ..Scope::default() },
        values,
        comment: None,
    };
    let started = wall();
    api.create_rollout(&rollout).await.context("publish")?;
    answers_within(|| {
        *pss = pss.max(agent.pss_bytes()? as f64 / MIB);
        Ok(())
    })
    .await
    .with_context(|| log(folder))?;
    let ended = wall();
    let text = log(folder);
    let moment = |mark: &str| -> anyhow::Result<f64> {
        let line = text[known.min(text.len())..].lines().find(|line| line.contains(mark));
        let line = line.with_context(|| format!("the agent's log does not say `{mark}`"))?;
        let entry: Value = serde_json::from_str(line).context("read the agent's log")?;
        let stamp: jiff::Timestamp = entry["timestamp"].as_str().unwrap_or_default().parse()?;
        Ok(stamp.as_microsecond() as f64 / 1e3)
    };
    let (offered, accepted) = (moment("is offered")?, moment("accepted manifest version")?);
    let applying = moment("applying: ")?;
    Ok([offered - started, accepted - offered, applying - accepted, ended - applying])
}

#[expect(clippy::disallowed_methods, reason = "compared with the time of day in another program's log")]
fn wall() -> f64 {
    jiff::Timestamp::now().as_microsecond() as f64 / 1e3
}

async fn answers_within(mut meanwhile: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let http = crate::chaos::site::plain()?;
    let started = Instant::now();
    loop {
        let answer = http.get(format!("http://127.0.0.1:{PORT}/healthz")).send().await;
        if answer.is_ok_and(|answer| answer.status().is_success()) {
            return Ok(());
        }
        anyhow::ensure!(started.elapsed() < ANSWERS_WITHIN, "the workload does not respond");
        meanwhile()?;
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// The same files without the agent; returns milliseconds until the workload responds. The volume stays, as with a
/// removal by the agent.
async fn compose_up(samples: &Path, engine: &Engine) -> anyhow::Result<f64> {
    let started = Instant::now();
    compose(samples, engine, PLAIN, &["up", "--detach", "--pull", "never"])?;
    answers_within(|| Ok(())).await?;
    let taken = started.elapsed().as_secs_f64() * 1e3;
    compose(samples, engine, PLAIN, &["down"])?;
    Ok(taken)
}

fn compose(samples: &Path, engine: &Engine, project: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = engine.compose();
    command.args(["--project-name", project]).args(arguments);
    command.current_dir(samples.join(SAMPLE).join("components/line-monitor-stack"));
    command.env("LINE_NAME", "Press 7").env("PAGE_PORT", PORT.to_string());
    let output = command.stdin(Stdio::null()).output().context("run compose")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "compose {}: {stderr}", arguments.join(" "));
    Ok(())
}

fn start(folder: &Path, identity: &Path, engine: &Engine) -> anyhow::Result<Process> {
    let registries = folder.join("registries");
    let arguments = ["client", "mirror-config", DEVICE, "--for", "agent", "--registry", "registry.margrave.example"];
    let written = registries.to_string_lossy().into_owned();
    margrave(folder, &[&arguments[..], &["--write", &written]].concat())?;
    let blocks = std::fs::read_to_string(registries.join("etc/margrave/agent-registries.toml"))?;
    let blocks = blocks.replace("/etc/margrave", &registries.join("etc/margrave").to_string_lossy());
    let url = std::fs::read_to_string(identity.join("wfm-url"))?;
    let text = format!(
        "server = \"{}\"\nstate_dir = \"{}/state\"\n[device]\nid = \"{DEVICE}\"\n[poll]\nstart_spread = \"0s\"\n\
         [identity]\ncertificate = \"{svid}/cert.pem\"\nkey = \"{svid}/key.pem\"\ntrust_bundle = \"{svid}/bundle.pem\"\n\
         {}\n{blocks}",
        url.trim(),
        folder.display(),
        engine.settings(),
        svid = identity.display(),
    );
    let config = folder.join("agent.toml");
    std::fs::write(&config, text)?;
    let mut command = Command::new(program("margrave-agent")?);
    command.args(["--log-json", "run", "--config"]).arg(config);
    // Not pinned: compose would inherit the pinning, unlike the reference.
    Process::start("the agent", &command, None, &log_path(folder))
}

fn margrave(folder: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(program("margrave")?);
    let output = command.arg("--data").arg(folder.join("data")).args(arguments).stdin(Stdio::null()).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    anyhow::ensure!(output.status.success(), "margrave {}: {stderr}", arguments.join(" "));
    Ok(())
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("agent.log")
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(log_path(folder)).unwrap_or_default()
}
