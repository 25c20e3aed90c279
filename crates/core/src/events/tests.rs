use super::{About, DETAIL_BYTES_MAX, KINDS, MESSAGE_CHARS_MAX, NewEvent, message, of_audit, remark, subject_name};
use crate::model::AuditRecord;
use crate::time::Timestamp;
use serde_json::{Value, json};

fn record(action: &str, subject: &str, after: Value) -> AuditRecord {
    AuditRecord {
        seq: 7,
        at: Timestamp(1),
        actor: "token:ci".into(),
        comment: Some("to see".into()),
        request_id: None,
        action: action.into(),
        subject: subject.into(),
        before: None,
        after: Some(after),
        previous_hash: String::new(),
        hash: String::new(),
    }
}

fn rendered(event: &NewEvent) -> String {
    message(&event.kind, &event.about, event.detail.as_ref())
}

#[test]
fn derives_subject_and_details_from_an_audit_record() {
    let event = of_audit(&record("device.report", "device/gw/gw/camera-1", json!({ "capabilities": "sha256:0" })));
    assert_eq!(event.kind, "device.reported");
    assert_eq!((event.about.client.as_deref(), event.about.device.as_deref()), (Some("gw"), Some("gw/camera-1")));
    assert_eq!(rendered(&event), "device `gw/camera-1` of client `gw` reported its capabilities");

    let event = of_audit(&record("device.label", "device/press/press", json!({})));
    assert_eq!(rendered(&event), "device `press` was labeled", "one mention is enough");
    let mut labeled = record("device.label", "device/press/press", json!({ "labels": { "line": "3", "hall": "1" } }));
    labeled.before = Some(json!({ "labels": { "line": "2", "zone": "a", "hall": "1" } }));
    let event = of_audit(&labeled);
    assert_eq!(rendered(&event), "device `press` has new labels: set line=3; removed zone");
    assert_eq!(remark(&event.kind, event.detail.as_ref()), "set line=3; removed zone");
    assert_eq!(subject_name(&event.kind, &event.about, event.detail.as_ref()), "device `press`");
    let event = of_audit(&record("client.request", "client/press", json!({ "state": "pending" })));
    assert_eq!(
        (event.kind.as_str(), rendered(&event).as_str()),
        ("client.requested", "client `press` requested access")
    );

    let after = json!({ "client": "gw", "target": "gw/camera-1", "application": "vision", "version": "1.2", "rollout": "c",
                        "revision": 3, "secret": "hidden" });
    let event = of_audit(&record("deployment.create", "deployment/d", after));
    assert_eq!(event.kind, "deployment.assigned");
    let about = &event.about;
    let names = [&about.client, &about.device, &about.deployment, &about.application, &about.rollout];
    assert_eq!(names.map(|name| name.as_deref().unwrap()), ["gw", "gw/camera-1", "d", "vision", "c"]);
    assert_eq!(
        event.detail,
        Some(json!({ "version": "1.2", "revision": 3, "subject": "deployment/d",
                                               "audit": 7, "comment": "to see" }))
    );
    assert_eq!(rendered(&event), "application `vision` 1.2 on `gw/camera-1` was assigned");
}

#[test]
fn uses_an_unknown_action_as_the_event_kind() {
    let event = of_audit(&record("registry.push", "repository/vision", json!({ "reference": "1.2" })));
    assert_eq!((event.kind.as_str(), rendered(&event).as_str()), ("registry.push", "repository `vision` (push)"));
    assert_eq!(event.actor.as_deref(), Some("token:ci"));
}

#[test]
fn renders_the_records_of_every_subject() {
    let check = |action: &str, subject: &str, after: Value, expected: &str| {
        assert_eq!(rendered(&of_audit(&record(action, subject, after)).bounded()), expected);
    };
    check(
        "application.import",
        "application/vision/1.2",
        json!({}),
        "application `vision` 1.2 was added to the catalog",
    );
    check("application.delete", "application/vision", json!({}), "application `vision` was removed from the catalog");
    let rollout = |targets: u64| json!({ "kind": "create", "application": "vision", "targets": targets });
    check("rollout.create", "rollout/c", rollout(1), "rollout `c`: create `vision` for 1 device");
    check("rollout.cancel", "rollout/c", rollout(2), "rollout `c`: create `vision` for 2 devices");
    check("session.create", "session/1", json!({ "name": "admin" }), "web session of `admin` was opened");
    check("token.revoke", "token/1", json!({ "name": "ci" }), "token `ci` was revoked");
    check("token.revoke", "token/1", json!({}), "token `1` was revoked");
    check("group.create", "group/presses", json!({}), "group `presses` was created");
    check("settings.change", "server", json!({}), "server (change)");
}

