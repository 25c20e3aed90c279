use super::{DETAIL_BYTES_MAX, MESSAGE_CHARS_MAX, NewEvent, of_audit};
use crate::model::AuditRecord;
use crate::time::Timestamp;
use serde_json::{Value, json};

fn record(action: &str, subject: &str, after: Value) -> AuditRecord {
    AuditRecord {
        seq: 7,
        at: Timestamp(1),
        actor: "token:ci".into(),
        reason: Some("to see".into()),
        request_id: None,
        action: action.into(),
        subject: subject.into(),
        before: None,
        after: Some(after),
        previous_hash: String::new(),
        hash: String::new(),
    }
}

#[test]
fn a_record_names_what_it_is_about() {
    let event = of_audit(&record("device.report", "device/gw/gw/camera-1", json!({ "capabilities": "sha256:0" })));
    assert_eq!(event.kind, "device.reported");
    assert_eq!((event.about.client.as_deref(), event.about.device.as_deref()), (Some("gw"), Some("gw/camera-1")));
    assert_eq!(event.message, "device `gw/camera-1` of client `gw` reported its capabilities");

    let event = of_audit(&record("device.label", "device/press/press", json!({})));
    assert_eq!(event.message, "device `press` was labelled", "the name once is enough");
    let event = of_audit(&record("client.ask", "client/press", json!({ "state": "pending" })));
    assert_eq!((event.kind.as_str(), event.message.as_str()), ("client.asked", "client `press` asks to be let in"));

    let after = json!({ "client": "gw", "target": "gw/camera-1", "application": "vision", "version": "1.2", "change": "c",
                        "revision": 3, "secret": "hidden" });
    let event = of_audit(&record("deployment.create", "deployment/d", after));
    assert_eq!(event.kind, "deployment.assigned");
    let about = &event.about;
    let names = [&about.client, &about.device, &about.deployment, &about.application, &about.change];
    assert_eq!(names.map(|name| name.as_deref().unwrap()), ["gw", "gw/camera-1", "d", "vision", "c"]);
    assert_eq!(event.detail, Some(json!({ "version": "1.2", "revision": 3, "audit": 7, "reason": "to see" })));
}

#[test]
fn an_action_without_a_name_of_its_own_is_its_own_kind() {
    let event = of_audit(&record("registry.push", "repository/vision", json!({ "reference": "1.2" })));
    assert_eq!((event.kind.as_str(), event.message.as_str()), ("registry.push", "repository `vision` (push)"));
    assert_eq!(event.actor.as_deref(), Some("token:ci"));
}

#[test]
fn an_event_stays_within_its_bounds() {
    let event = NewEvent::new("x.y", super::About::default(), "ä\n".repeat(MESSAGE_CHARS_MAX))
        .with(json!("x".repeat(DETAIL_BYTES_MAX)))
        .bounded();
    assert_eq!(event.message.chars().count(), MESSAGE_CHARS_MAX + 1);
    assert!(!event.message.contains('\n'));
    assert_eq!(event.detail, None);
}
