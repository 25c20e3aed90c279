use super::{GENESIS, hash};
use crate::model::AuditRecord;
use crate::time::Timestamp;
use serde_json::{Value, json};

fn record() -> AuditRecord {
    AuditRecord {
        seq: 1,
        at: Timestamp(1_790_000_000_000_000),
        actor: "token:ci".into(),
        comment: Some("nightly".into()),
        request_id: Some("r-1".into()),
        action: "deployment.create".into(),
        subject: "deployment/a3e2f5dc".into(),
        before: None,
        after: Some(json!({ "revision": 1, "a": "ä" })),
        previous_hash: GENESIS.into(),
        hash: String::new(),
    }
}

#[test]
fn hash_is_the_digest_of_the_canonical_document() {
    let text = concat!(
        r#"{"action":"deployment.create","actor":"token:ci","after":{"a":"ä","revision":1},"at":1790000000000000,"#,
        r#""before":null,"comment":"nightly","previousHash":"sha256:0000000000000000000000000000000000000000000000000000000000000000","#,
        r#""requestId":"r-1","seq":1,"subject":"deployment/a3e2f5dc"}"#
    );
    assert_eq!(hash(&record()), margo::digest::Digest::of(text.as_bytes()).to_string());
}

#[test]
fn hash_changes_with_every_other_field() {
    let rollouts: [fn(&mut AuditRecord); 10] = [
        |r| r.seq = 2,
        |r| r.at = Timestamp(0),
        |r| r.actor = "system".into(),
        |r| r.comment = None,
        |r| r.request_id = None,
        |r| r.action = "deployment.remove".into(),
        |r| r.subject = "deployment/b".into(),
        |r| r.before = Some(Value::Bool(true)),
        |r| r.after = None,
        |r| r.previous_hash = "sha256:1".into(),
    ];
    for (index, rollout) in rollouts.iter().enumerate() {
        let mut other = record();
        rollout(&mut other);
        assert_ne!(hash(&other), hash(&record()), "change {index}");
    }
    let mut hashed = record();
    hashed.hash = hash(&record());
    assert_eq!(hash(&hashed), hash(&record()));
}
