//! Events for people and programs that follow the fleet: small, without secrets, derived from the audit log where
//! possible. An event stores its kind and data; [`message`] renders its sentence when it is read.

mod message;
#[cfg(test)]
mod tests;

pub use message::{message, remark, subject_name};

use crate::model::AuditRecord;
use crate::time::Timestamp;
use margo::status::State;
use serde_json::{Map, Value, json};

/// Long enough to understand the error of a device; the deployment has the full text.
pub const MESSAGE_CHARS_MAX: usize = 400;
/// Details are a few names and numbers. Long texts in them are shortened to fit; the audit record or the deployment has
/// them in full.
pub const DETAIL_BYTES_MAX: usize = 2048;
/// Shorter texts in details are names and digests, which are useless when cut.
const DETAIL_TEXT_CHARS_MIN: usize = 32;
/// Most names are bounded at their source; this limit is for names from a device that have no bound of their own.
const KIND_CHARS_MAX: usize = 100;

/// An event with its position in the order of all events.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Increases by one with each event, in commit order.
    pub id: i64,
    pub at: Timestamp,
    pub what: NewEvent,
}

/// An event to be written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewEvent {
    /// Dotted: the noun, then what happened to it, such as `deployment.failed`.
    pub kind: String,
    pub about: About,
    /// Who did it: `operator:admin`, `token:ci`, `client:press-07`, `system`.
    pub actor: Option<String>,
    /// Everything that the sentence about the event needs beyond `about`.
    pub detail: Option<Value>,
}

/// The objects an event is about; events can be filtered by them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    pub client: Option<String>,
    pub device: Option<String>,
    pub deployment: Option<String>,
    pub application: Option<String>,
    pub rollout: Option<String>,
}

impl NewEvent {
    pub fn new(kind: impl Into<String>, about: About) -> Self {
        Self { kind: kind.into(), about, actor: None, detail: None }
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

    /// Cuts kind and detail to their limits: the longest texts of the detail first. A detail that is too large even
    /// then, because of its many members, is dropped.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        shorten(&mut self.kind, KIND_CHARS_MAX);
        let fits = |detail: &Value| detail.to_string().len() <= DETAIL_BYTES_MAX;
        if let Some(detail) = &mut self.detail {
            let mut chars_max = DETAIL_BYTES_MAX / 2;
            while !fits(detail) && chars_max >= DETAIL_TEXT_CHARS_MIN {
                shorten_texts(detail, chars_max);
                chars_max /= 2;
            }
        }
        self.detail = self.detail.filter(fits);
        self
    }
}

