//! The cluster of the testbed is a real one, and leaves nothing behind.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use margrave_testbed::{Cluster, Registry, User, images};
use std::process::Command;

const USER: User = User { name: "node", password: "pull secret" };
const RUNNING: &str = "jsonpath={.status.phase}";

fn pod(name: &str, image: &str, secret: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name} }}\nspec:\n  imagePullSecrets: [{{ name: {secret} }}]\n  \
         containers: [{{ name: main, image: \"{image}\", imagePullPolicy: IfNotPresent }}]\n"
    )
}

fn links() -> String {
    let output = Command::new("ip").args(["-brief", "link"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_from_loaded_and_pulled_images_and_survive_a_power_cut() {
    let cluster = Cluster::start().await;
    cluster.load("margrave.test/shell:1", &images::busybox("loaded"));
    cluster.apply(&pod("loaded", "margrave.test/shell:1", "none"));
    cluster.until("the pod runs", &["get", "pod", "loaded", "-o", RUNNING], |phase| phase == "Running").await;
    assert_eq!(cluster.kubectl(&["exec", "loaded", "--", "/bin/cat", "/mark"]), "loaded");

    let registry = Registry::start(cluster.address(), Some(USER)).await;
    cluster.trust(&registry);
    let image = registry.push_image("images/shell", "1", &images::busybox("pulled")).await;
    cluster.apply(&pod("pulled", &image, "login"));
    let reason = "jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    let refused = |reason: &str| reason == "ErrImagePull" || reason == "ImagePullBackOff";
    cluster.until("without a login there is no image", &["get", "pod", "pulled", "-o", reason], refused).await;
    cluster.kubectl(&[
        "create",
        "secret",
        "docker-registry",
        "login",
        &format!("--docker-server={}", registry.host()),
        &format!("--docker-username={}", USER.name),
        &format!("--docker-password={}", USER.password),
    ]);
    cluster.kubectl(&["delete", "pod", "pulled", "--grace-period=0", "--force"]);
    cluster.apply(&pod("pulled", &image, "login"));
    cluster.until("the pod runs", &["get", "pod", "pulled", "-o", RUNNING], |phase| phase == "Running").await;

    registry.stop();
    cluster.reboot().await;
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}";
    for name in ["loaded", "pulled"] {
        cluster.until("it runs again", &["get", "pod", name, "-o", restarts], |seen| seen == "1 true").await;
    }
    assert_eq!(cluster.kubectl(&["exec", "pulled", "--", "/bin/cat", "/mark"]), "pulled");

    let folder = cluster.kubeconfig().parent().unwrap().to_owned();
    let tag = folder.file_name().unwrap().to_string_lossy().into_owned();
    assert!(links().contains(&tag));
    drop(cluster);
    assert!(!folder.exists());
    assert!(!links().contains(&tag));
    assert!(!std::path::Path::new("/run/netns").join(&tag).exists());
    assert!(!std::path::Path::new("/sys/fs/cgroup/memory").join(&tag).exists());
}
