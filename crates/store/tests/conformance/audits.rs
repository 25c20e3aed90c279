//! The audit chain: appended, paged, verified, and broken by tampering.

use crate::fixtures::{T0, accept, actor, at};
use crate::harness::Database;
use margrave_core::audit::{GENESIS, hash};
use margrave_store::Store;
use serde_json::json;

async fn append(store: &Store, count: u64) {
    for number in 0..count {
        let after = Some(json!({ "number": number, "text": "grün", "float": 1.5 }));
        store.audit_append(&actor(), "server.start", "server", after, at(number)).await.unwrap();
    }
}

pub(crate) async fn chains_every_record(db: Database) {
    assert_eq!(db.store.audit_verify().await.unwrap(), Ok(0));
    append(&db.store, 3).await;
    accept(&db.store, 1).await;
    let mut records = db.store.audit_page(None, None, 10).await.unwrap();
    records.reverse();
    let mut previous = GENESIS.to_owned();
    for (index, record) in records.iter().enumerate() {
        assert_eq!(record.seq, index as i64 + 1);
        assert_eq!((&record.previous_hash, &record.hash), (&previous, &hash(record)));
        previous.clone_from(&record.hash);
    }
    assert_eq!(db.store.audit_verify().await.unwrap(), Ok(4));
}

pub(crate) async fn detects_a_changed_record(db: Database) {
    append(&db.store, 6).await;
    for (tamper, mend) in [
        ("UPDATE audit SET actor = 'absent' WHERE seq = 4", "UPDATE audit SET actor = 'token:test' WHERE seq = 4"),
        ("UPDATE audit SET comment = NULL WHERE seq = 4", "UPDATE audit SET comment = 'to see' WHERE seq = 4"),
        ("UPDATE audit SET at = at + 1 WHERE seq = 4", "UPDATE audit SET at = at - 1 WHERE seq = 4"),
        ("UPDATE audit SET subject = 'x' WHERE seq = 4", "UPDATE audit SET subject = 'server' WHERE seq = 4"),
        (
            "UPDATE audit SET after_state = REPLACE(after_state, ':3', ':5') WHERE seq = 4",
            "UPDATE audit SET after_state = REPLACE(after_state, ':5', ':3') WHERE seq = 4",
        ),
    ] {
        db.tamper(tamper).await;
        assert_eq!(db.store.audit_verify().await.unwrap(), Err(4), "{tamper}");
        db.tamper(mend).await;
        assert_eq!(db.store.audit_verify().await.unwrap(), Ok(6), "{mend}");
    }
    // Text that is no longer JSON does not stop the verification either.
    db.tamper("UPDATE audit SET after_state = '{' WHERE seq = 2").await;
    assert_eq!(db.store.audit_verify().await.unwrap(), Err(2));
}

pub(crate) async fn detects_a_deleted_record(db: Database) {
    append(&db.store, 5).await;
    db.tamper("DELETE FROM audit WHERE seq = 3").await;
    assert_eq!(db.store.audit_verify().await.unwrap(), Err(3));
    db.tamper("UPDATE audit SET seq = seq - 1 WHERE seq > 3").await;
    assert_eq!(db.store.audit_verify().await.unwrap(), Err(3));
}

pub(crate) async fn detects_a_truncated_chain(db: Database) {
    append(&db.store, 5).await;
    db.tamper("DELETE FROM audit WHERE seq > 3").await;
    assert_eq!(db.store.audit_verify().await.unwrap(), Err(4));
    db.tamper("UPDATE audit_head SET seq = 3").await;
    assert_eq!(db.store.audit_verify().await.unwrap(), Err(3), "the head has another hash");
}

pub(crate) async fn keeps_one_chain_with_many_writers(db: Database) {
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = db.store.clone();
        writers.spawn(async move { append(&store, 10).await });
    }
    writers.join_all().await;
    assert_eq!(db.store.audit_verify().await.unwrap(), Ok(80));
}

pub(crate) async fn pages_newest_first(db: Database) {
    append(&db.store, 4).await;
    // Records 1 to 4 are from the seconds 0 to 3.
    for (second, place) in [(0, 1), (2, 3), (3, 4)] {
        assert_eq!(db.store.audit_seq_at(at(second)).await.unwrap(), place, "the first from second {second} on");
    }
    assert_eq!(db.store.audit_seq_at(at(9)).await.unwrap(), 5, "after all of them");
    accept(&db.store, 1).await;
    let seqs = async |subject: Option<&str>, before: Option<i64>, limit: u32| {
        let records = db.store.audit_page(subject, before, limit).await.unwrap();
        records.into_iter().map(|record| record.seq).collect::<Vec<_>>()
    };
    assert_eq!(seqs(None, None, 2).await, [5, 4]);
    assert_eq!(seqs(None, Some(4), 10).await, [3, 2, 1]);
    assert_eq!(seqs(Some("server"), None, 2).await, [4, 3]);
    assert_eq!(seqs(Some("server"), Some(3), 10).await, [2, 1]);
    assert_eq!(seqs(Some("absent"), None, 10).await, Vec::<i64>::new());
    let record = &db.store.audit_page(Some("server"), None, 1).await.unwrap()[0];
    assert_eq!((record.at, record.after.as_ref().unwrap()["text"].as_str()), (at(3), Some("grün")));
    assert_ne!(record.at, T0);
}
