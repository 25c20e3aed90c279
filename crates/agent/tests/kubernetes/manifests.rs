//! The life cycle of plain manifests: apply, change, prune, remove; objects of others are not touched.

use crate::bench::{Device, DocumentOptions, IMAGE, OTHER_IMAGE, name_of};
use crate::charts;
use margo::status::State;
use serde_json::Value;

fn managers(object: &Value) -> Vec<(String, String)> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    entries.iter().map(|entry| (text(&entry["manager"]), text(&entry["operation"]))).collect()
}

fn config_maps(device: &Device) -> Vec<String> {
    let mut names: Vec<String> = device.ours("configmaps").iter().map(name_of).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_missing_patches_outdated_and_deletes_undesired_objects() {
    // CR-01
    let mut device = Device::manifests().await;
    let first = format!("{}---\n{}", charts::objects(IMAGE), charts::config_map("old", "x"));
    device.push_manifests("web", "1.0.0", &first).await;
    let parameters = [
        ("Deployment/web/spec/replicas", "2"),
        ("Deployment/web/spec/template/spec/containers/web/env/MODE/value", "slow"),
        ("ConfigMap/web/data/mode", "slow"),
    ];
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        parameters: &parameters,
        ..DocumentOptions::default()
    });
    device.start();
    device.reaches(State::Installed).await;
    let states: Vec<State> = device.fake.reported(device.id).iter().map(|status| status.state).collect();
    assert_eq!(states, [State::Pending, State::Installing, State::Installed]);
    let workload = device.workload();
    assert!(managers(&workload).contains(&("margrave".to_owned(), "Apply".to_owned())), "{workload}");
    assert_eq!(workload["status"]["readyReplicas"], 2, "readiness is awaited");
    assert_eq!(config_maps(&device), ["old", "web"]);
    assert!(device.exec(&["env"]).contains("MODE=slow"));

    // One object is missing, one outdated, one undesired, one as it was.
    let kept = device.ours("configmaps").into_iter().find(|object| name_of(object) == "web").unwrap();
    let second = format!("{}---\n{}", charts::objects(OTHER_IMAGE), charts::config_map("new", "x"));
    device.push_manifests("web", "2.0.0", &second).await;
    device.publish_document(&DocumentOptions {
        revision: "2.0.0",
        parameters: &parameters,
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
    assert_eq!(config_maps(&device), ["new", "web"]);
    assert_eq!(device.workload()["metadata"]["uid"], workload["metadata"]["uid"], "patched, not made anew");
    device.until("the old pods are gone", || device.pods().len() == 2).await;
    assert_eq!(device.exec(&["cat", "/mark"]), "2");
    let same = device.ours("configmaps").into_iter().find(|object| name_of(object) == "web").unwrap();
    assert_eq!(same["metadata"]["resourceVersion"], kept["metadata"]["resourceVersion"], "left alone");

    // Scaled and reconfigured by parameter.
    device.publish_document(&DocumentOptions {
        revision: "2.0.0",
        parameters: &[("Deployment/web/spec/replicas", "1"), ("ConfigMap/web/data/mode", "\"007\"")],
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
    device.until("one pod is left", || device.pods().len() == 1).await;
    assert_eq!(
        device.kubectl(&["get", "configmap", "web", "-o", "jsonpath={.data.mode}"]),
        "007",
        "a text stays a text"
    );

    device.remove().await;
    let gone = || {
        let namespace = device.cluster.object(&format!("/api/v1/namespaces/{}", device.namespace));
        namespace.is_none_or(|namespace| namespace["status"]["phase"] == "Terminating")
    };
    device.until("the namespace made for it goes as well", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn never_touches_objects_of_others() {
    let mut device = Device::manifests().await;
    device.cluster.kubectl(&["create", "namespace", &device.namespace]);
    // Objects of others with similar names and labels.
    let foreign = charts::deployment(IMAGE).replace("name: web }", &format!("name: web-2, namespace: {}, labels: {{ app: web, org.margrave.deployment: other, app.kubernetes.io/managed-by: margrave }} }}", device.namespace));
    device.cluster.apply(&foreign);
    device.cluster.apply(&format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: web-settings, namespace: {}, labels: {{ app: web }} }}\n",
        device.namespace
    ));
    let state = |device: &Device| {
        let part = "jsonpath={.metadata.uid} {.metadata.generation} {.metadata.resourceVersion}";
        let map = device.kubectl(&["get", "configmap", "web-settings", "-o", part]);
        let workload = "jsonpath={.metadata.uid} {.metadata.generation} {.metadata.managedFields[*].manager}";
        let pods = "jsonpath={.items[*].metadata.uid}";
        let selector = "app=web,!org.margrave.instance";
        (
            map,
            device.kubectl(&["get", "deployment", "web-2", "-o", workload]),
            device.kubectl(&["get", "pods", "-l", selector, "-o", pods]),
        )
    };
    let namespace = device.namespace.clone();
    device
        .cluster
        .until(
            "theirs runs",
            &["-n", &namespace, "get", "deployment", "web-2", "-o", "jsonpath={.status.readyReplicas}"],
            |ready| ready == "1",
        )
        .await;
    let before = state(&device);
    device.deployment_type = "custom";
    device.push_manifests("web", "1.0.0", &charts::objects(IMAGE).replace("app: web", "app: ours")).await;
    device.publish_revision("1.0.0");
    device.start();
    device.reaches(State::Installed).await;
    let parameters = [("Deployment/web/spec/replicas", "2")];
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        parameters: &parameters,
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
    device.kubectl(&["delete", "deployment", "web"]);
    device.until("ours is repaired", || device.pods().len() == 2).await;
    device.remove().await;
    assert_eq!(state(&device), before);
    let namespace = device.cluster.object(&format!("/api/v1/namespaces/{}", device.namespace)).unwrap();
    assert_eq!(namespace["status"]["phase"], "Active", "a namespace that others made stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn leaves_fields_of_other_managers() {
    let mut device = Device::manifests().await;
    device.install(&DocumentOptions::default()).await;
    // A label of a tool on our object, and replicas by hand of a field we did not write.
    device.kubectl(&["label", "deployment", "web", "tool=theirs"]);
    device.push("2.0.0", OTHER_IMAGE).await;
    device.publish_revision("2.0.0");
    device.reaches(State::Installed).await;
    assert_eq!(device.workload()["metadata"]["labels"]["tool"], "theirs");
    device.until("the new pod runs", || device.pods().len() == 1).await;
    assert_eq!(device.exec(&["cat", "/mark"]), "2");
}
