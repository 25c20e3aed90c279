//! Counts in SQL agree with the rules in core.

use crate::fixtures::{
    T0, accept, actor, application, apply, at, client, deploy, deployment, put, remove, report, target,
};
use crate::harness::Database;
use margo::ids::DeploymentId;
use margo::status::State;
use margrave_core::deployment_state::{DeploymentState, state_of};
use margrave_core::model::{ClientState, Desired, DeviceState, RolloutKind};
use margrave_core::time::Timestamp;
use margrave_store::{DeploymentFilter, DeploymentView, DeviceSearch, RemovalFilter, RemovalPlace, SeenAt, Store};
use serde_json::json;
use std::collections::BTreeMap;

/// Clients seen at or after this instant count as online.
fn offline_before() -> Timestamp {
    at(100)
}

/// One deployment for every combination of desired state, reported state, adopted version, last contact, earlier
/// failure and republish.
async fn grid(store: &Store) -> usize {
    let mut number = 0;
    let seen = [None, Some(T0), Some(at(99)), Some(at(100))];
    let before = [(false, false), (true, false), (false, true), (true, true)];
    for (last_seen, (failed, again)) in seen.into_iter().flat_map(|seen| before.map(|before| (seen, before))) {
        let client = accept(store, number).await;
        if let Some(at) = last_seen {
            store.seen_write(&[SeenAt { client: client.clone(), at }]).await.unwrap();
        }
        for desired_present in [true, false] {
            for state in [None].into_iter().chain(State::ALL.map(Some)) {
                for step in [-1_i64, 0, 1, i64::MIN] {
                    number += 1;
                    let id = deploy(store, &client, number as u128, "hello").await;
                    if !desired_present {
                        apply(store, RolloutKind::Remove, &[remove(target(&client, id, Some(1)))], T0).await;
                    }
                    let target_version = store.deployment_get(id).await.unwrap().unwrap().deployment.target_version;
                    // The last step represents version 0.
                    let adopted = target_version.checked_add_signed(step).unwrap_or(0);
                    if let Some(state) = state {
                        if failed {
                            store.statuses_put(&[report(&client, id, State::Failed, adopted, T0)]).await.unwrap();
                        }
                        store.statuses_put(&[report(&client, id, state, adopted, T0)]).await.unwrap();
                    }
                }
            }
        }
        if again {
            store.manifest_republish(&actor(), &client, T0).await.unwrap().unwrap();
        }
    }
    number
}

async fn all(store: &Store, filter: &DeploymentFilter) -> Vec<DeploymentView> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.deployments_page(filter, offline_before(), after, 50).await.unwrap();
        after = page.last().map(|view| view.deployment.id);
        found.extend(page);
        if found.len() % 50 != 0 || after.is_none() {
            return found;
        }
    }
}

fn judged(view: &DeploymentView) -> DeploymentState {
    state_of(&view.deployment, view.reported.as_ref(), view.last_seen_at, offline_before())
}

// ST-06, W-12
pub(crate) async fn counts_match_the_rules_in_core(db: Database) {
    let total = grid(&db.store).await;
    let everything = all(&db.store, &DeploymentFilter { with_absent: true, ..DeploymentFilter::default() }).await;
    assert_eq!(everything.len(), total);
    let mut expected: BTreeMap<DeploymentState, u64> = BTreeMap::new();
    let mut by_rollout = BTreeMap::new();
    for view in &everything {
        by_rollout.insert(view.deployment.rollout, judged(view));
    }
    for view in all(&db.store, &DeploymentFilter::default()).await {
        *expected.entry(judged(&view)).or_default() += 1;
    }
    let summary = db.store.summary(offline_before()).await.unwrap();
    assert_eq!(summary.deployments, expected);
    let mut outcomes: Vec<DeploymentState> = everything.iter().map(judged).collect();
    outcomes.sort_unstable();
    outcomes.dedup();
    assert_eq!(outcomes.len(), DeploymentState::ALL.len(), "the grid has every outcome");
    let by_version = db.store.application_summary(&application(), offline_before()).await.unwrap();
    assert_eq!(by_version, BTreeMap::from([("1.0.0".to_owned(), expected)]));
    let by_application = db.store.deployment_counts(offline_before()).await.unwrap();
    assert_eq!(by_application, BTreeMap::from([(application().to_string(), by_version)]));
    // Each deployment has its own rollout here, so each combination is compared separately.
    for (rollout, deployment_state) in by_rollout {
        let counted = db.store.rollout_summary(rollout, offline_before()).await.unwrap();
        assert_eq!(counted, BTreeMap::from([(deployment_state, 1)]));
    }
}

