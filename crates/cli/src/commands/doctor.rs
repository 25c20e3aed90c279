//! `margrave doctor`: checks the connection, the server and the fleet, with a next step for each problem.

use super::Session;
use crate::clock;
use crate::connection::{self, ConnectionArgs, Environment, saved};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, paint, plural};
use jiff::{SignedDuration, Timestamp};
use margrave_api::client::ApiClient;
use margrave_api::deployments::DeploymentState;
use owo_colors::Style;
use serde::Serialize;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// With a larger skew, certificates and tokens look expired.
const SKEW_SECONDS_MAX: i64 = 30;
/// Warn this long before a certificate authority expires.
const EXPIRY_WARNING: SignedDuration = SignedDuration::from_hours(30 * 24);
/// With less free space, a database may be unable to clean up.
const FREE_BYTES_MIN: u64 = 256 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warning,
    Broken,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    name: &'static str,
    state: State,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl Check {
    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, state: State::Ok, message: message.into(), next: None }
    }
    fn warning(name: &'static str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { name, state: State::Warning, message: message.into(), next: Some(next.into()) }
    }
    fn broken(name: &'static str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { name, state: State::Broken, message: message.into(), next: Some(next.into()) }
    }
    fn failed(name: &'static str, failure: Failure) -> Self {
        let mut message = failure.what;
        for why in failure.why {
            let _ = write!(message, ": {why}");
        }
        let next = failure.next.unwrap_or_else(|| "check the server log".to_owned());
        Self::broken(name, message, next)
    }
}

pub(crate) async fn run(args: &ConnectionArgs, environment: &Environment, out: Output) -> Outcome {
    let mut checks = Vec::new();
    if let Some(data) = &args.data {
        checks.push(disk(data));
        checks.extend(seal_key(data));
    }
    let saved = saved::path().map(|path| saved::load(&path)).transpose().map(Option::flatten);
    let target = saved.and_then(|saved| connection::resolve(args, environment, saved));
    match target.and_then(|target| Ok((target.client(None)?, target))) {
        Ok((api, target)) => {
            checks.push(Check::ok("configuration", format!("the server is {}", target.url)));
            let session = Session { api, out, target };
            server(&session, &mut checks).await;
        }
        Err(failure) => checks.push(Check::failed("configuration", failure)),
    }
    report(out, &checks)
}

fn report(out: Output, checks: &[Check]) -> Outcome {
    out.show(checks, |out| {
        let mut text = String::new();
        for check in checks {
            let (word, style) = match check.state {
                State::Ok => ("ok     ", Style::new().green()),
                State::Warning => ("warning", Style::new().yellow()),
                State::Broken => ("broken ", Style::new().red().bold()),
            };
            let _ = writeln!(text, "{}  {}: {}", paint(word, style, out.color), check.name, check.message);
            if let Some(next) = &check.next {
                let _ = writeln!(text, "         next: {next}");
            }
        }
        text
    })?;
    match checks.iter().filter(|check| check.state == State::Broken).count() {
        0 => Ok(()),
        broken => Err(Failure::failed(format!("{broken} of {} checks did not pass", checks.len()))),
    }
}

