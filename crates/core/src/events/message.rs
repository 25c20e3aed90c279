//! The sentence about an event, rendered from its kind, its subject and its data.

use super::{About, KINDS, MESSAGE_CHARS_MAX, shorten};
use margo::status::State;
use serde_json::Value;

/// One line for people, of at most [`MESSAGE_CHARS_MAX`] characters. Data that is missing shortens the sentence.
pub fn message(kind: &str, about: &About, detail: Option<&Value>) -> String {
    one_line(sentence(kind, about, Data(detail)))
}

/// What an event says beyond its kind and its subject, for a reader who sees those two next to it; empty if nothing.
pub fn remark(kind: &str, detail: Option<&Value>) -> String {
    let data = Data(detail);
    let text = match kind {
        "client.offline" => data.text("lastSeenAt").map(|seen| format!("last seen at {seen}")),
        "device.labeled" => data.labels(),
        "deployment.rolled-back" => data.number("rollbackTo").map(|revision| format!("to revision {revision}")),
        "deployment.upgraded" => data.text("version").map(|version| format!("version {version}")),
        "rollout.created" => data.number("targets").map(|targets| format!("for {}", devices(targets))),
        "rollout.finished" => Some(published(data)),
        _ => data.error(),
    };
    one_line(text.unwrap_or_default())
}

/// The subject of an event, for a reader who sees its kind next to it.
pub fn subject_name(kind: &str, about: &About, detail: Option<&Value>) -> String {
    one_line(subject(kind, about, Data(detail)))
}

fn one_line(mut text: String) -> String {
    shorten(&mut text, MESSAGE_CHARS_MAX);
    text.replace(char::is_control, " ")
}

#[derive(Clone, Copy)]
struct Data<'a>(Option<&'a Value>);

impl<'a> Data<'a> {
    fn member(self, name: &str) -> Data<'a> {
        Self(self.0.and_then(|value| value.get(name)))
    }

    fn text(self, name: &str) -> Option<&'a str> {
        self.member(name).0.and_then(Value::as_str)
    }

    fn number(self, name: &str) -> Option<u64> {
        self.member(name).0.and_then(Value::as_u64)
    }

    /// `set line=3; removed zone`
    fn labels(self) -> Option<String> {
        let labels = self.member("labels");
        let set = labels.member("set").0.and_then(Value::as_object).into_iter().flatten();
        let set: Vec<String> =
            set.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
        let removed = labels.member("removed").0.and_then(Value::as_array).into_iter().flatten();
        let removed: Vec<&str> = removed.filter_map(Value::as_str).collect();
        let part = |verb: &str, names: String| (!names.is_empty()).then(|| format!("{verb} {names}"));
        let parts: Vec<String> =
            [part("set", set.join(", ")), part("removed", removed.join(", "))].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn error(self) -> Option<String> {
        let error = self.member("error");
        match (error.text("message"), error.text("code")) {
            (Some(message), Some(code)) => Some(format!("{message} ({code})")),
            (message, code) => message.or(code).map(str::to_owned),
        }
    }
}

fn sentence(kind: &str, about: &About, data: Data<'_>) -> String {
    let subject = || subject(kind, about, data);
    match kind {
        "client.connected" => format!("{} connected for the first time", subject()),
        "client.online" => format!("{} came online", subject()),
        "client.offline" => match data.text("lastSeenAt") {
            Some(seen) => format!("{} went offline: last seen at {seen}", subject()),
            None => format!("{} went offline", subject()),
        },
        "rollout.finished" => finished(about, data),
        "device.labeled" => match data.labels() {
            Some(labels) => format!("{} has new labels: {labels}", subject()),
            None => format!("{} was labeled", subject()),
        },
        "server.started" => {
            let name = data.text("server").map(|name| format!(" `{name}`")).unwrap_or_default();
            let version = data.text("version").map(|version| format!(" {version}")).unwrap_or_default();
            format!("server{name}{version} started")
        }
        _ => match kind.strip_prefix("deployment.").filter(|state| is_reported(state)) {
            Some(state) => reported(state, about, data),
            None => recorded(kind, &subject()),
        },
    }
}

