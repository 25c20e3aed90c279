//! Validation of a configuration: syntax, values, and the files and programs it names on this machine.

use super::{AgentConfig, ConfigError, DayWindow, EXAMPLE, KubernetesConfig, LONG_POLL_MAX};
use margrave_core::settings::{self, Problem, Reading};
use rustix::fs::{Access, access};
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Checks the text only.
    Settings,
    /// Also checks files and programs of this machine.
    Machine,
}

pub(super) fn read(path: &Path, text: &str, depth: Depth) -> Result<AgentConfig, ConfigError> {
    let Reading { settings, mut problems, places } = settings::read::<AgentConfig>(text, &known());
    if let Some(config) = &settings {
        let mut found = odd(config);
        if depth == Depth::Machine {
            found.extend(missing(config));
        }
        for (key, text) in found {
            if problems.iter().all(|problem| problem.key != key) {
                problems.push(Problem { place: places.get(&key).copied(), key, text });
            }
        }
    }
    problems.sort_by_key(|problem| (problem.place.is_none(), problem.place));
    match settings {
        Some(config) if problems.is_empty() => Ok(AgentConfig { file: Some(path.to_owned()), ..config }),
        _ => Err(ConfigError::Unusable { path: path.to_owned(), problems }),
    }
}

/// All keys: the example contains them all, which a test checks.
pub(super) fn known() -> Vec<String> {
    let table: toml::Table = toml::from_str(&uncommented()).unwrap_or_default();
    let mut keys = Vec::new();
    collect("", &table, &mut keys);
    keys
}

/// The example with its commented-out settings enabled.
pub(super) fn uncommented() -> String {
    let is_setting =
        |rest: &str| rest.starts_with('[') || rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
    let lines = EXAMPLE.lines().map(|line| line.strip_prefix("# ").filter(|rest| is_setting(rest)).unwrap_or(line));
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn collect(prefix: &str, table: &toml::Table, keys: &mut Vec<String>) {
    for (name, value) in table {
        match value {
            toml::Value::Table(inner) => collect(&format!("{prefix}{name}."), inner, keys),
            _ => keys.push(format!("{prefix}{name}")),
        }
    }
}

/// Values that are invalid on every machine.
pub(super) fn odd(config: &AgentConfig) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut refuse = |key: &str, text: String| found.push((key.to_owned(), text));
    let poll = &config.poll;
    for (key, time) in
        [("poll.period", poll.period), ("retry.first", config.retry.first), ("observe_period", config.observe_period)]
    {
        if time.is_zero() {
            refuse(key, "must be greater than zero".to_owned());
        }
    }
    if poll.long_poll > LONG_POLL_MAX {
        refuse("poll.long_poll", "must be at most one hour; `0s` disables it".to_owned());
    }
    if !(0.0..=0.9).contains(&poll.jitter) {
        refuse("poll.jitter", "must be a fraction of the period, 0.0 to 0.9".to_owned());
    }
    for (key, texts) in [("poll.hours", &poll.hours), ("poll.downtime", &poll.downtime)] {
        if let Some(error) = texts.iter().find_map(|text| text.parse::<DayWindow>().err()) {
            refuse(key, error.to_string());
        }
    }
    // A small device may have no time zone database; UTC is always known.
    if poll.time_zone != "UTC" && jiff::tz::TimeZone::get(&poll.time_zone).is_err() {
        refuse("poll.time_zone", format!("`{}` is not a known time zone", poll.time_zone));
    }
    for (at, registry) in config.registry.iter().enumerate() {
        let key = |name: &str| format!("registry[{at}].{name}");
        if registry.host.is_empty() {
            refuse(&key("host"), "is missing; set for example `registry.example:5000`".to_owned());
        }
        if registry.password_file.is_some() && registry.token_file.is_some() {
            refuse(&key("token_file"), "cannot be combined with `password_file`; keep one".to_owned());
        }
        if registry.password_file.is_some() != registry.username.is_some() && registry.token_file.is_none() {
            refuse(&key("username"), "and `password_file` must be set together".to_owned());
        }
    }
    if config.telemetry.protocol.as_deref().is_some_and(|text| !matches!(text, "grpc" | "http/protobuf")) {
        refuse("telemetry.protocol", "must be `grpc` or `http/protobuf`".to_owned());
    }
    if config.compose.as_ref().is_some_and(|compose| compose.command.is_empty()) {
        refuse("compose.command", "names no program; set for example [\"docker\", \"compose\"]".to_owned());
    }
    if let Some(kubernetes) = &config.kubernetes {
        check_kubernetes_values(kubernetes, &mut refuse);
    }
    found
}

