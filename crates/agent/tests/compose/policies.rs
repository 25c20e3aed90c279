//! Policies of deployments with real containers.

use crate::bench::{Device, DocumentOptions, REPOSITORY, web};
use margo::status::{DeploymentStatus, State};

/// This many polls take longer than any observation or retry in these tests.
const QUIET_POLLS: usize = 25;

fn policy(text: &str) -> String {
    format!("  x-margrave-extensions:\n    policy: {{ {text} }}\n")
}

/// A component that ends with an error as soon as it has started.
fn broken(image: &str) -> String {
    format!(
        "services:\n  web:\n    image: {image}\n    command: [\"/bin/sh\", \"-c\", \"echo no such press; exit 7\"]\n    \
         volumes: [\"data:/data\"]\nvolumes: {{ data: {{}} }}\n"
    )
}

/// A second component after `web`.
fn panel(device: &Device, revision: &str) -> String {
    let repository = device.registry.repository("components/panel");
    format!(
        "      - name: panel\n        properties:\n          repository: {repository}\n          revision: {revision}\n"
    )
}

/// Waits for a number of polls.
async fn time_passes(device: &Device) {
    let before = device.fake.seen().len();
    device.until("it polls on", || device.fake.seen().len() > before + QUIET_POLLS).await;
}

/// How often containers of the deployment were started, by component.
fn starts(device: &Device, component: &str) -> usize {
    let label = format!("label=org.margrave.component={component}");
    device.docker.events(&["event=start", &device.label(), &label], "{{.ID}}").len()
}

fn started_at(device: &Device, container: &str) -> String {
    device.docker.docker(&["inspect", "--format", "{{.Id}} {{.State.StartedAt}}", container])
}

fn message(status: &DeploymentStatus) -> String {
    status.error.as_ref().map(|error| error.message.clone()).unwrap_or_default()
}