fn shorten_texts(value: &mut Value, chars_max: usize) {
    match value {
        Value::String(text) => shorten(text, chars_max),
        Value::Array(values) => values.iter_mut().for_each(|value| shorten_texts(value, chars_max)),
        Value::Object(members) => members.values_mut().for_each(|value| shorten_texts(value, chars_max)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn shorten(text: &mut String, chars_max: usize) {
    if let Some((end, _)) = text.char_indices().nth(chars_max) {
        text.truncate(end);
        text.push('…');
    }
}

/// The event for an audit record. An action without an entry in [`KINDS`] becomes its own kind.
pub fn of_audit(record: &AuditRecord) -> NewEvent {
    let kind =
        KINDS.iter().find(|(action, ..)| *action == record.action).map_or(record.action.as_str(), |(_, kind, _)| kind);
    let state = record.after.as_ref().or(record.before.as_ref());
    let text = |member: &str| state.and_then(|state| state.get(member)).and_then(Value::as_str).map(str::to_owned);
    let (noun, rest) = record.subject.split_once('/').unwrap_or((record.subject.as_str(), ""));
    let mut about = About::default();
    match noun {
        "client" => about.client = Some(rest.to_owned()),
        "device" => {
            let (client, device) = rest.split_once('/').unwrap_or((rest, rest));
            about.client = Some(client.to_owned());
            about.device = Some(device.to_owned());
        }
        "deployment" => {
            about.deployment = Some(rest.to_owned());
            about.client = text("client");
            about.device = text("target");
            about.application = text("application");
            about.rollout = text("rollout");
        }
        "application" => {
            let (application, _) = rest.split_once('/').unwrap_or((rest, ""));
            about.application = Some(application.to_owned());
        }
        "rollout" => {
            about.rollout = Some(rest.to_owned());
            about.application = text("application");
        }
        _ => {}
    }
    NewEvent { kind: kind.to_owned(), about, actor: Some(record.actor.clone()), detail: Some(detail(record, state)) }
}

/// Members of a record that are copied into an event; the rest stays in the audit log under its sequence number.
const COPIED_MEMBERS: [&str; 12] = [
    "rollbackTo",
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
    for member in COPIED_MEMBERS {
        if let Some(value) = state.and_then(|state| state.get(member)).filter(|value| !value.is_null()) {
            detail.insert(member.to_owned(), value.clone());
        }
    }
    if record.action == "device.label" {
        detail.insert("labels".to_owned(), label_changes(record));
    }
    detail.insert("subject".to_owned(), json!(record.subject));
    detail.insert("audit".to_owned(), json!(record.seq));
    if let Some(comment) = &record.comment {
        detail.insert("comment".to_owned(), json!(comment));
    }
    Value::Object(detail)
}

/// The labels that an operator set, and those that were removed.
fn label_changes(record: &AuditRecord) -> Value {
    let labels = |state: &Option<Value>| {
        state.as_ref().and_then(|state| state.get("labels")?.as_object().cloned()).unwrap_or_default()
    };
    let (before, after) = (labels(&record.before), labels(&record.after));
    let removed: Vec<&String> = before.keys().filter(|key| !after.contains_key(*key)).collect();
    let set: Map<String, Value> =
        after.clone().into_iter().filter(|(key, value)| before.get(key) != Some(value)).collect();
    json!({ "set": set, "removed": removed })
}

/// Kinds of events that no audit record causes.
const OBSERVED_KINDS: [&str; 5] =
    ["client.connected", "client.offline", "client.online", "rollout.finished", "server.started"];

/// All kinds of events that have a name of their own.
pub fn kinds() -> impl Iterator<Item = String> {
    let reported = State::ALL.into_iter().map(|state| format!("deployment.{}", state.as_str()));
    let caused = KINDS.iter().map(|(_, kind, _)| (*kind).to_owned());
    caused.chain(OBSERVED_KINDS.map(str::to_owned)).chain(reported)
}

/// The kind of the event for each action, and the predicate of the sentence about it.
const KINDS: [(&str, &str, &str); 40] = [
    ("client.create", "client.created", "was created"),
    ("client.request", "client.requested", "requested access"),
    ("client.accept", "client.accepted", "was accepted"),
    ("client.suspend", "client.suspended", "was suspended"),
    ("client.reject", "client.rejected", "was rejected"),
    ("client.decommission", "client.decommissioned", "was decommissioned"),
    ("client.enroll", "client.enrolled", "enrolled"),
    ("client.svid", "client.certified", "was issued a certificate"),
    ("client.preload", "client.prepared", "had its desired state exported for a first boot"),
    ("client.pull-credentials", "client.pull-credentials", "was issued pull credentials"),
    ("enrollment-token.create", "enrollment-token.created", "was issued an enrollment token"),
    ("manifest.raise", "client.raised", "had a newer manifest than this server: published above its version"),
    ("manifest.republish", "client.republished", "had its desired state republished"),
    ("device.report", "device.reported", "reported its capabilities"),
    ("device.remove", "device.removed", "was removed"),
    ("device.label", "device.labeled", "was labeled"),
    ("group.create", "group.created", "was created"),
    ("group.update", "group.updated", "was changed"),
    ("group.delete", "group.deleted", "was deleted"),
    ("token.create", "token.created", "was created"),
    ("token.revoke", "token.revoked", "was revoked"),
    ("operator.create", "operator.created", "was created"),
    ("operator.password", "operator.password", "has a new password"),
    ("session.reject", "session.rejected", "could not sign in: wrong name or password"),
    ("session.create", "session.opened", "was opened"),
    ("session.end", "session.ended", "was ended"),
    ("enrollment-token.revoke", "enrollment-token.revoked", "had its enrollment tokens revoked"),
    ("registry.add", "registry.added", "was added"),
    ("registry.update", "registry.updated", "was changed"),
    ("registry.remove", "registry.removed", "was removed"),
    ("registry.check", "registry.checked", "was checked"),
    ("application.import", "application.added", "was added to the catalog"),
    ("application.delete", "application.removed", "was removed from the catalog"),
    ("rollout.cancel", "rollout.cancelled", ""),
    ("rollout.create", "rollout.created", ""),
    ("deployment.create", "deployment.assigned", "was assigned"),
    ("deployment.reconfigure", "deployment.reconfigured", "was reconfigured"),
    ("deployment.roll-back", "deployment.rolled-back", "was rolled back"),
    ("deployment.upgrade", "deployment.upgraded", "was assigned as the new version"),
    ("deployment.remove", "deployment.unassigned", "was marked for removal"),
];
