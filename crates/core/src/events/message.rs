//! The sentence about an event, rendered from its kind, its subject and its data.

use super::{About, KINDS, MESSAGE_CHARS_MAX, shorten};
use margo::status::State;
use serde_json::Value;

/// One line for people, of at most [`MESSAGE_CHARS_MAX`] characters. Data that is missing shortens the sentence.
pub fn message(kind: &str, about: &About, detail: Option<&Value>) -> String {
    one_line(sentence(kind, about, Data(detail)))
}

/// What the report of a device about a deployment says beyond its state; empty if nothing.
pub fn report_remark(detail: Option<&Value>) -> String {
    let data = Data(detail);
    let retried = data.is_retry().then(|| RETRIED.to_owned());
    let parts: Vec<String> = [retried, data.error()].into_iter().flatten().collect();
    one_line(parts.join(": "))
}

const RETRIED: &str = "is being retried";

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

    fn is_retry(self) -> bool {
        self.member("retry").0 == Some(&Value::Bool(true))
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
    let does = if data.is_retry() {
        RETRIED.to_owned()
    } else if state == State::Failed.as_str() {
        "failed".to_owned()
    } else {
        format!("is {state}")
    };
    let error = data.error().map(|error| format!(": {error}")).unwrap_or_default();
    format!("{} {does}{error}", deployment(about, None))
}

fn finished(about: &About, data: Data<'_>) -> String {
    let rollout = about.rollout.as_deref().map(|id| format!(" `{id}`")).unwrap_or_default();
    let published = data.number("published").map(|published| format!(": {}", devices(published))).unwrap_or_default();
    let skipped = data.number("skipped").filter(|skipped| *skipped > 0);
    let skipped = skipped.map(|skipped| format!(", {skipped} skipped")).unwrap_or_default();
    format!("rollout{rollout} was published{published}{skipped}")
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
