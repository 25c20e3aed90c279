//! Rollouts for many devices: selection, skipped devices, dry runs.

use super::packages::{self, ID, upload};
use super::{Kind, all_deployments, api, create, deployed, finished, on, press, problem, refused, selected};
use crate::support::TestServer;
use indexmap::IndexMap;
use margrave_api::client::PageQuery;
use margrave_api::devices::PutGroup;
use margrave_api::rollouts::{CreateRollout, DiffSign, Plan, RolloutKind, Scope};
use serde_json::json;
use std::time::Duration;

fn rollout(kind: RolloutKind, scope: Scope) -> CreateRollout {
    CreateRollout { kind, version: None, values: IndexMap::new(), ..create("1.0.0", scope) }
}

fn signed(plan: &Plan, sign: DiffSign) -> Vec<String> {
    let lines = plan.targets.iter().flat_map(|target| &target.diff);
    lines.filter(|line| line.sign == sign).map(|line| line.text.trim().to_owned()).collect()
}

#[tokio::test]
async fn rejects_incompatible_devices_with_reasons_or_skips_them() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    press(&server, "good", &Kind::default()).await;
    press(&server, "small", &Kind { memory: "512Mi", types: &["compose"], ..Kind::default() }).await;
    let all = create("1.0.0", selected(""));
    let problem = problem(api.create_deployments(&all).await);
    assert_eq!((problem.code.as_str(), problem.errors.len()), ("unplaceable", 1));
    assert_eq!(problem.errors[0].field, "small/small");
    assert!(
        problem.errors[0].message.contains("profile `small`")
            && problem.errors[0].message.contains("profile `cluster`"),
        "{:?}",
        problem.errors
    );

    let skipping = CreateRollout { skip_incompatible: true, ..all };
    let plan = api.plan_deployments(&skipping).await.unwrap();
    assert_eq!((plan.targets.len(), plan.skipped.len()), (1, 1));
    assert_eq!(plan.skipped[0].device.device, "small");
    let made = api.create_deployments(&skipping).await.unwrap();
    assert_eq!(finished(&api, &made).await.total, 1);
    let again = api.create_deployments(&skipping).await;
    assert_eq!(super::problem(again).code, "unplaceable", "nothing is left");
}

#[tokio::test]
async fn a_dry_run_shows_line_by_line_and_changes_nothing() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    press(&server, "press", &Kind::default()).await;
    let audit = api.audit(None, &PageQuery::default()).await.unwrap().items.len();
    let plan = api.plan_deployments(&create("1.0.0", on(&["press"]))).await.unwrap();
    assert_eq!(
        (plan.kind, plan.version.as_str(), plan.targets[0].profile.as_str()),
        (RolloutKind::Create, "1.0.0", "small")
    );
    assert!(
        signed(&plan, DiffSign::Added).contains(&"id: (assigned when deployed)".to_owned()),
        "{:?}",
        plan.targets[0].diff
    );
    assert!(signed(&plan, DiffSign::Removed).is_empty());
    assert!(api.rollouts(&PageQuery::default()).await.unwrap().items.is_empty());
    assert!(all_deployments(&api).await.is_empty());
    assert_eq!(api.audit(None, &PageQuery::default()).await.unwrap().items.len(), audit);
    assert_eq!(api.client("press").await.unwrap().manifest_version, 1);

    let deployment = deployed(&server, "press").await;
    upload(&api, "2.0.0").await;
    let upgrade = CreateRollout { version: Some("2.0.0".to_owned()), ..rollout(RolloutKind::Upgrade, on(&["press"])) };
    let plan = api.plan_rollout(&upgrade).await.unwrap();
    assert!(signed(&plan, DiffSign::Added).iter().any(|line| line.contains("vision:2")), "{:?}", plan.targets[0].diff);
    assert!(signed(&plan, DiffSign::Removed).iter().any(|line| line.contains("vision:1")));
    assert_eq!(plan.targets[0].deployment.as_deref(), Some(deployment.id.as_str()));
    let removal = api.plan_remove_deployment(&deployment.id, None).await.unwrap();
    assert!(signed(&removal, DiffSign::Added).is_empty() && !signed(&removal, DiffSign::Removed).is_empty());
    assert_eq!(api.deployment(&deployment.id).await.unwrap(), deployment);
}

