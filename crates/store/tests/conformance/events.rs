//! Events: in order, in the same transaction, bounded, and only for news.

use crate::fixtures::{T0, accept, actor, apply, at, deploy, deployment, put, remove, report, report_device, target};
use crate::harness::Database;
use margo::status::{State, StatusError};
use margrave_core::events::{About, Event, NewEvent};
use margrave_core::model::{ClientState, RolloutKind};
use margrave_store::{EventBounds, EventFilter, EventOrder, EventRange, Retention, SeenAt, Store};
use serde_json::json;
use std::time::Duration;

async fn all(store: &Store) -> Vec<Event> {
    store.events_page(&EventFilter::default(), EventRange::ALL, EventOrder::OldestFirst, 10_000).await.unwrap()
}

async fn kinds(store: &Store, after: i64) -> Vec<String> {
    all(store).await.into_iter().filter(|event| event.id > after).map(|event| event.what.kind).collect()
}

async fn newest(store: &Store) -> i64 {
    store.event_bounds().await.unwrap().newest
}

fn rendered(event: &Event) -> String {
    let NewEvent { kind, about, detail, .. } = &event.what;
    margrave_core::events::message(kind, about, detail.as_ref())
}

fn said(number: usize) -> NewEvent {
    NewEvent::new("test.said", About::default()).with(json!({ "number": number }))
}

