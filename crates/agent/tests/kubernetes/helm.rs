//! The life cycle of a Helm release: install, reconfigure, scale, upgrade, remove, with Helm 3 and with Helm 4.

use crate::bench::{Device, DocumentOptions, IMAGE, OTHER_IMAGE, name_of};
use crate::charts;
use margo::status::State;
use serde_json::{Value, json};

/// The values the chart was rendered with, as it shows them.
fn values(device: &Device) -> Value {
    let path = format!("/api/v1/namespaces/{}/configmaps/{}", device.namespace, device.instance());
    let shown = device.cluster.object(&path).unwrap();
    assert_eq!(shown["data"]["release"], format!("{}/{}", device.namespace, device.instance()));
    serde_json::from_str(shown["data"]["values"].as_str().unwrap()).unwrap()
}

/// Release, revision of it, status and chart, as Helm itself lists them.
fn listed(device: &Device) -> Vec<(String, String, String, String)> {
    let list: Value = serde_json::from_str(&device.run_helm(&["list", "-o", "json"])).unwrap();
    let text = |release: &Value, name: &str| match &release[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let one = |release: &Value| {
        (text(release, "name"), text(release, "revision"), text(release, "status"), text(release, "chart"))
    };
    list.as_array().unwrap().iter().map(one).collect()
}

fn release(device: &Device, revision: &str, chart: &str) -> Vec<(String, String, String, String)> {
    vec![(device.instance(), revision.to_owned(), "deployed".to_owned(), chart.to_owned())]
}

async fn lives(helm: &'static str) {
    // DEV-02, AD-04, PRM-02, W-24
    let mut device = Device::helm().await;
    device.helm = helm;
    // In a tag, `_` stands for `+`.
    device.push_chart("web", &charts::with_chart_inside("1.0.0+build.7", IMAGE)).await;
    device.push("2.0.0", OTHER_IMAGE).await;
    let telemetry = "[telemetry]\nhttp_endpoint = \"http://collector.plant:4318\"\nprotocol = \"http/protobuf\"\n";
    telemetry.clone_into(&mut device.tables);
    let parameters = [
        ("replicas", "1"),
        ("mode", "\"8080\""),
        ("settings.port", "8080"),
        ("settings.rate", "2.5"),
        ("settings.on", "true"),
        ("settings.words", "\"true\""),
        ("settings.code", "\"007\""),
        ("settings.pin", "40814711"),
        ("settings.ports[0]", "5000000"),
        ("panel.port", "7000001"),
        ("global.line", "9007199254740993"),
        ("settings.hosts[1].name", "second"),
        (r"annotations.example\.org/line", "\"7\""),
    ];
    device.publish_document(&DocumentOptions {
        revision: "1.0.0_build.7",
        parameters: &parameters,
        ..DocumentOptions::default()
    });
    let helm_log = device.watch_helm();
    device.start();
    device.reaches(State::Installed).await;
    let states: Vec<State> = device.fake.reported(device.id).iter().map(|status| status.state).collect();
    assert_eq!(states, [State::Pending, State::Installing, State::Installed], "states are reported as they happen");
    assert_eq!(listed(&device), release(&device, "1", "web-1.0.0+build.7"));
    let shown = values(&device);
    assert_eq!(shown["mode"], json!("8080"), "a text of digits stays a text");
    let settings = json!({
        "port": 8080, "rate": 2.5, "on": true, "words": "true", "hosts": [null, { "name": "second" }],
        "code": "007", "pin": 40_814_711, "ports": [5_000_000],
    });
    assert_eq!(shown["settings"], settings, "`--set` semantics, types kept");
    let data = |name: &str| {
        let path = format!("/api/v1/namespaces/{}/configmaps/{name}", device.namespace);
        device.cluster.object(&path).unwrap()["data"].clone()
    };
    let (own, inner) = (data(&device.instance()), data(&format!("{}-panel", device.instance())));
    assert_eq!((&own["pin"], &own["ports"]), (&json!("40814711"), &json!("5000000")), "whole also in the template");
    assert_eq!(inner, json!({ "port": "7000001", "line": "9007199254740993" }), "and in charts inside");
    let helm_log = std::fs::read_to_string(helm_log).unwrap();
    for value in ["8080", "2.5", "007", "40814711", "5000000", "7000001", "9007199254740993", "second", "--set"] {
        assert!(
            !helm_log.lines().any(|line| line.contains(value)),
            "`{value}` is visible in the process list: {helm_log}"
        );
    }
    assert_eq!(helm_log.matches("values have mode 600").count(), helm_log.matches("--values\n").count(), "{helm_log}");
    assert!(helm_log.contains("--values\n"), "{helm_log}");
    assert_eq!(shown["annotations"], json!({ "example.org/line": "7" }));
    let first = device.pods();
    assert_eq!(first.len(), 1);
    let environment = device.exec(&["env"]);
    for line in ["MODE=8080", "HTTP_OTEL_EXPORTER_OTLP_ENDPOINT=http://collector.plant:4318"] {
        // OBS-05
        assert!(environment.contains(line), "{line}: {environment}");
    }

    let logs = std::process::Command::new(env!("CARGO_BIN_EXE_margrave-agent"))
        .arg("--config")
        .arg(device.path("agent.toml"))
        .args(["logs", &device.id.to_string()])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&logs.stdout), format!("{}/web | it is up\n", first[0]));

    // Scaled: running pods stay, the others are added.
    let parameters = [("replicas", "3"), ("mode", "\"8080\"")];
    device.publish_document(&DocumentOptions {
        revision: "1.0.0_build.7",
        parameters: &parameters,
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
    assert_eq!(device.pods().len(), 3);
    // Reconfigured and upgraded at once.
    device.publish_document(&DocumentOptions {
        revision: "2.0.0",
        parameters: &[("mode", "fast")],
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
    device.until("one new pod is left", || device.pods().len() == 1).await;
    assert!(!first.contains(&device.pods()[0]));
    assert_eq!((device.exec(&["cat", "/mark"]).as_str(), values(&device)["mode"].as_str()), ("2", Some("fast")));
    assert_eq!(listed(&device), release(&device, "3", "web-2.0.0"));

    device.remove().await;
    let gone = || {
        let namespace = device.cluster.object(&format!("/api/v1/namespaces/{}", device.namespace));
        namespace.is_none_or(|namespace| namespace["status"]["phase"] == "Terminating")
    };
    device.until("the namespace made for it goes as well", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_installed_scaled_reconfigured_upgraded_and_removed_with_helm_3() {
    lives("helm3").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_installed_scaled_reconfigured_upgraded_and_removed_with_helm_4() {
    lives("helm4").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_a_release_keeps_objects_of_others_in_the_namespace() {
    let mut device = Device::helm().await;
    device.install(&DocumentOptions::default()).await;
    device.cluster.apply(&format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: theirs, namespace: {} }}\n",
        device.namespace
    ));
    device.remove().await;
    assert!(device.ours("pods").is_empty() && device.ours("apps/deployments").is_empty());
    assert!(listed(&device).is_empty());
    assert_eq!(device.kubectl(&["get", "configmap", "theirs", "-o", "name"]), "configmap/theirs");
    let namespace = device.cluster.object(&format!("/api/v1/namespaces/{}", device.namespace)).unwrap();
    assert_eq!(namespace["status"]["phase"], "Active");
}

#[tokio::test(flavor = "multi_thread")]
async fn applies_components_in_order_after_the_previous_is_ready() {
    // AD-01, AD-02
    let mut device = Device::helm().await;
    let slow = charts::with_values("1.0.0", "command: sleep 3; touch /ready; sleep 1000000\n");
    device.push_chart("web", &slow).await;
    device.push_chart("panel", &charts::web("1.0.0", IMAGE)).await;
    let components = device.component("web", "1.0.0") + &device.component("panel", "1.0.0");
    let served = device.document_of(&components, &DocumentOptions::default());
    device.publish(&[served]);
    device.start();
    assert_eq!(device.reaches(State::Installed).await.components.len(), 2);
    let found = device.ours("apps/deployments");
    let of = |start: &str| found.iter().find(|object| name_of(object).starts_with(start)).unwrap();
    let conditions = of("web-")["status"]["conditions"].as_array().unwrap();
    let available = conditions.iter().find(|condition| condition["type"] == "Available").unwrap();
    let (ready, created) = (&available["lastTransitionTime"], &of("panel-")["metadata"]["creationTimestamp"]);
    assert!(ready.as_str().unwrap() <= created.as_str().unwrap(), "{ready} {created}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_fails_after_its_timeout_with_the_reason_of_its_pods() {
    // AD-03
    let mut device = Device::helm().await;
    let missing = format!("{}/images/missing:1", device.registry.host());
    device.push("1.0.0", &missing).await;
    let properties = "          timeout: 0m12s\n";
    device.publish_document(&DocumentOptions { revision: "1.0.0", properties, ..DocumentOptions::default() });
    device.start();
    device.reaches(State::Failed).await;
    let message = device.message();
    assert!(message.contains("not finished after 12 s") && message.contains("ImagePull"), "{message}");
    // Without waiting the next component comes all the same (AD-02).
    device.push_chart("panel", &charts::web("1.0.0", IMAGE)).await;
    let components = device.component("web", "1.0.0") + "          wait: false\n" + &device.component("panel", "1.0.0");
    let served = device.document_of(&components, &DocumentOptions::default());
    device.publish(&[served]);
    let installed = |device: &Device| {
        device
            .status()
            .is_some_and(|status| status.components.get(1).is_some_and(|panel| panel.state == State::Installed))
    };
    device.until("the next one is installed", || installed(&device)).await;
    assert_ne!(
        device.status().unwrap().components[0].state,
        State::Installed,
        "and a component that does not run is not reported as installed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_left_pending_by_a_crash_are_recovered() {
    recovers("helm3").await;
}

#[cfg(feature = "soak")]
#[tokio::test(flavor = "multi_thread")]
async fn releases_left_pending_by_a_crash_are_recovered_with_helm_4() {
    recovers("helm4").await;
}

async fn recovers(helm: &'static str) {
    let mut device = Device::helm().await;
    device.helm = helm;
    device.install(&DocumentOptions::default()).await;
    device.kill();
    // Another Helm process dies during an upgrade that never becomes ready.
    let folder = device.path("stuck");
    for (path, text) in charts::with_values("1.5.0", "command: sleep 1000000\n") {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let mut upgrade = device.helm_command(&["upgrade", &device.instance(), folder.to_str().unwrap(), "--wait"]);
    let mut upgrade = upgrade.stdout(std::process::Stdio::null()).spawn().unwrap();
    let pending = |device: &Device| device.run_helm(&["status", &device.instance()]).contains("pending-upgrade");
    device.until("the release is pending", || pending(&device)).await;
    upgrade.kill().unwrap();
    upgrade.wait().unwrap();
    assert!(pending(&device));
    device.push("2.0.0", OTHER_IMAGE).await;
    device.publish_revision("2.0.0");
    device.start();
    device.reaches(State::Installed).await;
    assert_eq!(listed(&device), release(&device, "2", "web-2.0.0"));
    device.until("only the new pod is left", || device.pods().len() == 1).await;
    assert_eq!(device.exec(&["cat", "/mark"]), "2");
}
