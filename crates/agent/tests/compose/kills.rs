//! The agent is killed during each step, started again, and finishes.

use crate::agent::kill_when;
use crate::bench::{Device, DocumentOptions, REPOSITORY, web};
use margo::status::State;
use margrave_testbed::images;

fn has_part(device: &Device) -> bool {
    let files = std::fs::read_dir(device.state_dir.join("artifacts/blobs")).into_iter().flatten().flatten();
    let mut names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    names.any(|name| name.contains(".part"))
}

fn staged(device: &Device) -> bool {
    device.state_dir.join("compose").join(format!("{}.staged", device.project())).exists()
}

#[tokio::test(flavor = "multi_thread")]
async fn survives_a_kill_during_any_install_step() {
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    // Slow enough to kill the agent during the download.
    let padding = "x".repeat(400) + &margo::Digest::of(b"noise").to_string();
    let noise: String =
        (0..4000).map(|at| margo::Digest::of(format!("{padding}{at}").as_bytes()).to_string()).collect();
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image)), ("noise.txt", &noise)]).await;
    device.publish_document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    device.tables = "[artifacts]\nbytes_per_second = 50000\n".to_owned();
    device.start();
    kill_when(&mut device, "the pull has begun", has_part).await;
    device.tables = String::new();
    device.start();
    kill_when(&mut device, "the archive is unpacked", staged).await;
    device.start();
    let ours = |device: &Device| device.state_dir.join("compose").join(device.project()).join("ours.json").exists();
    kill_when(&mut device, "it is about to be started", ours).await;
    device.start();
    kill_when(&mut device, "a container is there", |device| !device.all_containers().is_empty()).await;
    device.start();
    device.reaches(State::Installed).await;
    assert_eq!(device.containers().len(), 1);
    assert_eq!(device.all_containers().len(), 1, "nothing is there twice");
    let kept = device.containers();
    // A healthy component is not restarted by an agent that comes back.
    device.kill();
    device.start();
    let polls = device.fake.seen().len();
    device.until("it polls again", || device.fake.seen().len() > polls + 5).await;
    assert_eq!(device.containers(), kept);
    assert_eq!(device.read("/data/starts").lines().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn survives_a_kill_during_pull_and_health_wait() {
    let mut device = Device::alone().await;
    let image = device.registry.push_image("images/web", "1", &images::large("1", 24_000_000)).await;
    let slow = format!(
        "services:\n  web:\n    image: {image}\n    command: [\"/bin/sh\", \"-c\", \"sleep 5; touch /ready; sleep 1000000\"]\n    \
         healthcheck: {{ test: [\"CMD\", \"/bin/test\", \"-e\", \"/ready\"], interval: 1s, retries: 100 }}\n"
    );
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &slow)]).await;
    device.publish_document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    device.start();
    kill_when(&mut device, "the engine pulls the image", |device| device.docker.is_pulling()).await;
    assert!(device.all_containers().is_empty());
    device.start();
    kill_when(&mut device, "the container runs and is not healthy yet", |device| !device.containers().is_empty()).await;
    let started = device.containers();
    let health =
        |device: &Device| device.docker.docker(&["inspect", "--format", "{{.State.Health.Status}}", &started[0]]);
    assert_eq!(health(&device), "starting");
    device.start();
    device.reaches(State::Installed).await;
    assert_eq!(health(&device), "healthy");
    assert_eq!(device.all_containers(), started, "started containers were not recreated");
}