pub(crate) async fn writes_an_event_for_every_audit_record(db: Database) {
    let client = accept(&db.store, 1).await;
    report_device(&db.store, &client, "client-00001", &json!({})).await;
    let id = deploy(&db.store, &client, 1, "hello").await;
    db.store.group_put(&actor(), "presses", "line=1", None, None, at(2)).await.unwrap();
    let (rollout, _) = apply(&db.store, RolloutKind::Remove, &[remove(target(&client, id, Some(1)))], at(3)).await;
    let events = all(&db.store).await;
    let told: Vec<&str> = events.iter().map(|event| event.what.kind.as_str()).collect();
    assert_eq!(
        told,
        [
            "client.created",
            "device.reported",
            "client.connected",
            "rollout.created",
            "deployment.assigned",
            "rollout.finished",
            "group.created",
            "rollout.created",
            "deployment.unassigned",
            "rollout.finished",
        ]
    );
    assert_eq!(events.iter().map(|event| event.id).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    let Event { at: when, what, .. } = &events[8];
    assert_eq!(*when, at(3));
    assert_eq!(what.actor.as_deref(), Some("token:test"));
    let (name, rollout) = (Some("client-00001".to_owned()), Some(rollout.to_string()));
    let about = About {
        client: name.clone(),
        device: name,
        deployment: Some(id.to_string()),
        application: Some("digitron".into()),
        rollout: rollout.clone(),
    };
    assert_eq!(what.about, about);
    assert_eq!(what.detail.as_ref().unwrap()["comment"], "to see");
    assert_eq!(events[9].what.about.rollout, rollout);
    assert_eq!(events[9].what.detail, Some(json!({ "published": 1, "skipped": 0 })));
    let values = events.iter().any(|event| format!("{event:?}").contains("hello"));
    assert!(!values, "no values of parameters");
}

pub(crate) async fn writes_no_event_for_a_rejected_call(db: Database) {
    let client = accept(&db.store, 1).await;
    let before = newest(&db.store).await;
    db.store.client_create(&actor(), &client, ClientState::Accepted, None, T0).await.unwrap_err();
    db.store.client_set_state(&actor(), &client, ClientState::Decommissioned, Some(9), T0).await.unwrap_err();
    db.store.group_put(&actor(), "presses", "line=1", None, Some(3), T0).await.unwrap_err();
    db.store.client_set_state(&actor(), &client, ClientState::Accepted, None, T0).await.unwrap();
    assert_eq!(newest(&db.store).await, before);
    assert_eq!(*db.store.events_newest().borrow(), before);
    // A batch that fails half-way rolls back its events.
    let item = put(target(&client, deployment(1), None), "hello");
    let rollout = crate::fixtures::rollout(RolloutKind::Create, vec![item.target.clone()], T0);
    db.store.rollout_create(&rollout).await.unwrap();
    let before = newest(&db.store).await;
    db.tamper("DROP TABLE deployment_revisions").await;
    db.store.rollout_apply(rollout.id, 0, &[item], T0).await.unwrap_err();
    assert_eq!(newest(&db.store).await, before);
}

pub(crate) async fn writes_events_only_for_reports_with_news(db: Database) {
    let client = accept(&db.store, 1).await;
    let (first, second) = (deploy(&db.store, &client, 1, "a").await, deploy(&db.store, &client, 2, "b").await);
    let mark = newest(&db.store).await;
    // The second deployment has the smaller id in the database; events are in the order of arrival.
    let reports = [
        report(&client, second, State::Installing, 3, at(1)),
        report(&client, first, State::Installed, 2, at(2)),
        report(&client, second, State::Installed, 3, at(3)),
    ];
    db.store.statuses_put(&reports).await.unwrap();
    let told = ["deployment.installing", "deployment.installed", "deployment.installed"];
    assert_eq!(kinds(&db.store, mark).await, told);
    let events = all(&db.store).await;
    let subjects: Vec<_> = events[events.len() - 3..].iter().map(|event| event.what.about.deployment.clone()).collect();
    assert_eq!(subjects, [second, first, second].map(|id| Some(id.to_string())));

    let mark = newest(&db.store).await;
    db.store.statuses_put(&[report(&client, first, State::Installed, 2, at(4))]).await.unwrap();
    db.store.statuses_put(&[report(&client, first, State::Installed, 3, at(4))]).await.unwrap();
    db.store.statuses_put(&[report(&client, first, State::Failed, 1, at(4))]).await.unwrap();
    assert_eq!(kinds(&db.store, mark).await, Vec::<String>::new(), "repeated, for a newer version, or too late");

    apply(&db.store, RolloutKind::Reconfigure, &[put(target(&client, first, Some(1)), "c")], at(5)).await;
    let mark = newest(&db.store).await;
    db.store.statuses_put(&[report(&client, first, State::Installed, 4, at(6))]).await.unwrap();
    let mut failed = report(&client, first, State::Failed, 4, at(7));
    failed.status.error = Some(StatusError { code: "E7".into(), source: "web".into(), message: "no\nimage".into() });
    db.store.statuses_put(&[failed]).await.unwrap();
    assert_eq!(kinds(&db.store, mark).await, ["deployment.installed", "deployment.failed"]);
    let last = all(&db.store).await.pop().unwrap();
    let detail = json!({
        "manifestVersion": 4,
        "before": "installed",
        "version": "1.0.0",
        "revision": 2,
        "error": { "code": "E7", "message": "no\nimage" },
    });
    assert_eq!(last.what.detail, Some(detail));
    assert_eq!(rendered(&last), "application `digitron` on `client-00001` failed: no image (E7)");

    let mut failed = report(&client, second, State::Failed, 4, at(8));
    let message = "\u{1}ä".repeat(5000);
    failed.status.error = Some(StatusError { code: "E8".into(), source: "web".into(), message });
    db.store.statuses_put(&[failed]).await.unwrap();
    let last = all(&db.store).await.pop().unwrap();
    let error = &last.what.detail.as_ref().unwrap()["error"];
    assert!(error["code"] == "E8" && error["message"].as_str().unwrap().ends_with('…'), "shortened, not dropped");
    assert!(rendered(&last).starts_with("application `digitron` on `client-00001` failed:  ä ä"));
}

pub(crate) async fn writes_one_event_for_a_deployment_that_fails_repeatedly(db: Database) {
    use State::{Failed, Installed, Installing, Pending};
    let client = accept(&db.store, 1).await;
    let id = deploy(&db.store, &client, 1, "a").await;
    let mark = newest(&db.store).await;
    let other = |kind: &String| !kind.starts_with("deployment.assigned") && !kind.starts_with("rollout");
    let reports = |states: &[State], version| {
        let one = |(second, state): (usize, &State)| report(&client, id, *state, version, at(second as u64));
        states.iter().enumerate().map(one).collect::<Vec<_>>()
    };
    let retries = [Installing, Failed, Pending, Installing, Failed, Installing, Failed];
    db.store.statuses_put(&reports(&retries, 2)).await.unwrap();
    // Another manifest, which leaves this deployment as it is.
    deploy(&db.store, &client, 2, "other").await;
    db.store.statuses_put(&reports(&[Failed, Installing, Failed], 3)).await.unwrap();
    let written: Vec<String> = kinds(&db.store, mark).await.into_iter().filter(other).collect();
    assert_eq!(written, ["deployment.installing", "deployment.failed"]);

    let mark = newest(&db.store).await;
    apply(&db.store, RolloutKind::Reconfigure, &[put(target(&client, id, Some(1)), "b")], at(20)).await;
    let target = db.store.deployment_get(id).await.unwrap().unwrap().deployment.target_version;
    db.store.statuses_put(&reports(&[Installing, Failed, Installing, Failed, Installing, Installed], target)).await.unwrap();
    let expected = ["rollout.created", "deployment.reconfigured", "rollout.finished", "deployment.installing", "deployment.failed", "deployment.installed"];
    let written = kinds(&db.store, mark).await;
    assert_eq!(written, expected, "another revision that fails is news, and so is its success");
}

pub(crate) async fn writes_events_for_clients_that_connect_go_offline_and_return(db: Database) {
    let (one, two) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    let mark = newest(&db.store).await;
    let seen = async |client: &margo::ids::ClientId, seconds| {
        db.store.seen_write(&[SeenAt { client: client.clone(), at: at(seconds) }]).await.unwrap();
    };
    seen(&one, 1).await;
    seen(&two, 1).await;
    assert_eq!(kinds(&db.store, mark).await, ["client.connected", "client.connected"]);
    let mark = newest(&db.store).await;
    seen(&one, 2).await;
    seen(&one, 100).await;
    assert_eq!(kinds(&db.store, mark).await, Vec::<String>::new(), "a fleet at rest has no news");

    assert_eq!(db.store.offline_write(at(50), at(110)).await.unwrap(), 1);
    assert_eq!(db.store.offline_write(at(50), at(110)).await.unwrap(), 0, "reported once");
    db.store.client_set_state(&actor(), &one, ClientState::Decommissioned, None, at(111)).await.unwrap();
    assert_eq!(db.store.offline_write(at(500), at(600)).await.unwrap(), 0, "a decommissioned client is not reported");
    seen(&two, 3).await;
    seen(&two, 601).await;
    let told = ["client.offline", "client.decommissioned", "client.online"];
    assert_eq!(kinds(&db.store, mark).await, told);
    let offline = all(&db.store).await.into_iter().find(|event| event.what.kind == "client.offline").unwrap();
    assert_eq!(offline.what.detail, Some(json!({ "lastSeenAt": at(1).to_string() })));
    let last = all(&db.store).await.pop().unwrap();
    assert_eq!(last.what.about.client.as_deref(), Some(two.as_str()));
}

pub(crate) async fn finds_events_by_subject(db: Database) {
    use EventOrder::{NewestFirst, OldestFirst};

    let (one, two) = (accept(&db.store, 1).await, accept(&db.store, 2).await);
    let id = deploy(&db.store, &one, 1, "a").await;
    deploy(&db.store, &two, 2, "b").await;
    db.store.event_append(NewEvent::new("clientele.x", About::default()), at(9)).await.unwrap();
    let found = async |filter: EventFilter, order, limit| -> Vec<i64> {
        let events = db.store.events_page(&filter, EventRange::ALL, order, limit).await.unwrap();
        events.into_iter().map(|event| event.id).collect()
    };
    let by = |rollout: fn(&mut EventFilter, String), name: &str| {
        let mut filter = EventFilter::default();
        rollout(&mut filter, name.to_owned());
        filter
    };
    let kind = |text| by(|filter, text| filter.kind = Some(text), text);
    assert_eq!(found(kind("client"), OldestFirst, 10).await, [1, 2], "up to a dot");
    assert_eq!(found(kind("client.created"), NewestFirst, 10).await, [2, 1]);
    assert_eq!(found(kind("client.create"), OldestFirst, 10).await, Vec::<i64>::new());
    assert_eq!(found(kind("c_ient"), OldestFirst, 10).await, Vec::<i64>::new());
    assert_eq!(found(by(|f, t| f.client = Some(t), one.as_str()), OldestFirst, 10).await, [1, 4]);
    assert_eq!(found(by(|f, t| f.device = Some(t), two.as_str()), OldestFirst, 10).await, [7]);
    assert_eq!(found(by(|f, t| f.deployment = Some(t), &id.to_string()), OldestFirst, 10).await, [4]);
    assert_eq!(found(by(|f, t| f.application = Some(t), "digitron"), OldestFirst, 3).await, [3, 4, 5]);
    let rollout = all(&db.store).await[4].what.about.rollout.clone().unwrap();
    assert_eq!(found(by(|f, t| f.rollout = Some(t), &rollout), NewestFirst, 10).await, [5, 4, 3]);
    let since = EventFilter { since: Some(at(9)), ..EventFilter::default() };
    assert_eq!(found(since, OldestFirst, 10).await, [9]);
    let until = EventFilter { until: Some(at(9)), ..EventFilter::default() };
    assert_eq!(found(until, NewestFirst, 1).await, [8], "before that instant");
    let range = EventRange { above: 3, below: 6 };
    let page = db.store.events_page(&EventFilter::default(), range, NewestFirst, 10).await.unwrap();
    assert_eq!(page.into_iter().map(|event| event.id).collect::<Vec<_>>(), [5, 4]);
}

/// A reader that continues from the last id it has seen, while many write, misses nothing and sees nothing twice.
pub(crate) async fn a_reader_by_id_sees_every_event(db: Database) {
    const WRITERS: usize = 6;
    const EACH: usize = 25;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = db.store.clone();
        writers.spawn(async move {
            for number in 0..EACH {
                store.event_append(said(writer * EACH + number), T0).await.unwrap();
            }
        });
    }
    let mut news = db.store.events_newest();
    let mut seen = Vec::new();
    let reading = async {
        while seen.len() < WRITERS * EACH {
            let above = seen.last().map_or(0, |event: &Event| event.id);
            let range = EventRange { above, below: i64::MAX };
            let page = db.store.events_page(&EventFilter::default(), range, EventOrder::OldestFirst, 7).await.unwrap();
            if page.is_empty() {
                news.wait_for(|newest| *newest > above).await.unwrap();
            }
            seen.extend(page);
        }
    };
    tokio::time::timeout(Duration::from_mins(1), reading).await.expect("the reader gets every event");
    writers.join_all().await;
    let ids: Vec<i64> = seen.iter().map(|event| event.id).collect();
    assert_eq!(ids, (1..=(WRITERS * EACH) as i64).collect::<Vec<_>>());
}