#[test]
fn renders_events_that_are_not_in_the_audit_log() {
    let client = || About { client: Some("press".into()), ..About::default() };
    let deployment = || About {
        device: Some("press".into()),
        deployment: Some("d".into()),
        application: Some("vision".into()),
        ..client()
    };
    let rollout = || About { rollout: Some("c".into()), application: Some("vision".into()), ..About::default() };
    let check = |kind: &str, about: About, detail: Value, expected: &str| {
        assert_eq!(rendered(&NewEvent::new(kind, about).with(detail)), expected);
    };
    check("client.connected", client(), json!({}), "client `press` connected for the first time");
    check("client.online", client(), json!({}), "client `press` came online");
    let seen = json!({ "lastSeenAt": "noon" });
    check("client.offline", client(), seen, "client `press` went offline: last seen at noon");
    let error = json!({ "version": "1.2", "error": { "code": "E7", "message": "no\nimage" } });
    assert_eq!(remark("deployment.failed", Some(&error)), "no image (E7)");
    check("deployment.failed", deployment(), error, "application `vision` on `press` failed: no image (E7)");
    check("deployment.installed", deployment(), json!({}), "application `vision` on `press` is installed");
    check("deployment.pending", deployment(), json!({}), "application `vision` on `press` is pending");
    let numbers = json!({ "published": 1, "skipped": 2 });
    check("rollout.finished", rollout(), numbers, "rollout `c` was published: 1 device, 2 skipped");
    let numbers = json!({ "published": 2, "skipped": 0 });
    check("rollout.finished", rollout(), numbers, "rollout `c` was published: 2 devices");
    let server = json!({ "server": "wfm", "version": "0.1.0" });
    check("server.started", About::default(), server, "server `wfm` 0.1.0 started");
}

#[test]
fn renders_a_sentence_without_data() {
    let own = ["client.connected", "client.online", "client.offline", "rollout.finished", "server.started", "", "."];
    let reported = ["deployment.failed", "deployment.installed", "later.happened"];
    let kinds = KINDS.iter().map(|(_, kind, _)| *kind).chain(own).chain(reported);
    for kind in kinds {
        for detail in [None, Some(json!(7)), Some(json!({ "error": 7, "subject": 7, "name": [], "targets": -1 }))] {
            let text = message(kind, &About::default(), detail.as_ref());
            assert!(!text.contains("``"), "{text}");
        }
    }
    assert_eq!(message("client.offline", &About::default(), None), "client went offline");
    assert_eq!(message("later.happened", &About::default(), None), "later (happened)");
    let about = About { client: Some("press".into()), ..About::default() };
    assert_eq!(message("client.pondered", &about, None), "client `press` (pondered)");
}

#[test]
fn shortens_the_longest_texts_of_an_event() {
    let long = "ä\n".repeat(DETAIL_BYTES_MAX);
    let detail = json!({ "before": "installed", "error": { "code": "E7", "message": long } });
    let about = About { application: Some("vision".into()), device: Some("press".into()), ..About::default() };
    let event = NewEvent::new("deployment.failed", about).with(detail).bounded();
    let detail = event.detail.as_ref().unwrap();
    assert!(detail.to_string().len() <= DETAIL_BYTES_MAX);
    assert_eq!((&detail["before"], &detail["error"]["code"]), (&json!("installed"), &json!("E7")));
    let text = rendered(&event);
    assert_eq!(text.chars().count(), MESSAGE_CHARS_MAX + 1);
    assert!(text.starts_with("application `vision` on `press` failed: ä ä") && !text.contains('\n'));
    let many: Vec<u32> = (0..5000).collect();
    assert_eq!(NewEvent::new("x.y", About::default()).with(json!(many)).bounded().detail, None);
}

/// The kinds in the table of docs/api.md: `` `noun.verb`, `.verb` ``.
fn documented_kinds() -> Vec<String> {
    let text = include_str!("../../../../docs/api.md");
    let rows = text.split_once("| kinds | when |").unwrap().1;
    let mut kinds = Vec::new();
    for row in rows.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let mut noun = String::new();
        for name in row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2) {
            let (before, verb) = name.split_once('.').unwrap();
            if !before.is_empty() {
                before.clone_into(&mut noun);
            }
            kinds.push(format!("{noun}.{verb}"));
        }
    }
    kinds
}

#[test]
fn documents_every_kind() {
    let (mut documented, mut known) = (documented_kinds(), super::kinds().collect::<Vec<_>>());
    documented.sort_unstable();
    known.sort_unstable();
    assert_eq!(documented, known);
}
