//! Unsupported content is rejected with the reason before any change.

use crate::bench::{Device, DocumentOptions, IMAGE};
use crate::charts;
use margo::status::State;

/// A template of one object with this annotation.
fn hook(kind: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ .Release.Name }}}}-hook\n  annotations: {{ \"helm.sh/hook\": {kind} }}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_charts_with_hooks_lookup_or_crds_and_skips_tests() {
    // AD-05
    let mut device = Device::helm().await;
    let lookup = "{{ if lookup \"v1\" \"Secret\" .Release.Namespace \"x\" }}\n{{ end }}\n".to_owned();
    let mut with_folder = charts::web("1.0.3", IMAGE);
    let definition = charts::definition("Press", "presses");
    with_folder.push(("crds/press.yaml", definition.clone()));
    let refused = [
        (charts::with_template("1.0.0", &hook("pre-install")), "is a hook (`pre-install`)"),
        (charts::with_template("1.0.1", &lookup), "uses `lookup`"),
        (charts::with_template("1.0.2", &definition), "CustomResourceDefinition `presses.plant.example`"),
        (with_folder, "CustomResourceDefinition `presses.plant.example`"),
        (charts::with_template("1.0.4", &hook("\"test,post-delete\"")), "is a hook (`test,post-delete`)"),
    ];
    device.start();
    for (number, (chart, reason)) in refused.iter().enumerate() {
        device.push_chart("web", chart).await;
        device.publish_revision(&format!("1.0.{number}"));
        device.reaches(State::Failed).await;
        let message = device.message();
        assert!(message.contains(reason), "{reason}: {message}");
    }
    let namespace = device.cluster.object(&format!("/api/v1/namespaces/{}", device.namespace));
    assert_eq!(namespace, None, "nothing was changed");
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/presses.plant.example";
    assert_eq!(device.cluster.object(definition), None);

    device.push_chart("web", &charts::with_template("1.1.0", &hook("test"))).await;
    device.publish_revision("1.1.0");
    device.reaches(State::Installed).await;
    assert!(device.log().contains("test ConfigMap"), "{}", device.log());
    let name = format!("{}-hook", device.instance());
    assert_eq!(device.cluster.object(&format!("/api/v1/namespaces/{}/configmaps/{name}", device.namespace)), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_manifests_for_other_namespaces_and_objects_of_others() {
    let mut device = Device::manifests().await;
    device.cluster.kubectl(&["create", "namespace", &device.namespace]);
    device.cluster.apply(&format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: theirs, namespace: {} }}\ndata: {{ mode: theirs }}\n",
        device.namespace
    ));
    let service = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{ name: {name} }}\nspec:\n  type: NodePort\n  \
             ports: [{{ port: 80, nodePort: 30123 }}]\n"
        )
    };
    device.cluster.apply(&service(&format!("theirs, namespace: {}", device.namespace)));
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: { name: everything }\n\
                rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }]\n";
    let elsewhere = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: web, namespace: kube-system }\n";
    let refused = [
        (role.to_owned(), "is not in a namespace"),
        (elsewhere.to_owned(), "names the namespace `kube-system`"),
        (service("web"), "provided port is already allocated"),
        (charts::config_map("theirs", "ours"), "already exists and was not created by this agent"),
        (charts::objects(IMAGE).replace("replicas: 1", "replicas: many"), "rejected before any change"),
    ];
    device.start();
    for (number, (yaml, reason)) in refused.iter().enumerate() {
        let revision = format!("1.0.{number}");
        device.push_manifests("web", &revision, yaml).await;
        device.publish_revision(&revision);
        device.reaches(State::Failed).await;
        let message = device.message();
        assert!(message.contains(reason), "{reason}: {message}");
    }
    let theirs = device.kubectl(&["get", "configmap", "theirs", "-o", "jsonpath={.data.mode}"]);
    assert_eq!(theirs, "theirs");
    assert!(device.ours("configmaps").is_empty(), "nothing was changed");
    assert_eq!(device.cluster.object("/apis/rbac.authorization.k8s.io/v1/clusterroles/everything"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_an_unschedulable_upgrade_and_keeps_the_running_revision() {
    let mut device = Device::manifests().await;
    device.install(&DocumentOptions::default()).await;
    let kept = device.pods();
    let large = "          imagePullPolicy: IfNotPresent\n          resources: { requests: { memory: 9000Gi } }\n";
    let objects = charts::objects(IMAGE).replace("          imagePullPolicy: IfNotPresent\n", large);
    device.push_manifests("web", "2.0.0", &objects).await;
    let properties = "          timeout: 0m8s\n";
    device.publish_document(&DocumentOptions { revision: "2.0.0", properties, ..DocumentOptions::default() });
    device.reaches(State::Failed).await;
    let message = device.message();
    assert!(message.contains("is not scheduled") && message.contains("Insufficient memory"), "{message}");
    assert_eq!(device.pods(), kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_a_pointer_without_target() {
    // PRM-02
    let mut device = Device::manifests().await;
    device.push("1.0.0", IMAGE).await;
    let parameters = [("Deployment/other/spec/replicas", "2")];
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        parameters: &parameters,
        ..DocumentOptions::default()
    });
    device.start();
    device.reaches(State::Failed).await;
    let message = device.message();
    assert!(message.contains("Deployment/other"), "{message}");
}