pub(crate) async fn filters_match_the_rules_in_core(db: Database) {
    grid(&db.store).await;
    let everything = all(&db.store, &DeploymentFilter { with_absent: true, ..DeploymentFilter::default() }).await;
    for deployment_state in DeploymentState::ALL {
        let filter = DeploymentFilter {
            deployment_state: Some(deployment_state),
            with_absent: true,
            ..DeploymentFilter::default()
        };
        let found: Vec<DeploymentId> = all(&db.store, &filter).await.iter().map(|view| view.deployment.id).collect();
        let expected: Vec<DeploymentId> =
            everything.iter().filter(|view| judged(view) == deployment_state).map(|view| view.deployment.id).collect();
        assert_eq!(found, expected, "{deployment_state:?}");
    }
}

pub(crate) async fn summarizes_the_fleet(db: Database) {
    let store = &db.store;
    assert_eq!(store.summary(T0).await.unwrap(), margrave_store::Summary::default());
    let (one, two) = (accept(store, 1).await, accept(store, 2).await);
    store.client_create(&actor(), &client(3), ClientState::Pending, None, T0).await.unwrap();
    store.client_create(&actor(), &client(4), ClientState::Decommissioned, None, T0).await.unwrap();
    store.seen_write(&[SeenAt { client: one.clone(), at: at(100) }]).await.unwrap();
    crate::fixtures::report_device(store, &one, "press", &json!({})).await;
    deploy(store, &one, 1, "a").await;
    deploy(store, &two, 2, "b").await;
    let open = crate::fixtures::rollout(RolloutKind::Create, vec![target(&one, deployment(3), None)], T0);
    store.rollout_create(&open).await.unwrap();
    let summary = store.summary(offline_before()).await.unwrap();
    assert_eq!((summary.clients_accepted, summary.clients_pending, summary.clients_decommissioned), (2, 1, 1));
    assert_eq!(
        (summary.clients_offline, summary.devices, summary.applications, summary.rollouts_unfinished),
        (1, 1, 0, 1)
    );
    assert_eq!(
        summary.deployments,
        BTreeMap::from([(DeploymentState::Pending, 1), (DeploymentState::DeviceOffline, 1)])
    );
}

