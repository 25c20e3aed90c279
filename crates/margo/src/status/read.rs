//! Reads a DeploymentStatus as leniently as clients in the field require (W-12, W-14).

use super::{ComponentStatus, DeploymentStatus, State, StatusError};
use crate::node::Scalar;
use crate::reader::{Cursor, Object, shown};

const KINDS: [&str; 2] = ["DeploymentStatusManifest", "DeploymentStatus"];

pub(super) fn status(root: &Cursor<'_>) -> Option<DeploymentStatus> {
    let object = root.object()?;
    let older = envelope(&object);
    let deployment_id = object.required("deploymentId").and_then(|cursor| cursor.parse());
    let device_id = match object.get("deviceId") {
        Some(cursor) => cursor.parse().map(Some),
        None => Some(None),
    };
    let adopted = adopted_manifest_version(&object, older);
    let overall = object.required("status").and_then(|cursor| {
        let object = cursor.object()?;
        let state = object.required("state").and_then(|cursor| state(&cursor));
        let error = object.optional("error", error);
        object.warn_unread();
        Some((state?, error))
    });
    let components = object.required("components").and_then(|cursor| cursor.list_of(component));
    object.warn_unread();
    let (state, error) = overall?;
    let components = components?;
    // ST-03
    if let Some(expected) = State::overall(components.iter().map(|component| component.state))
        && expected != state
    {
        let (state, expected) = (state.as_str(), expected.as_str());
        root.warning(format!("says {state}, but the components together are {expected}"));
    }
    Some(DeploymentStatus {
        deployment_id: deployment_id?,
        device_id: device_id?,
        adopted_manifest_version: adopted?,
        state,
        error,
        components,
    })
}

/// Whether the report has the envelope of generation A.
fn envelope(object: &Object<'_>) -> bool {
    let api_version = object.get("apiVersion");
    let kind = object.get("kind");
    if let Some(cursor) = &kind {
        match cursor.text() {
            Some(text) if KINDS.contains(&text.as_str()) => {}
            Some(text) => cursor.error(format!("is `{}`, but this must be a {}", shown(&text), KINDS[0])),
            None => {}
        }
    }
    api_version.is_some() || kind.is_some()
}

/// A whole number, or its digits as text (W-12).
fn adopted_manifest_version(object: &Object<'_>, older: bool) -> Option<u64> {
    let Some(cursor) = object.get("adoptedManifestVersion") else {
        if older {
            // Generation A has no such field.
            object.cursor().warning("has no `adoptedManifestVersion`; it counts as unknown");
            return Some(0);
        }
        object.missing("adoptedManifestVersion", "is missing");
        return None;
    };
    let Some(Scalar::Text(text)) = cursor.scalar() else { return cursor.unsigned() };
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(version) if digits => {
            cursor.warning("is text; write the number without quotes");
            Some(version)
        }
        _ => {
            cursor.error("must be a whole number from 0 to 18446744073709551615");
            None
        }
    }
}

fn state(cursor: &Cursor<'_>) -> Option<State> {
    let text = cursor.text()?;
    let state = State::parse(&text);
    if state.is_none() {
        let known = State::ALL.map(State::as_str).join(", ");
        cursor.error(format!("`{}` is not a state; it must be one of {known}", shown(&text)));
    }
    state
}

fn component(cursor: &Cursor<'_>) -> Option<ComponentStatus> {
    let object = cursor.object()?;
    let name = object.required_text("name");
    let state = object.required("state").and_then(|cursor| state(&cursor));
    let error = object.optional("error", error);
    object.warn_unread();
    Some(ComponentStatus { name: name?, state: state?, error })
}

/// Members may be missing, empty or numbers; an empty error counts as none (W-14).
fn error(cursor: &Cursor<'_>) -> Option<StatusError> {
    let object = cursor.object()?;
    let member = |key: &str| match object.get(key).map(|cursor| (cursor.scalar(), cursor)) {
        Some((Some(Scalar::Text(text)), _)) => text,
        Some((Some(Scalar::Number(number)), _)) => number.to_string(),
        Some((_, cursor)) => {
            cursor.warning("is ignored: it is not text");
            String::new()
        }
        None => String::new(),
    };
    let error = StatusError { code: member("code"), source: member("source"), message: member("message") };
    object.warn_unread();
    (error != StatusError::default()).then_some(error)
}
