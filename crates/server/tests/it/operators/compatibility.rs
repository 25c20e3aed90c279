//! Compatibility of applications with devices, and the reasons (CON-02).

use super::packages::{ID, files, pack, upload};
use super::pages::Browser;
use super::{Kind, all_deployments, api, create, finished, on, press, problem};
use crate::support::TestServer;
use margrave_api::applications::{Compatibility, DeviceCompatibility};
use margrave_api::client::PageQuery;
use margrave_api::devices::UpdateDevice;
use serde_json::json;

fn reasons(fit: &DeviceCompatibility, profile: &str) -> String {
    let evaluated = fit.profiles.iter().find(|evaluated| evaluated.profile == profile).unwrap();
    evaluated
        .reasons
        .iter()
        .map(|reason| format!("{}={:?}: {}", reason.rule, reason.outcome, reason.message))
        .collect::<Vec<_>>()
        .join("\n")
}

#[tokio::test]
async fn reports_compatibility_of_every_device_with_a_reason_per_rule() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    press(&server, "a-good", &Kind::default()).await;
    let helm = Kind { architecture: "arm64", types: &["helm"], ..Kind::default() };
    press(&server, "b-helm", &helm).await;
    let small = Kind { memory: "512Mi", types: &["compose"], ..Kind::default() };
    press(&server, "c-small", &small).await;
    press(&server, "d-sued", &Kind { labels: json!({ "site": "sued" }), ..helm.clone() }).await;

    let fits = api.application_compatibility(ID, "1.0.0", None, &PageQuery::default()).await.unwrap().items;
    let told: Vec<_> =
        fits.iter().map(|fit| (fit.device.device.as_str(), fit.outcome, fit.profile.as_deref())).collect();
    assert_eq!(
        told,
        [
            ("a-good", Compatibility::Compatible, Some("small")),
            ("b-helm", Compatibility::Compatible, Some("cluster")),
            ("c-small", Compatibility::Incompatible, None),
            ("d-sued", Compatibility::Incompatible, None),
        ]
    );
    assert!(
        reasons(&fits[0], "small").contains("memory=Compatible"),
        "compatible devices have reasons too: {}",
        reasons(&fits[0], "small")
    );
    assert!(reasons(&fits[2], "small").contains("memory=Incompatible"), "{}", reasons(&fits[2], "small"));
    assert!(reasons(&fits[2], "cluster").contains("deploymentType=Incompatible"), "{}", reasons(&fits[2], "cluster"));
    assert!(reasons(&fits[3], "cluster").contains("eligibilityRules"), "{}", reasons(&fits[3], "cluster"));
}

#[tokio::test]
async fn operator_labels_do_not_affect_compatibility_and_every_view_says_so() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    let helm = Kind { architecture: "arm64", types: &["helm"], labels: json!({}), ..Kind::default() };
    press(&server, "press", &helm).await;
    let labels = [("site".to_owned(), Some("nord".to_owned()))].into_iter().collect();
    api.update_device("press", "press", &UpdateDevice { labels, comment: None }, None).await.unwrap();
    let text_found = "needs the label `site` (`nord`), which the device does not report (the operator's label `site=nord` \
                does not count here: only labels reported by the device do)";
    let fits = api.application_compatibility(ID, "1.0.0", None, &PageQuery::default()).await.unwrap().items;
    assert!(reasons(&fits[0], "cluster").contains(text_found), "{}", reasons(&fits[0], "cluster"));
    let refused = problem(api.create_deployments(&create("1.0.0", on(&["press"]))).await);
    assert!(refused.errors[0].message.contains(text_found), "{refused:?}");
    let page = Browser::signed_in(&server).await.get("/devices/press/press").await.text().await.unwrap();
    assert!(page.contains("data-reason=\"label-scope\""), "{page}");
}

#[tokio::test]
async fn serves_custom_runtimes_without_knowing_them() {
    // CR-01
    let server = TestServer::start().await;
    let api = api(&server);
    let mut files = files("1.0.0");
    files[0].1 = String::from_utf8(files[0].1.clone()).unwrap().replace("type: helm", "type: custom").into_bytes();
    api.upload_application(pack(&files), Some("a folder"), None).await.unwrap();
    let custom = Kind { runtimes: &["custom"], types: &["custom"], ..Kind::default() };
    press(&server, "a-custom", &custom).await;
    press(&server, "b-elsewhere", &Kind { labels: json!({}), ..custom }).await;
    press(&server, "c-helm", &Kind { types: &["helm"], ..Kind::default() }).await;
    let fits = api.application_compatibility(ID, "1.0.0", None, &PageQuery::default()).await.unwrap().items;
    let profiles: Vec<_> = fits.iter().map(|fit| (fit.device.device.as_str(), fit.profile.as_deref())).collect();
    assert_eq!(profiles, [("a-custom", Some("cluster")), ("b-elsewhere", None), ("c-helm", None)]);
    finished(&api, &api.create_deployments(&create("1.0.0", on(&["a-custom"]))).await.unwrap()).await;
    let deployment = all_deployments(&api).await.remove(0);
    let document = api.deployment_document(&deployment.id, None).await.unwrap();
    for part in ["type: custom", "repository: oci://registry.example/vision-chart", "revision: \"1.0.0\""] {
        assert!(document.contains(part), "{part}: {document}");
    }
}

#[tokio::test]
async fn lists_compatibility_in_pages_and_by_selector() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    let client = server.accepted("hall").await;
    for number in 0..5 {
        let labels = json!({ "site": "nord", "line": if number < 3 { "1" } else { "2" } });
        Kind { labels, ..Kind::default() }.report(&client, &format!("d{number}")).await;
    }
    let first = api
        .application_compatibility(ID, "1.0.0", Some("line=1"), &PageQuery { limit: Some(2), after: None })
        .await
        .unwrap();
    assert_eq!(first.items.len(), 2);
    let rest = api
        .application_compatibility(ID, "1.0.0", Some("line=1"), &PageQuery { limit: Some(2), after: first.next })
        .await
        .unwrap();
    assert_eq!((rest.items.len(), rest.next), (1, None));
    assert_eq!(
        problem(api.application_compatibility(ID, "9.0.0", None, &PageQuery::default()).await).code,
        "not-found"
    );
}

#[tokio::test]
async fn unknown_compatibility_is_not_selected() {
    // W-17, CON-02
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    press(&server, "vague", &Kind { memory: "plenty", types: &["compose"], ..Kind::default() }).await;
    let fit = api.application_compatibility(ID, "1.0.0", None, &PageQuery::default()).await.unwrap().items.remove(0);
    assert_eq!((fit.outcome, fit.profile.as_deref()), (Compatibility::Unknown, None));
    assert!(reasons(&fit, "small").contains("memory=Unknown"), "{}", reasons(&fit, "small"));
    let problem = problem(api.create_deployments(&create("1.0.0", on(&["vague"]))).await);
    assert_eq!((problem.code.as_str(), problem.errors[0].field.as_str()), ("unplaceable", "vague/vague"));
    assert!(problem.errors[0].message.contains("unknown"), "{problem:?}");
}
