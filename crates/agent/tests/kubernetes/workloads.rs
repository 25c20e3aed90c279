//! Jobs and StatefulSets: finished jobs are not repeated, failed ones are reported and repeated, data is kept.

use crate::bench::{Device, DocumentOptions, IMAGE};
use margo::status::State;
use serde_json::Value;

const PURGE: &str = "  x-margrave-extensions:\n    policy:\n      onRemoval: purge\n";

/// A store with a claim, a single pod, a job, and an object with the keep annotation.
fn objects(device: &Device, mode: &str, command: &str) -> String {
    let class = &device.namespace;
    format!(
        r#"apiVersion: apps/v1
kind: StatefulSet
metadata: {{ name: store }}
spec:
  serviceName: store
  replicas: 1
  selector: {{ matchLabels: {{ app: store }} }}
  template:
    metadata: {{ labels: {{ app: store }} }}
    spec:
      terminationGracePeriodSeconds: 0
      automountServiceAccountToken: false
      containers:
        - name: store
          image: {IMAGE}
          imagePullPolicy: IfNotPresent
          command: ["/bin/sh", "-c", "sleep 1000000"]
          env: [{{ name: MODE, value: {mode} }}]
          volumeMounts: [{{ name: data, mountPath: /data }}]
  volumeClaimTemplates:
    - metadata: {{ name: data }}
      spec:
        storageClassName: {class}
        accessModes: [ReadWriteOnce]
        resources: {{ requests: {{ storage: 1Mi }} }}
---
apiVersion: v1
kind: ConfigMap
metadata: {{ name: diary, annotations: {{ helm.sh/resource-policy: keep }} }}
---
apiVersion: v1
kind: Pod
metadata: {{ name: helper }}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  containers:
    - name: helper
      image: {IMAGE}
      imagePullPolicy: IfNotPresent
      command: ["/bin/sh", "-c", "sleep 1000000"]
      env: [{{ name: MODE, value: {mode} }}]
---
apiVersion: batch/v1
kind: Job
metadata: {{ name: once }}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      automountServiceAccountToken: false
      containers:
        - name: once
          image: {IMAGE}
          imagePullPolicy: IfNotPresent
          command: ["/bin/sh", "-c", '{command}']
          env:
            - {{ name: ANSWER, valueFrom: {{ configMapKeyRef: {{ name: answer, key: answer, optional: true }} }} }}
"#
    )
}

async fn push(device: &Device, version: &str, mode: &str, command: &str) {
    let yaml = objects(device, mode, command);
    if device.deployment_type == "custom" {
        return device.push_manifests("web", version, &yaml).await;
    }
    let chart = format!("apiVersion: v2\nname: web\nversion: {version}\n");
    device.push_chart("web", &[("Chart.yaml", chart), ("templates/all.yaml", yaml)]).await;
}

/// A volume for the claim of this test alone.
fn add_volume(device: &Device) {
    std::fs::create_dir_all(device.path("volume")).unwrap();
    device.cluster.apply(&format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{ name: {0} }}\nspec:\n  storageClassName: {0}\n  \
         capacity: {{ storage: 1Mi }}\n  accessModes: [ReadWriteOnce]\n  \
         hostPath: {{ path: {1:?}, type: Directory }}\n",
        device.namespace,
        device.path("volume").display().to_string(),
    ));
}

fn found(device: &Device, path: &str) -> Option<Value> {
    let (api, kind) = path.rsplit_once('/').map_or(("api/v1", path), |(api, kind)| (api, kind));
    let (kind, name) = kind.split_once(' ').unwrap();
    device.cluster.object(&format!("/{api}/namespaces/{}/{kind}/{name}", device.namespace))
}

fn job(device: &Device) -> Value {
    found(device, "apis/batch/v1/jobs once").unwrap()
}

fn is_gone_or_going(object: Option<&Value>) -> bool {
    object.is_none_or(|object| !object["metadata"]["deletionTimestamp"].is_null())
}

async fn lives(device: &mut Device) {
    add_volume(device);
    // Only events can be this quick.
    device.observe_period = "10m";
    push(device, "1.0.0", "one", "true").await;
    device.publish_revision("1.0.0");
    device.start();
    device.reaches(State::Installed).await;
    device.until("the job has ended", || job(device)["status"]["succeeded"] == 1).await;
    device.kubectl(&["exec", "store-0", "--", "/bin/sh", "-c", "echo kept > /data/mark"]);
    let done = job(device)["metadata"]["uid"].clone();

    // The next revision: finished jobs do not run again, and the data is kept.
    push(device, "2.0.0", "two", "true").await;
    device.publish_revision("2.0.0");
    device.reaches(State::Installed).await;
    let printed = device.kubectl(&["exec", "store-0", "--", "/bin/sh", "-c", "echo $MODE; cat /data/mark"]);
    assert_eq!(printed, "two\nkept");
    let printed = device.kubectl(&["exec", "helper", "--", "/bin/sh", "-c", "echo $MODE"]);
    assert_eq!(printed, "two", "a pod cannot be changed, so another takes its place");
    assert_eq!(job(device)["metadata"]["uid"], done);

    // Another job in its place, which fails until its input is fixed.
    push(device, "3.0.0", "two", "test \"$ANSWER\" = yes").await;
    device.publish_revision("3.0.0");
    device.reaches(State::Failed).await;
    assert_ne!(job(device)["metadata"]["uid"], done);
    assert!(device.message().contains("Job `once`") && device.message().contains("has failed"), "{}", device.message());
    let store = found(device, "pods store-0").unwrap()["metadata"]["uid"].clone();
    device.kubectl(&["create", "configmap", "answer", "--from-literal=answer=yes"]);
    device.reaches(State::Installed).await;
    assert_eq!(job(device)["status"]["succeeded"], 1, "run again to its end");
    assert_eq!(found(device, "pods store-0").unwrap()["metadata"]["uid"], store, "healthy workloads are not touched");

    // Data is kept after removal and available after reinstallation.
    device.remove().await;
    assert!(found(device, "apis/apps/v1/statefulsets store").is_none());
    let claim = found(device, "persistentvolumeclaims data-store-0").unwrap();
    assert!(found(device, "configmaps diary").is_some() && found(device, "pods helper").is_none());
    device.kubectl(&["delete", "configmap", "answer"]);
    push(device, "4.0.0", "two", "true").await;
    device.publish_document(&DocumentOptions { revision: "4.0.0", spec: PURGE, ..DocumentOptions::default() });
    device.reaches(State::Installed).await;
    assert_eq!(device.kubectl(&["exec", "store-0", "--", "cat", "/data/mark"]), "kept");
    let same = found(device, "persistentvolumeclaims data-store-0").unwrap();
    assert_eq!(same["metadata"]["uid"], claim["metadata"]["uid"]);

    // With purge it is deleted, and so is the namespace.
    device.remove().await;
    device
        .until("the claim goes", || is_gone_or_going(found(device, "persistentvolumeclaims data-store-0").as_ref()))
        .await;
    assert!(is_gone_or_going(found(device, "configmaps diary").as_ref()));
    let namespace = format!("/api/v1/namespaces/{}", device.namespace);
    device.until("the namespace goes", || is_gone_or_going(device.cluster.object(&namespace).as_ref())).await;
    device.cluster.kubectl(&["delete", "persistentvolume", "--wait=false", &device.namespace]);
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_with_jobs_and_stateful_sets_keep_their_data() {
    let mut device = Device::manifests().await;
    lives(&mut device).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_with_jobs_and_stateful_sets_keep_their_data() {
    let mut device = Device::helm().await;
    device.helm = "helm4";
    lives(&mut device).await;
}