pub(crate) async fn keeps_the_newest_events(mut db: Database) {
    for number in 1..=30 {
        db.store.event_append(said(number), at(number as u64)).await.unwrap();
    }
    let retention = Retention {
        revisions_per_deployment: 1,
        statuses_per_deployment: 1,
        replaced_artifacts: Duration::from_hours(1),
        finished_rollouts: Duration::from_hours(1),
        removed_deployments: Duration::from_hours(1),
        idempotency_keys: Duration::from_hours(1),
        events: 10,
    };
    assert_eq!(db.store.prune(&retention, at(40)).await.unwrap(), 20);
    assert_eq!(db.store.prune(&retention, at(40)).await.unwrap(), 0);
    assert_eq!(db.store.event_bounds().await.unwrap(), EventBounds { oldest: 21, newest: 30 });
    assert_eq!(all(&db.store).await.len(), 10);
    db.store.prune(&Retention { events: 0, ..retention }, at(40)).await.unwrap();
    assert_eq!(db.store.event_bounds().await.unwrap(), EventBounds { oldest: 31, newest: 30 }, "nothing is kept");
    db.reopen().await;
    db.store.event_append(said(31), at(41)).await.unwrap();
    assert_eq!(all(&db.store).await[0].id, 31, "an id is never reused");
}