async fn installed_with(policy_text: &str) -> (Device, String) {
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
    device.registry.push_compose(REPOSITORY, "2.0.0", &[("compose.yaml", &broken(&image))]).await;
    let later = web(&image).replace("MODE:-none", "MODE:-later");
    device.registry.push_compose(REPOSITORY, "3.0.0", &[("compose.yaml", &later)]).await;
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        spec: &policy(policy_text),
        ..DocumentOptions::default()
    });
    device.start();
    device.reaches(State::Installed).await;
    (device, image)
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_report_reports_differences_without_correcting() {
    let (device, _) = installed_with("drift: report").await;
    let container = device.containers().remove(0);
    let name = device.docker.docker(&["inspect", "--format", "{{.Name}}", &container]);
    let renamed = format!("{}-by-hand", device.project());
    device.docker.docker(&["rename", &container, &renamed]);
    let drifted = device.reaches(State::Failed).await;
    assert_eq!(drifted.error.as_ref().unwrap().code, "401");
    let words = message(&drifted);
    assert!(words.contains("different name") && words.contains("not corrected (drift policy `report`)"), "{words}");
    device.docker.docker(&["stop", &container]);
    device.until("the rest is reported", || message(&device.status().unwrap()).contains("exited with code")).await;
    time_passes(&device).await;
    assert!(device.containers().is_empty(), "it was stopped manually and stays stopped");
    assert_eq!(starts(&device, "web"), 1);
    // The manual change is reverted.
    device.docker.docker(&["start", &container]);
    device.docker.docker(&["rename", &container, name.trim_start_matches('/')]);
    device.reaches(State::Installed).await;
    assert_eq!(device.containers(), [container]);
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_ignore_neither_reports_nor_corrects() {
    let (device, _) = installed_with("drift: ignore").await;
    let container = device.containers().remove(0);
    let reports_before = device.fake.reported(device.id).len();
    device.docker.docker(&["stop", &container]);
    time_passes(&device).await;
    assert!(device.containers().is_empty());
    assert_eq!(device.fake.reported(device.id).len(), reports_before);
    assert_eq!(device.status().unwrap().state, State::Installed);
    device.docker.docker(&["rm", &container]);
    time_passes(&device).await;
    assert!(device.all_containers().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn keep_partial_retries_failures_and_never_restarts_healthy_components() {
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
    device.registry.push_compose("components/panel", "1.0.0", &[("compose.yaml", &broken(&image))]).await;
    device.registry.push_compose("components/panel", "1.0.1", &[("compose.yaml", &web(&image))]).await;
    let patch = panel(&device, "1.0.0");
    device.publish_document(&DocumentOptions { revision: "1.0.0", properties: &patch, ..DocumentOptions::default() });
    device.start();
    let failed = device.reaches(State::Failed).await;
    assert!(message(&failed).contains("(failure policy `keep-partial`)"), "{}", message(&failed));
    let states: Vec<State> = failed.components.iter().map(|component| component.state).collect();
    assert_eq!(states, [State::Installed, State::Failed]);
    let healthy = device.containers();
    assert_eq!(healthy.len(), 1);
    let before = started_at(&device, &healthy[0]);
    device.until("it is tried again and again", || starts(&device, "panel") >= 4).await;
    assert_eq!(started_at(&device, &healthy[0]), before, "a retry leaves what is healthy alone");
    assert_eq!(starts(&device, "web"), 1);
    let patch = panel(&device, "1.0.1");
    device.publish_document(&DocumentOptions { revision: "1.0.0", properties: &patch, ..DocumentOptions::default() });
    device.reaches(State::Installed).await;
    assert_eq!(device.containers().len(), 2);
    assert_eq!(started_at(&device, &healthy[0]), before, "the fixed revision does not restart it either");
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_restores_the_last_good_revision_and_reports_it() {
    let (mut device, _) = installed_with("onFailure: rollback").await;
    let patch = |revision| (revision, policy("onFailure: rollback"));
    let (revision, spec) = patch("2.0.0");
    device.publish_document(&DocumentOptions { revision, spec: &spec, ..DocumentOptions::default() });
    let back = |device: &Device| {
        device
            .status()
            .is_some_and(|status| status.state == State::Failed && message(&status).contains("which is running"))
    };
    device.until("it went back", || back(&device)).await;
    let reported_text = message(&device.status().unwrap());
    for part in ["exited with code 7", "no such press", "rolled back to revision", "(failure policy `rollback`)"] {
        assert!(reported_text.contains(part), "{part}: {reported_text}");
    }
    assert_eq!(device.containers().len(), 1);
    device.until("it has started", || device.read("/data/starts") == "x\nx").await;
    assert_eq!(device.read("/data/mode"), "none");
    let kept = started_at(&device, &device.containers()[0]);
    // It stays there over time and after a kill of the agent.
    time_passes(&device).await;
    device.kill();
    device.start();
    time_passes(&device).await;
    assert_eq!(started_at(&device, &device.containers()[0]), kept);
    let (revision, spec) = patch("3.0.0");
    device.publish_document(&DocumentOptions { revision, spec: &spec, ..DocumentOptions::default() });
    device.reaches(State::Installed).await;
    device.until("the next revision has started", || device.read("/data/mode") == "later").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_waits_after_the_first_failure_for_a_change() {
    let (mut device, _) = installed_with("onFailure: stop").await;
    let spec = policy("onFailure: stop");
    device.publish_document(&DocumentOptions { revision: "2.0.0", spec: &spec, ..DocumentOptions::default() });
    let failed = device.reaches(State::Failed).await;
    assert!(message(&failed).contains("(failure policy `stop`)"), "{}", message(&failed));
    let tried = starts(&device, "web");
    time_passes(&device).await;
    device.kill();
    device.start();
    time_passes(&device).await;
    assert_eq!(starts(&device, "web"), tried, "not retried, not even after a restart of the agent");
    device.publish_document(&DocumentOptions { revision: "3.0.0", spec: &spec, ..DocumentOptions::default() });
    device.reaches(State::Installed).await;
    device.until("the next revision has started", || device.read("/data/mode") == "later").await;
}
