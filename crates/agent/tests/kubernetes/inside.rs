//! The packaged agent as a pod of the cluster it manages, with its packaged permissions.

use crate::bench::{Device, DocumentOptions, IMAGE, OTHER_IMAGE};
use crate::charts;
use margo::status::State;
use margrave_testbed::images;
use margrave_testbed::tools::tool;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// As the packaged files have it.
const PLACE: &str = "margrave-system";
const WORKLOADS: &str = "plant";
const AGENT_IMAGE: &str = "margrave-agent:0.1.0";
const ACCOUNT: &str = "system:serviceaccount:margrave-system:margrave-agent";
const SETTINGS: &str = "/etc/margrave/settings";

fn packaged(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// The image as it is packaged: the agent and helm.
fn load_image(device: &Device) {
    let (agent, helm) = (Path::new(env!("CARGO_BIN_EXE_margrave-agent")), tool(device.helm));
    let image = images::programs(&[("/usr/bin/margrave-agent", agent), ("/usr/bin/helm", &helm)]);
    device.cluster.load(&format!("docker.io/library/{AGENT_IMAGE}"), &image);
}

/// The packaged objects, with settings and files of this test, on a volume of this test.
fn apply_agent(device: &Device, kubernetes: &str) {
    let see = |file: &Path| Path::new(SETTINGS).join(file.file_name().unwrap());
    let engine = format!(
        "[kubernetes]\nhelm = \"/usr/bin/helm\"\n{kubernetes}\n\
         [[registry]]\nhost = \"{}\"\nca_file = \"{SETTINGS}/ca.pem\"\nusername = \"device\"\npassword_file = \"{SETTINGS}/password\"\n",
        device.registry.host()
    );
    let mut data = json!({ "agent.toml": device.config(&engine, Path::new("/state"), see) });
    let mut files: Vec<PathBuf> = vec![device.registry.ca_file(), device.path("password")];
    let folder = device.path("password").parent().unwrap().to_owned();
    let of_identity =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "pem" || end == "key" || end == "json");
    files.extend(fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).filter(of_identity));
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        data[name] = json!(fs::read_to_string(&file).unwrap());
    }
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "margrave-agent", "namespace": PLACE }, "data": data,
    });
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "margrave-agent-state" },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
            "hostPath": { "path": device.path("volume"), "type": "Directory" },
        },
    });
    let parts = packaged("agent.yaml");
    let rest: Vec<&str> = parts.split("---\n").filter(|part| !part.contains("kind: ConfigMap")).collect();
    device.cluster.apply(&format!("{}\n---\n{settings}\n---\n{volume}\n", rest.join("---\n")));
}

fn logs(device: &Device) -> String {
    device.cluster.try_kubectl(&["-n", PLACE, "logs", "deployment/margrave-agent", "--tail=40"]).1
}

fn may(device: &Device, verb: &str, resource: &str, namespace: &str) -> bool {
    // A part of an object is asked for by an option: `pods/exec` would be a pod of that name.
    let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
    let part = format!("--subresource={part}");
    let arguments = ["auth", "can-i", verb, resource, &part, "-n", namespace, "--as", ACCOUNT];
    let (_, text) = device.cluster.try_kubectl(&arguments);
    text.lines().next_back() == Some("yes")
}

