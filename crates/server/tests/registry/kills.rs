//! A registry in its own process, killed repeatedly in the middle of pushes.

use crate::support::{MANIFEST, TOKEN, TestClock, image, open, wait_for};
use margrave_server::registry::{Digest, Registry, RegistryOptions};
use reqwest::Method;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;

/// Names the folder to a process that serves until it is killed.
const FOLDER: &str = "MARGRAVE_TEST_REGISTRY_FOLDER";
/// This test, by its name in the test program.
const CHILD: &str = "kills::a_registry_serves_in_a_process_of_its_own";
const ROUNDS: usize = 12;

/// A registry process; killed when dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: String,
}

impl Process {
    pub(crate) async fn start(folder: &Path) -> Self {
        let written = folder.join("address");
        let _ = fs::remove_file(&written);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", CHILD, "--nocapture"])
            .env(FOLDER, folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("the process listens", || fs::read_to_string(&written).is_ok_and(|text| text.ends_with('\n'))).await;
        let address = fs::read_to_string(&written).unwrap().trim().to_owned();
        Self { child, address }
    }

    /// The peak memory of the process, in KiB.
    pub(crate) fn memory_peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// SIGKILL: the process has no chance to clean up.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already killed when all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn serve_until_killed(folder: &Path) {
    let (_registry, _, app) = open(folder, Arc::new(TestClock::starting_now()), |_| {}).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    fs::write(folder.join("address"), format!("{}\n", listener.local_addr().unwrap())).unwrap();
    axum::serve(listener, app).await.unwrap();
}

#[tokio::test]
async fn a_registry_serves_in_a_process_of_its_own() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return serve_until_killed(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path()).await;
    let answer = reqwest::Client::new().get(format!("http://{}/v2/", process.address)).bearer_auth(TOKEN).send().await;
    assert_eq!(answer.unwrap().status(), 200);
    process.kill();
}

fn layer(tag: &str) -> Vec<u8> {
    tag.bytes().cycle().take(40_000).collect()
}

/// Pushes images until the process dies; returns the acknowledged ones.
async fn push_until_dead(
    address: String,
    repository: String,
    prefix: String,
    acknowledged: Arc<parking_lot::Mutex<Vec<(String, String)>>>,
) {
    let http = reqwest::Client::new();
    let request =
        |method: Method, path: String| http.request(method, format!("http://{address}/v2/{path}")).bearer_auth(TOKEN);
    for number in 0.. {
        let tag = format!("{prefix}-{number}");
        let layer = layer(&tag);
        for content in [b"{}".as_slice(), &layer] {
            let path = format!("{repository}/blobs/uploads/?digest={}", Digest::sha256(content));
            match request(Method::POST, path).body(content.to_vec()).send().await {
                Ok(pushed) => assert_eq!(pushed.status(), 201),
                Err(_) => return,
            }
        }
        let put = request(Method::PUT, format!("{repository}/manifests/{tag}")).header("content-type", MANIFEST);
        match put.body(image(b"{}", &layer).to_string()).send().await {
            Ok(put) => assert_eq!(put.status(), 201),
            Err(_) => return,
        }
        acknowledged.lock().push((repository.clone(), tag));
    }
}

/// Everything acknowledged is present, and everything present is complete.
async fn check(folder: &TempDir, acknowledged: &[(String, String)]) {
    let options = RegistryOptions::new(folder.path().join("registry"));
    let registry = Registry::open(options, Arc::new(TestClock::starting_now())).await.unwrap();
    for (repository, tag) in acknowledged {
        let stored = registry.manifest(&repository.parse().unwrap(), &tag.parse().unwrap()).await.unwrap();
        assert_eq!(stored.bytes, image(b"{}", &layer(tag)).to_string());
    }
    for repository in registry.repositories(None, 100).items {
        for tag in registry.tags(&repository, None, 10_000).unwrap().items {
            registry.manifest(&repository, &tag.as_str().parse().unwrap()).await.unwrap();
            let content = layer(tag.as_str());
            let (mut file, size) = registry.open_blob(&repository, &Digest::sha256(&content)).await.unwrap();
            let mut stored = Vec::new();
            file.read_to_end(&mut stored).await.unwrap();
            assert!(stored == content && size == content.len() as u64, "{repository}:{tag}");
        }
    }
    assert_eq!(fs::read_dir(folder.path().join("registry/tmp")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let acknowledged = Arc::new(parking_lot::Mutex::new(Vec::new()));
    for round in 0..ROUNDS {
        let process = Process::start(folder.path()).await;
        let before = acknowledged.lock().len();
        let pushers = (0..3).map(|pusher| {
            let (repository, prefix) = (format!("r{}", pusher % 2), format!("t{round}-{pusher}"));
            tokio::spawn(push_until_dead(process.address.clone(), repository, prefix, Arc::clone(&acknowledged)))
        });
        let pushers: Vec<_> = pushers.collect();
        // Each round ends at another point of the pushes in progress.
        wait_for("some pushes are done", || acknowledged.lock().len() >= before + 1 + round).await;
        process.kill();
        for pusher in pushers {
            pusher.await.unwrap();
        }
        let known = acknowledged.lock().clone();
        check(&folder, &known).await;
    }
}

#[tokio::test]
async fn resumes_an_upload_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path()).await;
    let http = reqwest::Client::new();
    let started = http.post(format!("http://{}/v2/a/blobs/uploads/", process.address)).bearer_auth(TOKEN);
    let location = crate::support::header(&started.send().await.unwrap(), "location");
    // The body never ends: the process is killed in the middle of it.
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<bytes::Bytes, std::io::Error>>(1);
    let body =
        futures_util::stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
    let sent = http.patch(format!("http://{}{location}", process.address)).bearer_auth(TOKEN);
    let sent = tokio::spawn(sent.body(reqwest::Body::wrap_stream(body)).send());
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    for piece in content[..2_000_000].chunks(100_000) {
        sender.send(Ok(bytes::Bytes::copy_from_slice(piece))).await.unwrap();
    }
    let id = location.rsplit('/').next().unwrap();
    let data = folder.path().join("registry/uploads").join(id).join("data");
    wait_for("some of it is written", || fs::metadata(&data).is_ok_and(|data| data.len() > 0)).await;
    process.kill();
    assert!(sent.await.unwrap().is_err());

    let process = Process::start(folder.path()).await;
    let url = format!("http://{}{location}", process.address);
    let status = http.get(&url).bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(status.status(), 204);
    let last: usize = crate::support::header(&status, "range").strip_prefix("0-").unwrap().parse().unwrap();
    let rest = &content[last + 1..];
    let range = format!("{}-{}", last + 1, content.len() - 1);
    let digest = Digest::sha256(&content);
    let put = http.put(format!("{url}?digest={digest}")).bearer_auth(TOKEN).header("content-range", range);
    let put = put.timeout(Duration::from_secs(20)).body(rest.to_vec()).send().await.unwrap();
    assert_eq!(put.status(), 201, "{}", put.text().await.unwrap());
    process.kill();
}
