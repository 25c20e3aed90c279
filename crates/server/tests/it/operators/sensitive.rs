//! Only the device gets a sensitive value (PRM-09).

use super::packages::upload;
use super::{Kind, api, create, deployed, on, press, refused};
use crate::support::TestServer;
use indexmap::IndexMap;
use margrave_api::client::{DeploymentQuery, PageQuery};
use margrave_api::deployments::UpdateDeployment;
use margrave_api::rollouts::RolloutKind;
use serde_json::json;

#[tokio::test]
async fn responses_and_audit_records_contain_no_sensitive_value() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    upload(&api, "1.0.0").await;
    let secret = "s3cret-value";
    let plan = api.plan_deployments(&create("1.0.0", on(&["press"]))).await.unwrap();
    let deployment = deployed(&server, "press").await;
    assert_eq!(deployment.values["password"], json!("********"));
    let page = PageQuery::default();
    let told = [
        serde_json::to_string(&plan).unwrap(),
        serde_json::to_string(&deployment).unwrap(),
        serde_json::to_string(&api.deployment_revisions(&deployment.id).await.unwrap()).unwrap(),
        api.deployment_document(&deployment.id, None).await.unwrap(),
        api.deployment_document(&deployment.id, Some(1)).await.unwrap(),
        serde_json::to_string(&api.rollouts(&page).await.unwrap()).unwrap(),
        serde_json::to_string(&api.audit(None, &page).await.unwrap()).unwrap(),
        serde_json::to_string(&api.deployments(&DeploymentQuery::default(), &page).await.unwrap()).unwrap(),
    ];
    for text in told {
        assert!(!text.contains(secret), "{text}");
    }
}

#[tokio::test]
async fn a_plan_masks_a_changed_sensitive_value() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let answers = IndexMap::from([("password".to_owned(), json!("an0ther-value"))]);
    let body = UpdateDeployment { version: None, values: answers, ..UpdateDeployment::default() };
    let plan = api.plan_update_deployment(&deployment.id, &body, None).await.unwrap();
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(plan.kind, RolloutKind::Reconfigure);
    assert!(text.contains("******** (changed)") && !text.contains("an0ther") && !text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn rejects_the_mask_as_a_value() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let body = UpdateDeployment { version: None, values: deployment.values.clone(), ..UpdateDeployment::default() };
    let (code, fields) = refused(api.update_deployment(&deployment.id, &body, None).await);
    assert_eq!((code.as_str(), fields), ("invalid", vec!["values.password".to_owned()]));
}