fn check_kubernetes_values(kubernetes: &KubernetesConfig, refuse: &mut impl FnMut(&str, String)) {
    let types = &kubernetes.deployment_types;
    if types.is_empty() || types.iter().any(|known| !matches!(known.as_str(), "helm" | "custom")) {
        refuse(
            "kubernetes.deployment_types",
            "must be a list of `helm` and `custom`, with at least one of them".to_owned(),
        );
    }
    if kubernetes.helm.as_os_str().is_empty() {
        refuse("kubernetes.helm", "names no program; set for example `helm`".to_owned());
    }
    if kubernetes.context.is_some() && kubernetes.kubeconfig.is_none() {
        refuse("kubernetes.context", "needs a kubeconfig; set `kubernetes.kubeconfig`".to_owned());
    }
    if let Some(namespace) = &kubernetes.namespace
        && let Err(reason) = crate::runtimes::kubernetes::names::check_namespace(namespace)
    {
        refuse("kubernetes.namespace", reason);
    }
}

/// Named files and folders that cannot be used.
fn missing(config: &AgentConfig) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let identity = &config.identity;
    let named = [
        ("device.capabilities", &config.device.capabilities),
        ("boot.preload", &config.boot.preload),
        ("identity.certificate", &identity.certificate),
        ("identity.key", &identity.key),
        ("identity.trust_bundle", &identity.trust_bundle),
        ("trust.ca_file", &config.trust.ca_file),
        ("simulated.script", &config.simulated.script),
        ("telemetry.certificate", &config.telemetry.certificate),
    ];
    let named = named.into_iter().filter_map(|(key, path)| Some((key.to_owned(), path.as_deref()?)));
    let children = config.child.iter().enumerate();
    let children = children.map(|(at, child)| (format!("child[{at}].capabilities"), child.capabilities.as_path()));
    let password = config.proxy.iter().filter_map(|proxy| proxy.password_file.as_deref());
    let password = password.map(|path| ("proxy.password_file".to_owned(), path));
    let registries = config.registry.iter().enumerate().flat_map(|(at, registry)| {
        let files = [
            ("ca_file", &registry.ca_file),
            ("password_file", &registry.password_file),
            ("token_file", &registry.token_file),
        ];
        files.into_iter().filter_map(move |(name, path)| Some((format!("registry[{at}].{name}"), path.as_deref()?)))
    });
    for (key, path) in named.chain(children).chain(password).chain(registries) {
        if let Err(error) = std::fs::File::open(path) {
            found.push((key, format!("`{}` cannot be read: {error}", path.display())));
        }
    }
    if let Some(kubernetes) = &config.kubernetes
        && let Err(reason) = crate::runtimes::kubernetes::check_access(kubernetes)
    {
        found.push(("kubernetes.kubeconfig".to_owned(), reason));
    }
    if let Some(kubernetes) = config.kubernetes.as_ref().filter(|kubernetes| kubernetes.runs("helm"))
        && !is_program(&kubernetes.helm)
    {
        let text =
            format!("the program `{}` does not exist; install it, or configure another", kubernetes.helm.display());
        found.push(("kubernetes.helm".to_owned(), text));
    }
    let folder = config.state_dir.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        found.push(("state_dir".to_owned(), format!("`{}` is not a folder", folder.display())));
    } else if let Err(error) = access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        let text = format!("the folder `{}` cannot be written to: {error}", folder.display());
        found.push(("state_dir".to_owned(), text));
    }
    found
}

/// A path to a program, or the name of one in `PATH`.
fn is_program(program: &Path) -> bool {
    let can_run = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if program.components().count() > 1 {
        return can_run(program);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| can_run(&folder.join(program)))
}
