//! `status` and `explain`: read the state folder of a running or a stopped agent.

use super::style;
use margo::DeploymentId;
use margrave_agent::arguments::Output;
use margrave_agent::config::AgentConfig;
use margrave_agent::machine::report::{DeploymentReport, HoldReport, Overall, Report, Trouble};
use margrave_agent::machine::{Machine, Settings};
use margrave_agent::runtimes::absent::{self, Places};
use margrave_agent::{Code, disk, identity, shell};
use margrave_core::time::{Clock, Timestamp};
use rand::SeedableRng as _;
use std::io::Write as _;
use std::time::Duration;

/// The topic of a problem that keeps a device from contacting its server at all.
const IDENTITY: &str = "identity";

/// The agent was started before its settings enabled a runtime.
const RESTART: &str = "this device cannot run applications yet: the settings now enable a runtime; restart the agent";

/// The report file of a running agent, or the last one of a stopped agent. Without any, built from the records.
pub(super) async fn load(config: &AgentConfig, clock: &dyn Clock) -> anyhow::Result<Report> {
    let state_dir = &config.state_dir;
    let waiting = identity::waiting_reason(config);
    anyhow::ensure!(
        state_dir.exists(),
        "the state folder `{}` does not exist: has the agent ever run here? Set another one with `--state-dir`{}",
        state_dir.display(),
        waiting.map(|waiting| format!("; {waiting}")).unwrap_or_default()
    );
    disk::check_format(state_dir)?;
    let picture = std::fs::read(state_dir.join(shell::REPORT_FILE)).ok();
    let advice = absent::advice(config, &Places::of_this_machine()).await;
    if let Some(mut report) = picture.and_then(|json| serde_json::from_slice::<Report>(&json).ok()) {
        for trouble in report.troubles.iter_mut().filter(|trouble| trouble.code == Code::NoRuntime) {
            // The machine and the settings may have changed since the agent was started.
            trouble.message = advice.as_ref().map_or_else(|| RESTART.to_owned(), ToString::to_string);
        }
        return Ok(report);
    }
    let now = clock.now();
    let mut rng = rand::rngs::SmallRng::seed_from_u64(0);
    let mut report = Machine::new(Settings::default(), disk::load(state_dir).loaded, now, &mut rng).report(now);
    // No agent has run since, so no other code has noticed it.
    report.troubles.extend(waiting.map(|message| Trouble {
        about: IDENTITY.to_owned(),
        code: Code::IdentityUnusable,
        title: Code::IdentityUnusable.title().to_owned(),
        message,
        since: now,
        retry_at: None,
        security: false,
    }));
    report.troubles.extend(advice.map(|advice| shell::no_runtime(advice.to_string(), now)));
    Ok(report)
}

/// The deployment that matches a name, an id or the beginning of an id.
pub(super) fn find(report: &Report, requested: &str) -> anyhow::Result<DeploymentId> {
    let mut found = report.deployments.iter().filter(|found| matches_deployment(found, requested));
    let Some(first) = found.next() else {
        anyhow::bail!("no deployment `{requested}` on this device: see `margrave-agent status`")
    };
    anyhow::ensure!(found.next().is_none(), "`{requested}` matches several deployments: give the full id");
    Ok(first.id)
}

fn matches_deployment(found: &DeploymentReport, requested: &str) -> bool {
    found.id.to_string().starts_with(requested) || found.name.as_deref() == Some(requested)
}

pub(super) fn status(report: &Report, output: Output) -> anyhow::Result<()> {
    let mut out = anstream::stdout();
    if output == Output::Json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(report)?)?);
    }
    writeln!(out, "{} {}", style::heading("state"), style::state(overall(report.state)))?;
    writeln!(
        out,
        "{} accepted {}, applied {}",
        style::heading("manifest"),
        version(report.accepted_version),
        version(report.reconciled_version)
    )?;
    writeln!(out, "{} last {}, next {}", style::heading("poll"), time(report.polled_at), time(report.next_poll_at))?;
    writeln!(out, "{} {}", style::heading("undelivered reports"), report.undelivered_reports)?;
    if let Some(HoldReport { reason, until }) = &report.hold {
        writeln!(out, "{} until {}: {reason}", style::heading("maintenance hold"), time(Some(*until)))?;
    }
    for deployment in &report.deployments {
        let name = deployment.name.as_deref().unwrap_or("-");
        let state = deployment.state.as_deref().unwrap_or("unknown");
        let device = deployment.device.as_ref().map_or("-", |device| device.as_str());
        writeln!(out, "{}  {name:<24} {device:<20} {}", deployment.id, style::state(state))?;
        if let Some(drift) = deployment.drift.as_ref().filter(|drift| !drift.over) {
            writeln!(out, "  {} {}; {}", style::problem("differs"), drift.differs, drift.done)?;
        }
        for component in deployment.components.iter().filter(|_| deployment.components.len() > 1) {
            writeln!(out, "  component {} is {}", component.name, style::state(&component.state))?;
        }
    }
    for trouble in &report.troubles {
        writeln!(out, "{}", trouble_line(trouble))?;
    }
    writeln!(out, "{}", style::quiet(&format!("as of {}", report.at)))?;
    Ok(())
}