/// With several servers on one database the newest id is looked up.
pub(crate) async fn notices_events_of_other_servers(db: Database) {
    let other = Store::open(&margrave_store::StoreOptions { url: db.url.clone(), readers: 2 }).await.unwrap();
    let mut news = db.store.events_newest();
    other.event_append(said(1), T0).await.unwrap();
    assert!(!news.has_changed().unwrap());
    db.store.events_refresh().await.unwrap();
    assert!(news.has_changed().unwrap());
    assert_eq!(*news.borrow_and_update(), 1);
    db.store.events_refresh().await.unwrap();
    assert!(!news.has_changed().unwrap(), "without new events no reader wakes");
    other.close().await;
}

pub(crate) async fn truncates_events_to_their_limits(db: Database) {
    let event =
        NewEvent::new("x".repeat(5000), About::default()).with(json!({ "text": "y".repeat(5000), "number": 7 }));
    db.store.event_append(event, T0).await.unwrap();
    let event = all(&db.store).await.pop().unwrap();
    assert!(event.what.kind.chars().count() <= 101);
    let detail = event.what.detail.unwrap();
    assert!(detail.to_string().len() <= margrave_core::events::DETAIL_BYTES_MAX);
    assert_eq!(detail["number"], 7, "only the long text is shortened");
}