/// Waits for a state, or fails with the log of the pod.
async fn reaches(device: &Device, state: State) {
    let start = std::time::Instant::now();
    while device.status().is_none_or(|status| status.state != state) {
        let late = start.elapsed() > margrave_testbed::tools::PATIENCE;
        assert!(!late, "never {state:?}: {:?}\n{}", device.status(), logs(device));
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_packaged_agent_works_with_its_permissions_only() {
    let mut device = Device::helm().await;
    device.namespace = WORKLOADS.to_owned();
    load_image(&device);
    fs::create_dir_all(device.path("volume")).unwrap();
    std::os::unix::fs::chown(device.path("volume"), Some(65534), Some(65534)).unwrap();
    device.push("1.0.0", IMAGE).await;
    device.push("2.0.0", OTHER_IMAGE).await;
    device.publish_revision("1.0.0");
    device.cluster.apply(&packaged("rights-namespace.yaml"));
    apply_agent(&device, &format!("namespace = \"{WORKLOADS}\""));
    reaches(&device, State::Installed).await;
    assert_eq!(device.pods().len(), 1);
    device.publish_document(&DocumentOptions {
        revision: "2.0.0",
        parameters: &[("replicas", "2")],
        ..DocumentOptions::default()
    });
    reaches(&device, State::Installed).await;
    device.until("both new pods run", || device.pods().len() == 2).await;
    // Drift is detected by watching, which is one of its permissions.
    device.kubectl(&["scale", "deployment", &device.instance(), "--replicas=1"]);
    device.until("it is scaled back", || device.workload()["spec"]["replicas"] == 2).await;

    // The cluster rejects a chart that grants more permissions than the agent has, and the reason is reported.
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: { name: too-much }\n\
                rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }]\n";
    device.push_chart("web", &charts::with_template("3.0.0", role)).await;
    device.publish_revision("3.0.0");
    reaches(&device, State::Failed).await;
    assert!(device.message().contains("forbidden"), "{}", device.message());
    device.publish(&[]);
    reaches(&device, State::Removed).await;

    // Plain manifests with the same rights.
    device.deployment_type = "custom";
    device.push_manifests("web", "4.0.0", &charts::objects(IMAGE)).await;
    device.publish_revision("4.0.0");
    reaches(&device, State::Installed).await;
    device.publish(&[]);
    reaches(&device, State::Removed).await;

    for (verb, resource) in [("create", "deployments.apps"), ("get", "secrets"), ("delete", "services")] {
        assert!(may(&device, verb, resource, WORKLOADS), "{verb} {resource}");
        assert!(!may(&device, verb, resource, "default"), "{verb} {resource} elsewhere");
        assert!(!may(&device, verb, resource, "kube-system"), "{verb} {resource} of the cluster");
    }
    let never = [
        ("get", "nodes"),
        ("list", "namespaces"),
        ("create", "clusterroles.rbac.authorization.k8s.io"),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
        ("create", "pods/exec"),
        ("create", "customresourcedefinitions.apiextensions.k8s.io"),
        ("escalate", "roles.rbac.authorization.k8s.io"),
        ("impersonate", "users"),
        // Kinds that are only listed before a namespace is deleted.
        ("create", "leases.coordination.k8s.io"),
        ("delete", "resourcequotas"),
        ("get", "endpointslices.discovery.k8s.io"),
    ];
    for (verb, resource) in never {
        assert!(!may(&device, verb, resource, WORKLOADS), "{verb} {resource}");
    }

    // With rights in the cluster, each deployment goes to the namespace it names.
    device.cluster.apply(&packaged("rights-cluster.yaml"));
    apply_agent(&device, "");
    device.cluster.kubectl(&["-n", PLACE, "rollout", "restart", "deployment/margrave-agent"]);
    device.cluster.kubectl(&["-n", PLACE, "rollout", "status", "deployment/margrave-agent", "--timeout=120s"]);
    device.deployment_type = "helm";
    device.namespace = "hall-3".to_owned();
    device.publish_revision("1.0.0");
    reaches(&device, State::Installed).await;
    assert_eq!(device.pods().len(), 1);
    for (verb, resource) in never {
        assert!(!may(&device, verb, resource, "hall-3"), "{verb} {resource}");
    }
    device.publish(&[]);
    reaches(&device, State::Removed).await;
    let namespace = |device: &Device| device.cluster.object("/api/v1/namespaces/hall-3");
    let going = |namespace: serde_json::Value| namespace["status"]["phase"] == "Terminating";
    device.until("the namespace made for it goes", || namespace(&device).is_none_or(going)).await;

    // A kind that it may not list keeps the namespace.
    device.cluster.apply(&charts::definition("Oven", "ovens"));
    device.cluster.until("the new kind is known", &["get", "ovens.plant.example", "-A"], |_| true).await;
    device.publish_revision("1.0.0");
    reaches(&device, State::Installed).await;
    device.publish(&[]);
    reaches(&device, State::Removed).await;
    assert!(logs(&device).contains("namespace `hall-3` is kept"), "{}", logs(&device));
    assert!(logs(&device).contains("ovens cannot be listed"), "{}", logs(&device));
    assert_eq!(namespace(&device).unwrap()["status"]["phase"], "Active");
    device.cluster.kubectl(&["delete", "customresourcedefinition", "ovens.plant.example"]);
    for namespace in [PLACE, WORKLOADS] {
        device.cluster.kubectl(&["delete", "namespace", "--wait=false", namespace]);
    }
}
