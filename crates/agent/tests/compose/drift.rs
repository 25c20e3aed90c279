//! Drift of containers is detected, reported and repaired; containers of others are not touched.

use crate::bench::{Device, DocumentOptions, USER};
use margo::status::State;

/// Waits until the deployment is repaired and reported as installed.
async fn heals(device: &Device, what: &str, mut healed: impl FnMut() -> bool) {
    device.until(what, &mut healed).await;
    device.reaches(State::Installed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_stopped_paused_and_removed_containers() {
    let mut device = Device::new().await;
    // Only events can be this quick.
    device.observe_period = "10m";
    device.install(&[]).await;
    let first = device.containers();

    device.docker.docker(&["stop", &first[0]]);
    heals(&device, "the stopped container runs again", || device.containers() == first).await;

    device.docker.docker(&["pause", &first[0]]);
    let running = |device: &Device| device.docker.docker(&["inspect", "--format", "{{.State.Status}}", &first[0]]);
    heals(&device, "the paused container runs again", || running(&device) == "running").await;

    device.docker.docker(&["rm", "--force", &first[0]]);
    heals(&device, "the removed container is made again", || device.containers().len() == 1).await;
    assert_ne!(device.containers(), first);
    assert_eq!(device.read("/data/starts").lines().count(), 3, "the volume was kept");
}

/// The inspect output of a container; `None` for one that was just replaced.
fn inspected(device: &Device, inspect: &[&str], id: &str) -> Option<String> {
    let (found, text) = device.docker.try_docker(&[inspect, &[id]].concat());
    found.then_some(text)
}

/// The messages of the reported repairs.
fn repaired(device: &Device) -> Vec<String> {
    let reports = device.fake.reported(device.id);
    let repairs = reports.iter().filter_map(|status| status.error.as_ref()).filter(|error| error.code == "401");
    repairs.map(|error| error.message.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_changed_and_replaced_containers_and_reports_the_differences() {
    let mut device = Device::new().await;
    let image = device.install(&[("MODE", "right")]).await;
    let first = device.containers().remove(0);
    let is_reported = |device: &Device, words: &str| repaired(device).iter().any(|message| message.contains(words));

    // Limits and restart policy.
    let limits = |device: &Device| {
        let containers = device.containers();
        let inspect = ["inspect", "--format", "{{.HostConfig.Memory}} {{.HostConfig.RestartPolicy.Name}}"];
        inspected(device, &inspect, containers.first()?)
    };
    let before = limits(&device);
    device.docker.docker(&["update", "--memory", "64m", "--memory-swap", "64m", "--restart", "always", &first]);
    assert_ne!(limits(&device), before);
    heals(&device, "the limit is gone", || limits(&device) == before).await;
    assert!(is_reported(&device, "different limits, ports or other settings; repairing"), "{:?}", repaired(&device));

    // Put into another network.
    let network = format!("by-hand-{}", device.project());
    device.docker.docker(&["network", "create", &network]);
    device.docker.docker(&["network", "connect", &network, &device.containers()[0]]);
    let attached =
        |device: &Device| device.docker.docker(&["network", "inspect", "--format", "{{len .Containers}}", &network]);
    heals(&device, "it left the network", || attached(&device) == "0").await;
    assert!(is_reported(&device, "different networks; repairing"), "{:?}", repaired(&device));
    device.docker.docker(&["network", "rm", &network]);

    // Another container in its place: the same name and labels, another command and environment.
    let labels = ["inspect", "--format", "{{range $k, $v := .Config.Labels}}{{$k}}={{$v}}\n{{end}}"];
    let labels = device.docker.docker(&[labels.as_slice(), &[&device.containers()[0]]].concat());
    let name = device.docker.docker(&["inspect", "--format", "{{.Name}}", &device.containers()[0]]);
    let mut run = vec!["run", "--detach", "--name", name.trim_start_matches('/'), "--env", "MODE=wrong"];
    run.extend(labels.lines().flat_map(|label| ["--label", label]));
    run.extend([image.as_str(), "/bin/sleep", "99999"]);
    device.docker.docker(&["rm", "--force", &device.containers()[0]]);
    // A race for the name: the agent repairs the gap, or finds the other container in it.
    let (replaced, _) = device.docker.try_docker(&run);
    let mode = |device: &Device| {
        let containers = device.containers();
        let inspect = ["inspect", "--format", "{{join .Config.Env \" \"}} {{join .Config.Cmd \" \"}}"];
        containers.first().and_then(|id| inspected(device, &inspect, id)).unwrap_or_default()
    };
    heals(&device, "the right one is back", || {
        mode(&device).contains("MODE=right") && !mode(&device).contains("99999")
    })
    .await;
    // The repair of the gap may find the other container and replace it as well.
    assert!(
        !replaced || is_reported(&device, "environment") || is_reported(&device, "is not running"),
        "{:?}",
        repaired(&device)
    );

    // One container too many.
    let mut second: Vec<String> =
        run.iter().map(|part| part.replace("container-number=1", "container-number=2")).collect();
    second[3].push_str("-too");
    device.docker.docker(&second.iter().map(String::as_str).collect::<Vec<_>>());
    heals(&device, "one is left", || device.all_containers().len() == 1 && mode(&device).contains("MODE=right")).await;
    assert!(is_reported(&device, "was added; repairing"), "{:?}", repaired(&device));
    assert_eq!(device.read("/data/mode"), "right", "and the volume is the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn never_touches_containers_of_others() {
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    // A container of others with a similar name.
    let certificates = device.docker.certificates().join(device.registry.host());
    std::fs::create_dir_all(&certificates).unwrap();
    std::fs::copy(device.registry.ca_file(), certificates.join("ca.crt")).unwrap();
    device.docker.docker(&["login", "--username", USER.name, "--password", USER.password, device.registry.host()]);
    let name = format!("{}-web-9", device.project());
    let foreign =
        device.docker.docker(&["run", "--detach", "--name", &name, "--volume", &format!("{name}:/data"), &image]);
    let born = |device: &Device| {
        device.docker.docker(&["inspect", "--format", "{{.State.StartedAt}} {{.RestartCount}}", &foreign])
    };
    let before = born(&device);
    device.install(&[]).await;
    device.publish_document(&DocumentOptions {
        revision: "1.0.0",
        parameters: &[("COUNT", "2")],
        ..DocumentOptions::default()
    });
    device.reaches(State::Installed).await;
    device.publish(&[]);
    device.reaches(State::Removed).await;
    assert_eq!(born(&device), before);
    assert!(device.docker.docker(&["volume", "ls", "--quiet"]).contains(&name));
    device.docker.docker(&["rm", "--force", "--volumes", &foreign]);
}