pub(super) fn explain(report: &Report, requested: Option<&str>, output: Output) -> anyhow::Result<()> {
    let mut report = report.clone();
    if let Some(requested) = requested {
        report.deployments.retain(|found| matches_deployment(found, requested));
        anyhow::ensure!(
            !report.deployments.is_empty(),
            "no deployment `{requested}` on this device: see `margrave-agent status`"
        );
    }
    let mut out = anstream::stdout();
    if output == Output::Json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?);
    }
    writeln!(out, "{}", sentence(&report))?;
    if let Some(HoldReport { reason, until }) = &report.hold {
        let until = time(Some(*until));
        writeln!(out, "\nMaintenance hold until {until}: {reason}. End it with `margrave-agent hold --end`.")?;
    }
    for trouble in &report.troubles {
        writeln!(out, "\n{}", trouble_line(trouble))?;
        writeln!(
            out,
            "  since {}; {}",
            trouble.since,
            match trouble.retry_at {
                Some(at) => format!("next retry at {at}"),
                None if trouble.code == Code::NoRuntime =>
                    "the agent installs the desired applications as soon as this is fixed".to_owned(),
                None if trouble.about == IDENTITY =>
                    "a running agent continues as soon as the identity exists".to_owned(),
                None => "no automatic retry".to_owned(),
            }
        )?;
        writeln!(out, "  docs/errors.md explains code {}", trouble.code)?;
    }
    for deployment in &report.deployments {
        one(&mut out, deployment)?;
    }
    Ok(())
}

fn one(out: &mut impl std::io::Write, deployment: &DeploymentReport) -> anyhow::Result<()> {
    let name = deployment.name.as_deref().unwrap_or("unnamed");
    writeln!(out, "\n{} ({})", style::heading(name), deployment.id)?;
    writeln!(out, "  desired   {}", deployment.desired)?;
    let state = deployment.state.as_deref().unwrap_or("unknown");
    let delivery = if deployment.reported { "reported to the server" } else { "not yet reported to the server" };
    writeln!(out, "  state     {} since {} ({delivery})", style::state(state), time(deployment.since))?;
    writeln!(out, "  observed  {}", deployment.observed)?;
    if let Some(policy) = &deployment.policy {
        writeln!(out, "  policies  {policy}")?;
    }
    if let Some(instead) = &deployment.instead_digest {
        writeln!(out, "  running   revision {} instead of the desired one, which failed", &instead.hex()[..12])?;
    }
    if let Some(drift) = &deployment.drift {
        let over = if drift.over { ", runs as applied again" } else { "" };
        writeln!(out, "  drift     {} at {}; {}{over}", drift.differs, time(Some(drift.at)), drift.done)?;
    }
    if let Some(error) = &deployment.error {
        writeln!(out, "  error     {} {}: {}", error.code, error.title.as_deref().unwrap_or(""), error.message)?;
    }
    for component in &deployment.components {
        let message = component.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
        writeln!(out, "  component {} is {}{message}", component.name, style::state(&component.state))?;
    }
    if let Some(waiting) = &deployment.waiting_for {
        writeln!(out, "  waiting for {waiting}")?;
    }
    if let Some(change) = &deployment.next_step {
        writeln!(out, "  next steps: {change}")?;
    }
    Ok(())
}

fn sentence(report: &Report) -> String {
    match (report.state, report.accepted_version) {
        (Overall::WaitingForDesiredState, _) if report.troubles.iter().any(|one| one.about == IDENTITY) => {
            "No desired state yet: this device has no identity to request it with. Everything stays as it is."
                .to_owned()
        }
        (Overall::WaitingForDesiredState, _) => {
            "No desired state yet: the agent waits for its first manifest. Everything stays as it is.".to_owned()
        }
        (Overall::UpToDate, Some(version)) => {
            format!("Everything runs as manifest version {version} says and is reported to the server.")
        }
        (Overall::Updating, Some(version)) if runs(report, version) && is_unreachable(report) => {
            format!("Everything runs as manifest version {version} says; the server cannot be reached.")
        }
        (Overall::Failed, Some(version)) => format!("Manifest version {version} could not be applied completely."),
        (_, accepted) => format!("Manifest version {} is being applied.", self::version(accepted)),
    }
}

/// Whether the manifest is applied and everything of it was observed to run.
fn runs(report: &Report, version: u64) -> bool {
    report.reconciled_version == Some(version) && report.deployments.iter().all(|one| one.observed == "running")
}

fn is_unreachable(report: &Report) -> bool {
    report.troubles.iter().any(|one| one.code == Code::ServerUnreachable)
}

fn overall(state: Overall) -> &'static str {
    match state {
        Overall::WaitingForDesiredState => "waiting for desired state",
        Overall::Updating => "updating",
        Overall::UpToDate => "up-to-date",
        Overall::Failed => "failed",
    }
}

fn trouble_line(trouble: &Trouble) -> String {
    let mark = if trouble.security { "security" } else { "trouble" };
    format!("{} {} {} ({}): {}", style::problem(mark), trouble.code, trouble.title, trouble.about, trouble.message)
}

fn version(version: Option<u64>) -> String {
    version.map_or_else(|| "none".to_owned(), |version| version.to_string())
}

/// Rounded to seconds for readability.
fn time(at: Option<Timestamp>) -> String {
    let round = |at: Timestamp| Timestamp(at.0 - at.0.rem_euclid(Duration::from_secs(1).as_micros() as i64));
    at.map_or_else(|| "never".to_owned(), |at| round(at).to_string())
}