#[tokio::test]
async fn a_group_can_be_upgraded_reconfigured_and_cleared() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    upload(&api, "2.0.0").await;
    for name in ["a", "b", "c"] {
        let labels = json!({ "site": "nord", "line": if name == "c" { "2" } else { "1" } });
        press(&server, name, &Kind { labels, ..Kind::default() }).await;
    }
    let group = PutGroup { selector: "line=1".to_owned(), description: None, comment: None };
    api.put_group("line-1", &group, None).await.unwrap();
    finished(&api, &api.create_deployments(&create("1.0.0", selected("site=nord"))).await.unwrap()).await;
    let of_group = || Scope { group: Some("line-1".to_owned()), ..Scope::default() };

    let upgrade = CreateRollout { version: Some("2.0.0".to_owned()), ..rollout(RolloutKind::Upgrade, of_group()) };
    let done = finished(&api, &api.create_rollout(&upgrade).await.unwrap()).await;
    assert_eq!((done.total, done.published, done.skipped.len()), (2, 2, 0));
    assert_eq!(done.deployments.unwrap().0.values().sum::<u64>(), 2);
    assert_eq!(problem(api.create_rollout(&upgrade).await).code, "unchanged");

    let answers = IndexMap::from([("interval".to_owned(), json!(15))]);
    let all = CreateRollout { values: answers, ..rollout(RolloutKind::Reconfigure, selected("")) };
    assert_eq!(
        refused(api.create_rollout(&all).await),
        ("invalid".to_owned(), vec!["version".to_owned()]),
        "two versions run"
    );
    let some = CreateRollout { version: Some("1.0.0".to_owned()), ..all };
    assert_eq!(finished(&api, &api.create_rollout(&some).await.unwrap()).await.total, 1);

    server.clock.advance(Duration::from_secs(1));
    let removal = api.create_rollout(&rollout(RolloutKind::Remove, of_group())).await.unwrap();
    finished(&api, &removal).await;
    let left = all_deployments(&api).await;
    assert_eq!(left.iter().map(|deployment| deployment.client.as_str()).collect::<Vec<_>>(), ["c"]);
    let listed = api.rollouts(&PageQuery::default()).await.unwrap().items;
    assert_eq!((listed.len(), listed[0].id.as_str()), (4, removal.id.as_str()), "newest first");
}

#[tokio::test]
async fn rejects_invalid_rollouts_with_every_reason() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    press(&server, "press", &Kind::default()).await;
    let nothing = CreateRollout { version: None, ..create("1.0.0", Scope::default()) };
    assert_eq!(
        refused(api.create_rollout(&nothing).await),
        ("invalid".to_owned(), vec!["version".to_owned(), "scope".to_owned()])
    );
    let both = Scope { selector: Some(String::new()), ..on(&["press"]) };
    assert_eq!(refused(api.create_rollout(&create("1.0.0", both)).await).1, ["scope"]);
    let strangers = create("1.0.0", on(&["absent", "press", "no one"]));
    assert_eq!(refused(api.create_rollout(&strangers).await).1, ["scope.devices[2]"]);
    let strangers = create("1.0.0", on(&["absent", "press"]));
    assert_eq!(refused(api.create_rollout(&strangers).await).1, ["scope.devices[0]"]);
    assert_eq!(problem(api.create_rollout(&create("9.9.9", on(&["press"]))).await).code, "not-found");
    assert_eq!(problem(api.create_rollout(&create("1.0.0", selected("site=west"))).await).code, "unplaceable");
    let tiny = CreateRollout { profile: Some("tiny".to_owned()), ..create("1.0.0", on(&["press"])) };
    assert_eq!(refused(api.create_rollout(&tiny).await).1, ["profile"]);
    assert_eq!(refused(api.create_deployments(&rollout(RolloutKind::Remove, on(&["press"]))).await).1, ["kind"]);
    assert_eq!(
        refused(api.create_rollout(&rollout(RolloutKind::Remove, on(&["press"]))).await).1,
        ["scope.devices[0]"]
    );
    let unknown = Scope { deployments: Some(vec!["x".to_owned()]), ..Scope::default() };
    assert_eq!(refused(api.create_rollout(&rollout(RolloutKind::Remove, unknown)).await).1, ["scope.deployments[0]"]);
    let group = Scope { group: Some("none".to_owned()), ..Scope::default() };
    assert_eq!(problem(api.create_rollout(&create("1.0.0", group)).await).code, "not-found");
    assert_eq!(problem(api.rollout("x").await).code, "not-found");
    assert!(api.rollouts(&PageQuery::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_decommissioned_client_gets_nothing_new() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    press(&server, "press", &Kind::default()).await;
    api.decommission_client("press", None).await.unwrap();
    let problem = problem(api.create_deployments(&create("1.0.0", on(&["press"]))).await);
    assert!(problem.code == "unplaceable" && problem.errors[0].message.contains("decommissioned"), "{problem:?}");
}

#[tokio::test]
async fn a_profile_can_be_selected() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    press(&server, "press", &Kind::default()).await;
    let body = CreateRollout { profile: Some("cluster".to_owned()), ..create("1.0.0", on(&["press"])) };
    finished(&api, &api.create_deployments(&body).await.unwrap()).await;
    assert_eq!(all_deployments(&api).await[0].profile, "cluster");
    let document = api.deployment_document(&all_deployments(&api).await[0].id, None).await.unwrap();
    assert!(document.contains("vision-chart") && document.contains(packages::ID), "{document}");
    assert!(document.contains("eligibilityRules"), "constraints are in the document: {document}");
    assert_eq!(ID, all_deployments(&api).await[0].application);
}
