//! Semantic checks of a well-formed configuration.

use super::Config;
use margo::ids::ClientId;
use margo::spiffe::TrustDomain;
use std::time::Duration;

/// One invalid setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub key: &'static str,
    /// What is wrong and what to do.
    pub text: String,
}

pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut refuse = |key, text: String| found.push(Problem { key, text });
    let Config { data_dir: _, offline_after, store, listeners, urls, https, identity, clients: _, .. } = config;

    if offline_after.0.is_zero() {
        refuse("offline_after", "must be greater than zero".to_owned());
    }
    if !(1..=64).contains(&store.readers) {
        refuse("store.readers", "must be between 1 and 64".to_owned());
    }
    let operators = &listeners.operators;
    if operators.enabled && !operators.speaks_tls() && !operators.address.ip().is_loopback() {
        refuse(
            "listeners.operators.tls",
            format!("plain HTTP is refused on {}: remove `tls` or use a loopback address", operators.address),
        );
    }
    let prefix = &listeners.devices.path_prefix;
    if !prefix.is_empty() && !is_prefix(prefix) {
        refuse(
            "listeners.devices.path_prefix",
            format!(
                "`{prefix}` is not a path: start with `/`, do not end with one, use letters, digits, `.`, `_`, `~`, `-`"
            ),
        );
    }
    for (key, url) in
        [("urls.devices", &urls.devices), ("urls.trust", &urls.trust), ("urls.operators", &urls.operators)]
    {
        let Some(url) = url else { continue };
        let usable = url::Url::parse(url).is_ok_and(|url| {
            // Operators may be served over plain HTTP on a loopback address.
            let scheme = url.scheme() == "https" || (url.scheme() == "http" && key == "urls.operators");
            scheme && url.has_host()
        });
        if !usable {
            refuse(key, format!("`{url}` is not an absolute https URL"));
        }
    }
    if https.certificate_file.is_some() != https.key_file.is_some() {
        refuse("https.key_file", "give both `certificate_file` and `key_file`, or neither".to_owned());
    }
    if let Err(error) = TrustDomain::parse(&identity.trust_domain) {
        refuse("identity.trust_domain", error.to_string());
    }
    if let Err(error) = identity.wfm_id.parse::<ClientId>() {
        refuse("identity.wfm_id", error.to_string());
    }
    // Certificates are backdated and renewed after two thirds: a shorter lifetime would leave almost no validity.
    let shortest = Duration::from_mins(1);
    for (key, span) in [
        ("https.lifetime", https.lifetime),
        ("identity.wfm_svid_lifetime", identity.wfm_svid_lifetime),
        ("identity.client_svid_lifetime", identity.client_svid_lifetime),
    ] {
        if span.0 < shortest {
            refuse(key, format!("{span} is shorter than one minute"));
        }
    }
    if identity.client_svid_lifetime > identity.client_svid_lifetime_max {
        refuse("identity.client_svid_lifetime", "is longer than `client_svid_lifetime_max`".to_owned());
    }
    if identity.bundle_refresh.0.is_zero() {
        refuse("identity.bundle_refresh", "must be greater than zero".to_owned());
    }
    if let Some(text) = store.url.as_deref().and_then(odd_store_url) {
        refuse("store.url", text);
    }
    addresses(config, &mut found);
    limits(config, &mut found);
    registry(config, &mut found);
    found
}

/// The message omits the URL itself, which may contain a password.
fn odd_store_url(url: &str) -> Option<String> {
    const FORM: &str = "write `postgres://user:password@host:5432/database` or `sqlite:///path/to/file.db`";
    let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
    match scheme {
        "sqlite" if rest.trim_matches('/').is_empty() => Some(format!("names no file: {FORM}")),
        "sqlite" => None,
        "postgres" | "postgresql" => match url::Url::parse(url) {
            Err(error) => Some(format!("is not a URL ({error}): {FORM}; write special characters as %XX")),
            Ok(url) if url.path().trim_matches('/').is_empty() => Some(format!("names no database: {FORM}")),
            Ok(url) if !url.has_host() && !url.query_pairs().any(|(name, _)| name == "host") => {
                Some(format!("names no host: {FORM}"))
            }
            Ok(_) => None,
        },
        _ => Some(format!("is not a supported database: {FORM}")),
    }
}

