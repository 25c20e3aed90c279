//! What happened, for whoever watches: small, without secrets, and made from the audit wherever there is a record.

#[cfg(test)]
mod tests;

use crate::model::AuditRecord;
use crate::time::Timestamp;
use serde_json::{Map, Value, json};

/// Enough for an error of a device to be understood; more of it is with the deployment.
pub const MESSAGE_CHARS_MAX: usize = 400;
/// Details are a few names and numbers; what does not fit is left out as a whole, and the record of the audit has it.
pub const DETAIL_BYTES_MAX: usize = 2048;
/// Names are bounded where they come from; this is for those that come from a device without a bound of their own.
const KIND_CHARS_MAX: usize = 100;

/// Something that happened, with its place in the order of all events.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Counts up, one by one, in the order of commits.
    pub id: i64,
    pub at: Timestamp,
    pub what: NewEvent,
}

/// Something that happened and is about to be written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewEvent {
    /// Dotted: the noun, then what became of it, such as `deployment.failed`.
    pub kind: String,
    pub about: About,
    /// Who did it: `operator:admin`, `token:ci`, `client:press-07`, `system`.
    pub actor: Option<String>,
    /// One sentence for people.
    pub message: String,
    pub detail: Option<Value>,
}

/// The things an event is about; also what it can be found by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    pub client: Option<String>,
    pub device: Option<String>,
    pub deployment: Option<String>,
    pub application: Option<String>,
    pub change: Option<String>,
}

impl NewEvent {
    pub fn new(kind: impl Into<String>, about: About, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), about, actor: None, message: message.into(), detail: None }
    }

    #[must_use]
    pub fn by(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    #[must_use]
    pub fn with(mut self, detail: Value) -> Self {
        self.detail = Some(detail);
        self
    }

    /// The same within its bounds.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        shorten(&mut self.kind, KIND_CHARS_MAX);
        shorten(&mut self.message, MESSAGE_CHARS_MAX);
        // A line is a line wherever it is printed.
        if self.message.contains(char::is_control) {
            self.message = self.message.replace(char::is_control, " ");
        }
        self.detail = self.detail.filter(|detail| detail.to_string().len() <= DETAIL_BYTES_MAX);
        self
    }
}

fn shorten(text: &mut String, chars_max: usize) {
    if let Some((end, _)) = text.char_indices().nth(chars_max) {
        text.truncate(end);
        text.push('…');
    }
}

/// The event of a record in the audit. An action nobody has named here becomes its own kind.
pub fn of_audit(record: &AuditRecord) -> NewEvent {
    let (kind, verb) = name(&record.action);
    let state = record.after.as_ref().or(record.before.as_ref());
    let text = |member: &str| state.and_then(|state| state.get(member)).and_then(Value::as_str).map(str::to_owned);
    let (noun, rest) = record.subject.split_once('/').unwrap_or((record.subject.as_str(), ""));
    let mut about = About::default();
    let subject = match noun {
        "client" => {
            about.client = Some(rest.to_owned());
            format!("client `{rest}`")
        }
        "device" => {
            let (client, device) = rest.split_once('/').unwrap_or((rest, rest));
            about.client = Some(client.to_owned());
            about.device = Some(device.to_owned());
            // Most devices are called like their client; the name once is enough.
            if client == device {
                format!("device `{device}`")
            } else {
                format!("device `{device}` of client `{client}`")
            }
        }
        "deployment" => {
            about.deployment = Some(rest.to_owned());
            about.client = text("client");
            about.device = text("target");
            about.application = text("application");
            about.change = text("change");
            let application = about.application.as_deref().unwrap_or_default();
            let version = text("version").unwrap_or_default();
            format!("application `{application}` {version} on `{}`", about.device.as_deref().unwrap_or_default())
        }
        "application" => {
            let (application, version) = rest.split_once('/').unwrap_or((rest, ""));
            about.application = Some(application.to_owned());
            format!("application `{application}` {version}").trim_end().to_owned()
        }
        "change" => {
            about.change = Some(rest.to_owned());
            about.application = text("application");
            let targets = state.and_then(|state| state.get("targets")).and_then(Value::as_u64).unwrap_or_default();
            let application = about.application.as_deref().unwrap_or_default();
            let devices = if targets == 1 { "1 device".to_owned() } else { format!("{targets} devices") };
            format!("change `{rest}`: {} `{application}` for {devices}", text("kind").unwrap_or_default())
        }
        "session" => format!("web session of `{}`", text("name").unwrap_or_else(|| rest.to_owned())),
        "token" => format!("token `{}`", text("name").unwrap_or_else(|| rest.to_owned())),
        _ if rest.is_empty() => noun.to_owned(),
        noun => format!("{noun} `{rest}`"),
    };
    let message = match noun {
        "change" => subject,
        _ => format!("{subject} {verb}"),
    };
    NewEvent { kind, about, actor: Some(record.actor.clone()), message, detail: Some(detail(record, state)) }
}