fn is_reported(state: &str) -> bool {
    [State::Pending, State::Installing, State::Installed, State::Removing, State::Removed, State::Failed]
        .iter()
        .any(|known| known.as_str() == state)
}

/// The report of a device about a deployment.
fn reported(state: &str, about: &About, data: Data<'_>) -> String {
    let does = if state == State::Failed.as_str() { "failed".to_owned() } else { format!("is {state}") };
    let error = data.error().map(|error| format!(": {error}")).unwrap_or_default();
    format!("{} {does}{error}", deployment(about, None))
}

fn finished(about: &About, data: Data<'_>) -> String {
    let rollout = about.rollout.as_deref().map(|id| format!(" `{id}`")).unwrap_or_default();
    let published = published(data);
    let colon = if published.is_empty() { "" } else { ": " };
    format!("rollout{rollout} was published{colon}{published}")
}

/// `3 devices, 2 skipped`
fn published(data: Data<'_>) -> String {
    let published = data.number("published").map(devices);
    let skipped = data.number("skipped").filter(|skipped| *skipped > 0).map(|skipped| format!("{skipped} skipped"));
    [published, skipped].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The sentence about an audit record, and about every kind without one of its own.
fn recorded(kind: &str, subject: &str) -> String {
    match KINDS.iter().find(|(_, known, _)| *known == kind) {
        Some((.., "")) => subject.to_owned(),
        Some((.., predicate)) => format!("{subject} {predicate}"),
        None => format!("{subject} ({})", kind.rsplit('.').next().unwrap_or(kind)),
    }
}

/// The subject as the audit log names it; without one, the most specific object that the event is about.
fn subject(kind: &str, about: &About, data: Data<'_>) -> String {
    let Some(subject) = data.text("subject") else { return subject_of(kind, about, data) };
    let (noun, rest) = subject.split_once('/').unwrap_or((subject, ""));
    match noun {
        "client" | "device" | "deployment" | "rollout" => subject_of(kind, about, data),
        "application" => {
            let (application, version) = rest.split_once('/').unwrap_or((rest, ""));
            format!("application `{application}` {version}").trim_end().to_owned()
        }
        "session" => format!("web session of `{}`", data.text("name").unwrap_or(rest)),
        "token" => format!("token `{}`", data.text("name").unwrap_or(rest)),
        _ if rest.is_empty() => noun.to_owned(),
        noun => format!("{noun} `{rest}`"),
    }
}

fn subject_of(kind: &str, about: &About, data: Data<'_>) -> String {
    let About { client, device, deployment: id, application, rollout } = about;
    match (id, rollout, device, client, application) {
        (Some(_), ..) => deployment(about, data.text("version")),
        (None, Some(rollout), ..) => {
            let what = [data.text("kind").map(str::to_owned), application.as_ref().map(|id| format!("`{id}`"))];
            let targets = data.number("targets").map(|targets| format!("for {}", devices(targets)));
            let what: Vec<String> = what.into_iter().chain([targets]).flatten().collect();
            if what.is_empty() {
                format!("rollout `{rollout}`")
            } else {
                format!("rollout `{rollout}`: {}", what.join(" "))
            }
        }
        // Most devices have the name of their client; one mention is enough.
        (None, None, Some(device), Some(client), _) if client != device => {
            format!("device `{device}` of client `{client}`")
        }
        (None, None, Some(device), ..) => format!("device `{device}`"),
        (None, None, None, Some(client), _) => format!("client `{client}`"),
        (None, None, None, None, Some(application)) => format!("application `{application}`"),
        (None, None, None, None, None) => kind.split('.').next().unwrap_or(kind).to_owned(),
    }
}

fn deployment(about: &About, version: Option<&str>) -> String {
    let About { device, deployment, application, .. } = about;
    let version = version.map(|version| format!(" {version}")).unwrap_or_default();
    let place = device.as_ref().map(|device| format!(" on `{device}`")).unwrap_or_default();
    match application {
        Some(application) => format!("application `{application}`{version}{place}"),
        None => {
            let id = deployment.as_ref().map(|id| format!(" `{id}`")).unwrap_or_default();
            format!("deployment{id}{place}")
        }
    }
}

fn devices(count: u64) -> String {
    if count == 1 { "1 device".to_owned() } else { format!("{count} devices") }
}
