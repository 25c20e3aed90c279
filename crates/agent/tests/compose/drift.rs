//! What people and accidents do to containers is seen, told and repaired; what is not ours is left alone.

use crate::bench::{Device, USER, Wish};
use margo::status::State;

/// The deployment is as it was applied again, and says so.
async fn heals(device: &Device, what: &str, mut healed: impl FnMut() -> bool) {
    device.until(what, &mut healed).await;
    device.reaches(State::Installed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_stopped_paused_or_removed_by_hand_are_repaired() {
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
    assert_eq!(device.read("/data/starts").lines().count(), 3, "the volume lived through all of it");
}

/// What the engine says of a container; nothing of one that has just been replaced.
fn inspected(device: &Device, inspect: &[&str], id: &str) -> Option<String> {
    let (found, text) = device.docker.try_docker(&[inspect, &[id]].concat());
    found.then_some(text)
}

/// What the last repair was told to be about.
fn repaired(device: &Device) -> Vec<String> {
    let reports = device.fake.reported(device.id);
    let repairs = reports.iter().filter_map(|status| status.error.as_ref()).filter(|error| error.code == "401");
    repairs.map(|error| error.message.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_changed_or_replaced_by_hand_is_put_right_and_what_differed_is_told() {
    let mut device = Device::new().await;
    let image = device.install(&[("MODE", "right")]).await;
    let first = device.containers().remove(0);
    let told = |device: &Device, words: &str| repaired(device).iter().any(|message| message.contains(words));

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
    assert!(told(&device, "other limits, ports or other settings; is repaired"), "{:?}", repaired(&device));

    // Put into another network.
    let network = format!("by-hand-{}", device.project());
    device.docker.docker(&["network", "create", &network]);
    device.docker.docker(&["network", "connect", &network, &device.containers()[0]]);
    let attached =
        |device: &Device| device.docker.docker(&["network", "inspect", "--format", "{{len .Containers}}", &network]);
    heals(&device, "it left the network", || attached(&device) == "0").await;
    assert!(told(&device, "other networks; is repaired"), "{:?}", repaired(&device));
    device.docker.docker(&["network", "rm", &network]);

    // Another container in its place: the same name and labels, another command and environment.
    let labels = ["inspect", "--format", "{{range $k, $v := .Config.Labels}}{{$k}}={{$v}}\n{{end}}"];
    let labels = device.docker.docker(&[labels.as_slice(), &[&device.containers()[0]]].concat());
    let name = device.docker.docker(&["inspect", "--format", "{{.Name}}", &device.containers()[0]]);
    let mut run = vec!["run", "--detach", "--name", name.trim_start_matches('/'), "--env", "MODE=wrong"];
    run.extend(labels.lines().flat_map(|label| ["--label", label]));
    run.extend([image.as_str(), "/bin/sleep", "99999"]);
    device.docker.docker(&["rm", "--force", &device.containers()[0]]);
    // Whoever is first with the name: the agent repairs the gap, or finds the stranger in it.
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
    // The repair of the gap may find the stranger in it and put that right as well.
    assert!(!replaced || told(&device, "environment") || told(&device, "does not run"), "{:?}", repaired(&device));

    // One too many of them.
    let mut second: Vec<String> =
        run.iter().map(|part| part.replace("container-number=1", "container-number=2")).collect();
    second[3].push_str("-too");
    device.docker.docker(&second.iter().map(String::as_str).collect::<Vec<_>>());
    heals(&device, "one is left", || device.all_containers().len() == 1 && mode(&device).contains("MODE=right")).await;
    assert!(told(&device, "was added; is repaired"), "{:?}", repaired(&device));
    assert_eq!(device.read("/data/mode"), "right", "and the volume is the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_of_others_are_never_touched() {
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    // Somebody else's, even under a name much like ours.
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
    device.publish_wish(&Wish { revision: "1.0.0", parameters: &[("COUNT", "2")], ..Wish::default() });
    device.reaches(State::Installed).await;
    device.publish(&[]);
    device.reaches(State::Removed).await;
    assert_eq!(born(&device), before);
    assert!(device.docker.docker(&["volume", "ls", "--quiet"]).contains(&name));
    device.docker.docker(&["rm", "--force", "--volumes", &foreign]);
}