#[tokio::test(flavor = "multi_thread")]
async fn survives_a_kill_during_upgrade_and_removal() {
    let mut device = Device::new().await;
    device.install(&[]).await;
    let first = device.containers();
    let image = device.registry.push_image("images/web", "2", &images::large("2", 3_000_000)).await;
    device.registry.push_compose(REPOSITORY, "2.0.0", &[("compose.yaml", &web(&image))]).await;
    device.publish_document(&DocumentOptions { revision: "2.0.0", ..DocumentOptions::default() });
    kill_when(&mut device, "the old container goes", |device| device.containers() != first).await;
    device.start();
    device.reaches(State::Installed).await;
    assert_eq!(device.read("/mark"), "2");
    assert_eq!(device.all_containers().len(), 1);

    device.publish(&[]);
    kill_when(&mut device, "the removal has begun", |device| device.containers().is_empty()).await;
    device.start();
    device.reaches(State::Removed).await;
    assert_eq!(device.all_containers(), Vec::<String>::new());
    assert_eq!(device.volumes().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn resumes_an_interrupted_download() {
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    let noise: String = (0..6000).map(|at| margo::Digest::of(format!("n{at}").as_bytes()).to_string()).collect();
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image)), ("noise.txt", &noise)]).await;
    device.publish_document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    device.tables = "[artifacts]\nbytes_per_second = 200000\n".to_owned();
    device.start();
    let part = |device: &Device| {
        let files = std::fs::read_dir(device.state_dir.join("artifacts/blobs")).into_iter().flatten().flatten();
        let mut parts = files.filter(|file| file.file_name().to_string_lossy().contains(".part"));
        parts.next().and_then(|file| file.metadata().ok()).map_or(0, |metadata| metadata.len())
    };
    kill_when(&mut device, "some of it is there", |device| part(device) > 50_000).await;
    let held = part(&device);
    // Resets the log of sent bytes.
    device.registry.stop();
    device.registry.begin().await;
    let start = std::time::Instant::now();
    device.start();
    device.until("it goes on", || part(&device) > held || device.containers().len() == 1).await;
    device.reaches(State::Installed).await;
    // Stored bytes were not sent again, according to the registry log.
    let sent: u64 = device.registry.blobs_sent(REPOSITORY).iter().sum();
    let blobs = std::fs::read_dir(device.state_dir.join("artifacts/blobs")).unwrap().flatten();
    let size: u64 = blobs.map(|blob| blob.metadata().unwrap().len()).sum();
    assert_eq!(sent, size - held, "{held} of {size} bytes were there");
    // And within the rate limit.
    let (taken, left) = (start.elapsed().as_secs_f64(), (size - held) as f64 / 200_000.0);
    assert!(taken >= left * 0.9, "{left} s of bytes came in {taken} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn survives_a_kill_during_repair_rollback_and_purge() {
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    let next = device.registry.push_image("images/web", "2", &images::large("2", 3_000_000)).await;
    // Runs long enough for the kill, then fails.
    let broken = web(&next).replace("sleep 1000000", "sleep 2; exit 7").replace(
        "    scale",
        "    healthcheck: { test: [\"CMD\", \"/bin/test\", \"-e\", \"/never\"], interval: 1s, retries: 100 }\n    scale",
    );
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
    device.registry.push_compose(REPOSITORY, "2.0.0", &[("compose.yaml", &broken)]).await;
    let spec = "  x-margrave-extensions:\n    policy: { onFailure: rollback, onRemoval: purge }\n";
    device.publish_document(&DocumentOptions { revision: "1.0.0", spec, ..DocumentOptions::default() });
    device.start();
    device.reaches(State::Installed).await;

    let first = device.containers();
    device.docker.docker(&["rm", "--force", &first[0]]);
    kill_when(&mut device, "the repair has begun", |device| !device.all_containers().is_empty()).await;
    device.start();
    device.reaches(State::Installed).await;
    device.until("it runs again", || device.containers().len() == 1).await;

    device.publish_document(&DocumentOptions { revision: "2.0.0", spec, ..DocumentOptions::default() });
    kill_when(&mut device, "it goes back", |device| device.log().contains("exited with code 7")).await;
    device.start();
    let back = |device: &Device| {
        let last_error = device.status().filter(|status| status.state == State::Failed).and_then(|status| status.error);
        last_error.is_some_and(|error| error.message.contains("which is running"))
    };
    device.until("it went back", || back(&device)).await;
    assert_eq!(device.read("/mark"), "1");
    assert_eq!(device.all_containers().len(), 1);
    assert!(device.read("/data/starts").lines().count() >= 3, "the data was kept");

    device.publish(&[]);
    kill_when(&mut device, "the containers are gone", |device| device.all_containers().is_empty()).await;
    device.start();
    device.reaches(State::Removed).await;
    assert_eq!(device.volumes(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limited_image_download_is_limited_and_resumes() {
    let mut device = Device::new().await;
    let own = images::large(&format!("limited {}", device.id), 6_000_000);
    let bytes: usize = own.blobs().iter().map(Vec::len).sum();
    let image = device.registry.push_image("images/web", "1", &own).await;
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
    device.publish_document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    device.tables = "[artifacts]\nbytes_per_second = 1000000\n".to_owned();
    let part = |device: &Device| {
        let folders = std::fs::read_dir(device.state_dir.join("artifacts/images")).into_iter().flatten().flatten();
        let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
        let mut parts = files.filter(|file| file.file_name().to_string_lossy().contains(".part"));
        parts.find_map(|file| file.metadata().ok()).map_or(0, |metadata| metadata.len())
    };
    device.start();
    kill_when(&mut device, "some of it is there", |device| part(device) > 1_000_000).await;
    let held = part(&device);
    let start = std::time::Instant::now();
    device.start();
    device.until("it goes on", || part(&device) > held || device.status().is_some()).await;
    device.reaches(State::Installed).await;
    let (taken, left) = (start.elapsed().as_secs_f64(), (bytes as u64 - held) as f64 / 1e6);
    assert!(taken >= left * 0.9, "{left} MB came in {taken} s");
    assert!(device.read("/mark").starts_with("limited"));
    assert!(!device.state_dir.join("artifacts/images").read_dir().unwrap().any(|_| true), "the engine has it now");
    assert_eq!(
        device.docker.docker(&["ps", "--format", "{{.Image}}", "--filter", &device.label()]),
        image,
        "under its own name"
    );
}