pub(crate) async fn filters_deployments(db: Database) {
    let store = &db.store;
    let (one, two) = (accept(store, 1).await, accept(store, 2).await);
    let (rollout, _) = apply(store, RolloutKind::Create, &[put(target(&one, deployment(1), None), "a")], T0).await;
    for number in 2..5 {
        deploy(store, &two, number, "b").await;
    }
    let ids = async |filter: DeploymentFilter| {
        let views = store.deployments_page(&filter, T0, None, 10).await.unwrap();
        views.into_iter().map(|view| view.deployment.id.0.as_u128()).collect::<Vec<_>>()
    };
    let any = DeploymentFilter::default;
    assert_eq!(ids(any()).await, [1, 2, 3, 4]);
    assert_eq!(ids(DeploymentFilter { client: Some(two.clone()), ..any() }).await, [2, 3, 4]);
    assert_eq!(ids(DeploymentFilter { rollout: Some(rollout), ..any() }).await, [1]);
    assert_eq!(
        ids(DeploymentFilter { rollout: Some(rollout), client: Some(two.clone()), ..any() }).await,
        Vec::<u128>::new()
    );
    assert_eq!(ids(DeploymentFilter { application: Some(application()), ..any() }).await, [1, 2, 3, 4]);
    assert_eq!(
        ids(DeploymentFilter { application: Some("other".parse().unwrap()), ..any() }).await,
        Vec::<u128>::new()
    );
    assert_eq!(ids(DeploymentFilter { version: Some("1.0.0".into()), ..any() }).await, [1, 2, 3, 4]);
    assert_eq!(ids(DeploymentFilter { version: Some("2.0.0".into()), ..any() }).await, Vec::<u128>::new());
    assert_eq!(ids(DeploymentFilter { target: Some(one.as_str().parse().unwrap()), ..any() }).await, [1]);
    let page = store.deployments_page(&any(), T0, Some(deployment(2)), 1).await.unwrap();
    assert_eq!(page.iter().map(|view| view.deployment.id).collect::<Vec<_>>(), [deployment(3)]);
    assert_eq!(store.deployment_get(deployment(9)).await.unwrap(), None);
}

pub(crate) async fn lists_removals(db: Database) {
    let store = &db.store;
    grid(store).await;
    let everything = all(store, &DeploymentFilter { with_absent: true, ..DeploymentFilter::default() }).await;
    let absent: Vec<&DeploymentView> =
        everything.iter().filter(|view| view.deployment.desired == Desired::Absent).collect();
    let mut expected: BTreeMap<DeploymentState, u64> = BTreeMap::new();
    for view in &absent {
        *expected.entry(judged(view)).or_default() += 1;
    }
    assert_eq!(store.removal_counts(offline_before()).await.unwrap(), expected);
    for over in [true, false] {
        let filter = RemovalFilter { over, ..RemovalFilter::default() };
        // Small pages and few rows per page: the same deployments, each once, newest first.
        let (mut found, mut after): (Vec<DeploymentView>, Option<RemovalPlace>) = (Vec::new(), None);
        loop {
            let (page, next) = store.removals_search_bounded(&filter, after, 5, 7).await.unwrap();
            found.extend(page);
            after = next;
            if after.is_none() {
                break;
            }
        }
        let told: Vec<_> =
            found.iter().map(|view| (std::cmp::Reverse(view.deployment.updated_at), view.deployment.id)).collect();
        assert!(told.is_sorted(), "newest first");
        let mut ids: Vec<_> = found.iter().map(|view| view.deployment.id).collect();
        ids.sort_unstable();
        let wanted = |view: &&&DeploymentView| (judged(view) == DeploymentState::Removed) == over;
        let expected: Vec<_> = absent.iter().filter(wanted).map(|view| view.deployment.id).collect();
        assert_eq!(ids, expected, "over: {over}");
    }
    let other = RemovalFilter { application: Some("other".parse().unwrap()), ..RemovalFilter::default() };
    assert_eq!(store.removals_search_bounded(&other, None, 5, 1_000).await.unwrap(), (vec![], None));
}

pub(crate) async fn finds_rollouts_in_progress(db: Database) {
    let store = &db.store;
    let (one, gone) = (accept(store, 1).await, accept(store, 2).await);
    let (first, _) = apply(store, RolloutKind::Create, &[put(target(&one, deployment(1), None), "a")], at(1)).await;
    let (second, _) = apply(store, RolloutKind::Create, &[put(target(&one, deployment(2), None), "b")], at(2)).await;
    apply(store, RolloutKind::Create, &[put(target(&gone, deployment(3), None), "c")], at(3)).await;
    let open = crate::fixtures::rollout(RolloutKind::Create, vec![target(&one, deployment(4), None)], T0);
    store.rollout_create(&open).await.unwrap();
    store.client_set_state(&actor(), &gone, ClientState::Decommissioned, None, at(4)).await.unwrap();
    let found = store.rollouts_in_progress(offline_before(), 10).await.unwrap();
    assert_eq!(found, [open.id, second, first], "a decommissioned client does not keep a rollout open");
    let adopted = store.deployment_get(deployment(1)).await.unwrap().unwrap().deployment.target_version;
    store.statuses_put(&[report(&one, deployment(1), State::Installed, adopted, at(5))]).await.unwrap();
    assert_eq!(store.rollouts_in_progress(offline_before(), 10).await.unwrap(), [open.id, second]);
    assert_eq!(store.rollouts_in_progress(offline_before(), 1).await.unwrap(), [open.id]);
}