/// The next step when no server answers.
fn not_reached(url: &str) -> String {
    let local = url::Url::parse(url).ok().and_then(|url| url.host_str().map(is_local)).unwrap_or(false);
    if local {
        "start the server with `margrave serve --data DIR`, or name another one with --url".to_owned()
    } else {
        "check that the server runs, that its address and port are right, and that no firewall is in between".to_owned()
    }
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

async fn server(session: &Session, checks: &mut Vec<Check>) {
    match session.api.whoami().await {
        Ok(who) => {
            checks.push(Check::ok("connection", format!("the server responds; signed in as {}", who.actor)));
            checks.push(version(&who.server_version));
        }
        Err(error) => {
            let mut failure = Failure::from(error);
            // These checks are what the other commands advise.
            if failure.exit == Exit::Unreachable && failure.next.as_deref().is_some_and(|next| next.contains("doctor"))
            {
                failure.next = Some(not_reached(&session.target.url));
            }
            checks.push(Check::failed("connection", failure));
            return;
        }
    }
    fleet(&session.api, checks).await;
    match session.api.trust().await {
        Ok(trust) => {
            checks.push(certificates("trust anchors for devices", &trust.trust_bundle));
            if !trust.https_ca.is_empty() {
                checks.push(certificates("CA of the HTTPS certificates", &trust.https_ca));
            }
        }
        Err(error) => checks.push(Check::failed("certificates", error.into())),
    }
    checks.push(match session.api.verify_audit().await {
        Ok(verification) if verification.intact => {
            Check::ok("audit", format!("{} records verified, no gaps or changes", verification.records))
        }
        Ok(verification) => Check::broken(
            "audit",
            format!("the chain is broken at record {}", verification.broken_at.unwrap_or_default()),
            "compare this record with a backup; all earlier records can be trusted",
        ),
        Err(error) => Check::failed("audit", error.into()),
    });
}

fn version(server: &str) -> Check {
    let own = env!("CARGO_PKG_VERSION");
    if server == own {
        Check::ok("version", format!("client and server are both {own}"))
    } else {
        Check::warning(
            "version",
            format!("this client is {own}, the server is {server}"),
            "use the `margrave` of the server's version",
        )
    }
}

async fn fleet(api: &ApiClient, checks: &mut Vec<Check>) {
    let before = clock::now();
    let summary = match api.summary().await {
        Ok(summary) => summary,
        Err(error) => return checks.push(Check::failed("fleet", error.into())),
    };
    let after = clock::now();
    if let Ok(theirs) = summary.at.parse::<Timestamp>() {
        checks.push(skew(before, theirs, after));
    }
    let failed = summary.deployments.of(DeploymentState::Failed);
    checks.push(if summary.clients.offline > 0 {
        Check::warning(
            "devices",
            format!("{} offline for too long", plural(summary.clients.offline, "client")),
            "`margrave client list` shows when each was last seen",
        )
    } else {
        Check::ok("devices", format!("{}, no accepted client is offline", plural(summary.devices, "device")))
    });
    checks.push(if failed > 0 {
        Check::warning("deployments", format!("{failed} failed"), "`margrave deployment list --state failed`")
    } else {
        Check::ok("deployments", "none failed")
    });
}

/// The server's time lies between our two readings, plus or minus the clock skew.
fn skew(before: Timestamp, theirs: Timestamp, after: Timestamp) -> Check {
    let apart = if theirs < before {
        before.duration_since(theirs)
    } else if theirs > after {
        theirs.duration_since(after)
    } else {
        SignedDuration::ZERO
    };
    if apart.as_secs() <= SKEW_SECONDS_MAX {
        Check::ok("clock", format!("within {} s of the server's", apart.as_secs() + 1))
    } else {
        Check::broken(
            "clock",
            format!("{} apart from the server's", clock::span(apart)),
            "synchronize both clocks with NTP; certificates and tokens depend on them",
        )
    }
}

/// Reports the certificate that expires first.
fn certificates(check: &'static str, pem: &str) -> Check {
    let ends: Result<Vec<i64>, _> = x509_parser::pem::Pem::iter_from_buffer(pem.as_bytes())
        .map(|pem| {
            let pem = pem.map_err(|error| error.to_string())?;
            let certificate = pem.parse_x509().map_err(|error| error.to_string())?;
            Ok::<_, String>(certificate.validity().not_after.timestamp())
        })
        .collect();
    let first = match ends.map(|ends| ends.into_iter().min()) {
        Ok(Some(first)) => first,
        Ok(None) => return Check::broken(check, "no certificate found", "check the server log"),
        Err(problem) => return Check::broken(check, problem, "check the server log"),
    };
    let Ok(end) = Timestamp::from_second(first) else {
        return Check::ok(check, "valid beyond the year 9999");
    };
    let left = end.duration_since(clock::now());
    if left.is_negative() {
        Check::broken(check, format!("expired on {end}"), "rotate it; devices can no longer connect")
    } else if left < EXPIRY_WARNING {
        Check::warning(check, format!("expires on {end}"), "rotate it while devices can still connect")
    } else {
        Check::ok(check, format!("valid for another {}", clock::span(left)))
    }
}

fn disk(data: &Path) -> Check {
    match rustix::fs::statvfs(data) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let shown = format!("{} MiB free in {}", free >> 20, data.display());
            if free < FREE_BYTES_MIN {
                Check::broken("disk", shown, "free disk space; the server rejects requests it cannot store")
            } else {
                Check::ok("disk", shown)
            }
        }
        Err(error) => Check::broken(
            "disk",
            format!("cannot read `{}`: {error}", data.display()),
            "check that the folder exists and can be read",
        ),
    }
}

/// Checks the key for sensitive values in its default location; nothing if it is elsewhere.
fn seal_key(data: &Path) -> Option<Check> {
    let path = data.join("seal.key");
    let mode = std::fs::metadata(&path).ok()?.permissions().mode();
    let shown = path.display();
    Some(if mode & 0o077 != 0 {
        Check::warning("key", format!("{shown} is readable by other users"), format!("chmod 600 {shown}"))
    } else {
        Check::ok("key", format!("{shown} is readable only by its owner; keep a copy with every database backup"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_a_next_step_other_than_itself_when_no_server_answers() {
        assert!(not_reached("http://127.0.0.1:8080").starts_with("start the server with `margrave serve"));
        assert!(not_reached("https://[::1]:8080").starts_with("start the server"));
        assert!(not_reached("https://fleet.example:8443").starts_with("check that the server runs"));
    }

    #[test]
    fn warns_about_a_key_readable_by_other_users() {
        let folder = tempfile::tempdir().unwrap();
        assert!(seal_key(folder.path()).is_none(), "stored elsewhere");
        let path = folder.path().join("seal.key");
        std::fs::write(&path, "mgvk_").unwrap();
        for (mode, state) in [(0o600, State::Ok), (0o640, State::Warning)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(seal_key(folder.path()).unwrap().state, state, "{mode:o}");
        }
    }

    #[test]
    fn accepts_a_server_clock_between_two_local_readings() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let before = at("2026-01-01T00:00:00Z");
        let after = at("2026-01-01T00:00:02Z");
        assert_eq!(skew(before, at("2026-01-01T00:00:01Z"), after).state, State::Ok);
        assert_eq!(skew(before, at("2026-01-01T00:10:00Z"), after).state, State::Broken);
        assert_eq!(skew(before, at("2025-12-31T23:00:00Z"), after).state, State::Broken);
    }

    #[test]
    fn reports_an_invalid_pem() {
        assert_eq!(certificates("anchors", "").state, State::Broken);
    }

    #[test]
    fn warns_about_a_different_server_version() {
        assert_eq!(version("0.0.1").state, State::Warning);
        assert_eq!(version(env!("CARGO_PKG_VERSION")).state, State::Ok);
    }
}