/// Members of a record that tell what happened; everything else stays in the audit, found by its number.
const TELLING: [&str; 11] = [
    "version",
    "revision",
    "profile",
    "state",
    "kind",
    "targets",
    "name",
    "selector",
    "expiresAt",
    "reference",
    "digest",
];

fn detail(record: &AuditRecord, state: Option<&Value>) -> Value {
    let mut detail = Map::new();
    for member in TELLING {
        if let Some(value) = state.and_then(|state| state.get(member)).filter(|value| !value.is_null()) {
            detail.insert(member.to_owned(), value.clone());
        }
    }
    detail.insert("audit".to_owned(), json!(record.seq));
    if let Some(reason) = &record.reason {
        detail.insert("reason".to_owned(), json!(reason));
    }
    Value::Object(detail)
}

/// The kind of an action, and how a sentence about it goes on.
fn name(action: &str) -> (String, String) {
    let (kind, verb) = match action {
        "client.create" => ("client.created", "was created"),
        "client.ask" => ("client.asked", "asks to be let in"),
        "client.accept" => ("client.accepted", "was accepted"),
        "client.suspend" => ("client.suspended", "was suspended"),
        "client.retire" => ("client.retired", "was retired"),
        "client.enrol" => ("client.enrolled", "enrolled"),
        "client.svid" => ("client.certified", "was issued a certificate"),
        "client.preload" => ("client.prepared", "had its desired state signed for a first boot"),
        "client.pull-credentials" => ("client.pull-credentials", "was given credentials to pull with"),
        "enrolment.create" => ("client.invited", "may enrol with a new token"),
        "manifest.raise" => ("client.raised", "is ahead of this server: published above its version"),
        "manifest.renew" => ("client.told-again", "was told again what to run"),
        "device.report" => ("device.reported", "reported its capabilities"),
        "device.remove" => ("device.removed", "was removed"),
        "device.label" => ("device.labelled", "was labelled"),
        "group.create" => ("group.created", "was created"),
        "group.change" => ("group.changed", "was changed"),
        "group.delete" => ("group.deleted", "was deleted"),
        "token.create" => ("token.created", "was created"),
        "token.revoke" => ("token.revoked", "was revoked"),
        "operator.create" => ("operator.created", "was created"),
        "operator.password" => ("operator.password", "has a new password"),
        "session.refuse" => ("session.refused", "could not sign in: wrong name or password"),
        "session.create" => ("session.opened", "was opened"),
        "session.end" => ("session.ended", "was ended"),
        "enrolment.withdraw" => ("client.uninvited", "may not enrol with the tokens it was given any more"),
        "registry.add" => ("registry.added", "was added"),
        "registry.change" => ("registry.changed", "was changed"),
        "registry.remove" => ("registry.removed", "was removed"),
        "registry.check" => ("registry.checked", "was checked"),
        "application.import" => ("application.added", "was added to the catalog"),
        "application.delete" => ("application.removed", "was removed from the catalog"),
        "change.cancel" => ("change.cancelled", ""),
        "change.create" => ("change.created", ""),
        "deployment.create" => ("deployment.assigned", "is to be installed"),
        "deployment.reconfigure" => ("deployment.reconfigured", "is to run with other answers"),
        "deployment.upgrade" => ("deployment.upgraded", "is to be installed instead of what is there"),
        "deployment.remove" => ("deployment.unassigned", "is to be removed"),
        other => {
            let verb = other.rsplit('.').next().unwrap_or(other);
            return (other.to_owned(), format!("({verb})"));
        }
    };
    (kind.to_owned(), verb.to_owned())
}