/// A deployment of the grid: whether it is desired, and its last report with the distance from the target version.
type GridDeployment = (bool, Option<(State, i64)>);

// The rules about devices, over every pair of deployments of the grid on one device.
pub(crate) async fn device_states_match_the_rules_in_core(db: Database) {
    let store = &db.store;
    let reports = [None, Some((State::Installed, 0)), Some((State::Failed, 0)), Some((State::Failed, -1)), Some((State::Removed, 0))];
    let mut kinds: Vec<Option<GridDeployment>> = vec![None];
    kinds.extend([true, false].into_iter().flat_map(|present| reports.map(|report| Some((present, report)))));
    let (mut number, mut deployments) = (0, 0_u128);
    for seen in [None, Some(at(99)), Some(at(100))] {
        for accepted in [true, false] {
            for (index, first) in kinds.iter().enumerate() {
                for second in &kinds[index..] {
                    let owner = accept(store, number).await;
                    crate::fixtures::report_device(store, &owner, owner.as_str(), &json!({})).await;
                    for (present, report_of) in [first, second].into_iter().flatten() {
                        deployments += 1;
                        let id = deploy(store, &owner, deployments, "hello").await;
                        if !present {
                            apply(store, RolloutKind::Remove, &[remove(target(&owner, id, Some(1)))], T0).await;
                        }
                        if let Some((state, step)) = report_of {
                            let version = store.deployment_get(id).await.unwrap().unwrap().deployment.target_version;
                            let adopted = version.checked_add_signed(*step).unwrap();
                            store.statuses_put(&[report(&owner, id, *state, adopted, T0)]).await.unwrap();
                        }
                    }
                    if let Some(at) = seen {
                        store.seen_write(&[SeenAt { client: owner.clone(), at }]).await.unwrap();
                    }
                    if !accepted {
                        store.client_set_state(&actor(), &owner, ClientState::Decommissioned, None, T0).await.unwrap();
                    }
                    number += 1;
                }
            }
        }
    }
    let mut expected: BTreeMap<DeviceState, Vec<String>> = BTreeMap::new();
    for index in 0..number {
        let owner = client(index);
        let (known, head) = store.client_with_head(&owner).await.unwrap().unwrap();
        let views = store.deployments_of(std::slice::from_ref(&owner)).await.unwrap();
        let states = views.iter().map(|view| (view.deployment.desired, judged(view)));
        let offline = known.last_seen_at.is_none_or(|seen| seen < offline_before());
        expected.entry(DeviceState::of(head.state, offline, states)).or_default().push(owner.to_string());
    }
    assert_eq!(expected.len(), DeviceState::ALL.len(), "the grid has every state");
    let search = |state| DeviceSearch { state, offline_before: offline_before(), ..DeviceSearch::default() };
    let counted = store.devices_counted(&search(None)).await.unwrap();
    let lengths: BTreeMap<DeviceState, u64> = expected.iter().map(|(state, names)| (*state, names.len() as u64)).collect();
    assert_eq!(counted, lengths);
    for (state, names) in expected {
        let found = store.device_keys(&search(Some(state)), 10_000).await.unwrap();
        let found: Vec<String> = found.into_iter().map(|(key, _)| key.client.to_string()).collect();
        assert_eq!(found, names, "{state:?}");
    }
}
