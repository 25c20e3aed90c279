use super::*;
use crate::machine::io::{ObservedDeployment, Run, WorkId};
use crate::machine::tests_support::{id, yaml};
use margo::deployment::ApplicationDeployment;
use std::sync::Arc;

fn work(component: usize) -> ApplyWork {
    let served = yaml(1, "gw", &["db", "web"], "1.0.0");
    ApplyWork {
        work: WorkId(1),
        deployment: id(1),
        device: "gw".parse().unwrap(),
        digest: served.digest,
        document: Arc::new(ApplicationDeployment::read(&served.yaml).unwrap().document),
        component,
    }
}

fn removal() -> RemoveWork {
    RemoveWork { work: WorkId(2), deployment: id(1), device: "gw".parse().unwrap(), component: None }
}

#[tokio::test]
async fn finds_simulated_workloads_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Simulated::open(folder.path(), None).unwrap();
    runtime.apply(work(0)).await.unwrap();
    drop(runtime);
    let runtime = Simulated::open(folder.path(), None).unwrap();
    let seen = runtime.observe().await.unwrap();
    let ObservedDeployment::Known { components, .. } = &seen.deployments[&id(1)] else { panic!("it is known") };
    assert_eq!(components["db"].run, Run::Running);
    runtime.remove(removal()).await.unwrap();
    runtime.remove(removal()).await.unwrap();
    assert!(runtime.observe().await.unwrap().deployments.is_empty());
}

#[tokio::test]
async fn reads_the_script_before_every_action() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.toml");
    let runtime = Simulated::open(folder.path(), Some(script.clone())).unwrap();
    let set = |text: &str| std::fs::write(&script, text).unwrap();
    runtime.apply(work(0)).await.unwrap();
    set("rule = [{component = \"web\", fail = 1, message = \"pull failed\"}]");
    assert_eq!(runtime.apply(work(1)).await.unwrap_err().message, "pull failed");
    runtime.apply(work(1)).await.unwrap();
    set("rule = [{component = \"web\", exit_code = 3}]");
    assert_eq!(runtime.apply(work(1)).await.unwrap_err().kind, FailureKind::Exited);
    set("rule = [{component = \"db\", missing = true}]");
    let seen = runtime.observe().await.unwrap();
    let ObservedDeployment::Known { components, .. } = &seen.deployments[&id(1)] else { panic!("it is known") };
    assert!(!components.contains_key("db"));
    set("unreachable = [\"gw\"]");
    assert_eq!(runtime.apply(work(0)).await.unwrap_err().kind, FailureKind::Unreachable);
    assert!(matches!(runtime.observe().await.unwrap().deployments[&id(1)], ObservedDeployment::Unknown { .. }));
    set("rul = []");
    assert_eq!(runtime.apply(work(0)).await.unwrap_err().kind, FailureKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_apply_is_incomplete() {
    let script: Script = toml::from_str("delay = \"10s\"").unwrap();
    let runtime = Simulated::in_memory(script);
    let cut_off = tokio::time::timeout(std::time::Duration::from_secs(1), runtime.apply(work(0))).await;
    assert!(cut_off.is_err());
    let seen = runtime.observe().await.unwrap();
    let ObservedDeployment::Known { components, .. } = &seen.deployments[&id(1)] else { panic!("it is known") };
    assert!(matches!(components["db"].run, Run::Stopped { .. }));
    runtime.apply(work(0)).await.unwrap();
}