/// Two listeners cannot share a port of the same address.
fn addresses(config: &Config, found: &mut Vec<Problem>) {
    let listeners = &config.listeners;
    let all = [
        ("listeners.devices.address", listeners.devices.enabled, listeners.devices.address),
        ("listeners.trust.address", listeners.trust.enabled, listeners.trust.address),
        ("listeners.operators.address", listeners.operators.enabled, listeners.operators.address),
    ];
    for (index, (key, enabled, address)) in all.into_iter().enumerate() {
        let taken = all[..index].iter().find(|(_, other_enabled, other)| {
            let everywhere = other.ip().is_unspecified() || address.ip().is_unspecified();
            *other_enabled && other.port() == address.port() && (everywhere || other.ip() == address.ip())
        });
        if let Some((other, ..)) = taken
            && enabled
            && address.port() != 0
        {
            let port = address.port();
            found.push(Problem { key, text: format!("port {port} is also used by `{other}`: use another one") });
        }
    }
}

fn limits(config: &Config, found: &mut Vec<Problem>) {
    let Config { limits, retention, log, .. } = config;
    if limits.connections == 0 {
        found.push(Problem { key: "limits.connections", text: "must be at least 1".to_owned() });
    }
    if limits.event_streams == 0 || limits.event_streams_per_token == 0 {
        let text = "must be at least 1, both in total and per token".to_owned();
        found.push(Problem { key: "limits.event_streams", text });
    }
    for (key, span) in [
        ("limits.handshake_timeout", limits.handshake_timeout),
        ("limits.idle_timeout", limits.idle_timeout),
        ("limits.request_timeout", limits.request_timeout),
        ("limits.connection_age_max", limits.connection_age_max),
        ("retention.idempotency_keys", retention.idempotency_keys),
        ("retention.prune_every", retention.prune_every),
    ] {
        if span.0.is_zero() {
            found.push(Problem { key, text: "must be greater than zero".to_owned() });
        }
    }
    let long_poll_longest = Duration::from_hours(1);
    if limits.long_poll_max.0 > long_poll_longest {
        let text = format!("{} is longer than an hour; `0s` switches long polls off", limits.long_poll_max);
        found.push(Problem { key: "limits.long_poll_max", text });
    }
    if retention.revisions_per_deployment == 0 || retention.statuses_per_deployment == 0 {
        found.push(Problem {
            key: "retention.revisions_per_deployment",
            text: "keep at least one revision and one status".to_owned(),
        });
    }
    if let Err(error) = log.filter.parse::<tracing_subscriber::EnvFilter>() {
        found.push(Problem { key: "log.filter", text: error.to_string() });
    }
}

fn registry(config: &Config, found: &mut Vec<Problem>) {
    let registry = &config.registry;
    for (key, number) in [
        ("registry.uploads_at_once", registry.uploads_at_once),
        ("registry.uploads_open_max", registry.uploads_open_max),
    ] {
        if !(1..=1_000_000).contains(&number) {
            found.push(Problem { key, text: "must be between 1 and 1000000".to_owned() });
        }
    }
    for (key, span) in [("registry.upload_expiry", registry.upload_expiry), ("registry.gc_every", registry.gc_every)] {
        if span.0.is_zero() {
            found.push(Problem { key, text: "must be greater than zero".to_owned() });
        }
    }
}

fn is_prefix(text: &str) -> bool {
    text.strip_prefix('/').is_some_and(|rest| {
        rest.split('/').all(|segment| {
            !segment.is_empty()
                && segment.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'~' | b'-'))
        })
    })
}
