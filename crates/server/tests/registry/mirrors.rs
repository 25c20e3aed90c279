//! Pulls by the original name: over HTTP as runtimes request them, then with real runtimes, while the
//! original registry is down.

use crate::clients::docker::Engine;
use crate::clients::{run_in, tool};
use crate::hosted::Server;
use crate::support::{assert_error, header, image, wait_for};
use margrave_core::model::ClientState;
use margrave_server::registry::Digest;
use reqwest::Method;
use std::fs;
use std::path::Path;
use std::process::Stdio;

const CLIENT: &str = "press-07";

async fn manifest(server: &Server, path: &str) -> reqwest::Response {
    server.v2(Method::GET, path).basic_auth("me", Some(&server.token)).send().await.unwrap()
}

#[tokio::test]
async fn resolves_mirrored_repositories_for_every_runtime() {
    let server = Server::start(|_| {}).await;
    server.push("mirror/registry.example/line/press", "1.0", b"theirs").await;
    server.push("line/press", "1.0", b"ours").await;
    server.push("mirror/docker.io/library/nginx", "1.27", b"hub").await;
    server.push("mirror/registry.example__5000/line/press", "1.0", b"with a port").await;
    let digest = |layer: &[u8]| Digest::sha256(image(b"{}", layer).to_string().as_bytes()).to_string();
    for (path, layer) in [
        // containerd and K3s: a namespace is binding.
        ("line/press/manifests/1.0?ns=registry.example", b"theirs".as_slice()),
        ("line/press/manifests/1.0?ns=registry.example%3A5000", b"with a port"),
        ("library/nginx/manifests/1.27?ns=docker.io", b"hub"),
        ("mirror/registry.example/line/press/manifests/1.0?ns=registry.example", b"theirs"),
        // Docker: no namespace means its own registry.
        ("library/nginx/manifests/1.27", b"hub"),
        // Podman, skopeo: the prefix in their configuration.
        ("mirror/registry.example/line/press/manifests/1.0", b"theirs"),
        ("registry.example/line/press/manifests/1.0", b"theirs"),
        // Our own content wins.
        ("line/press/manifests/1.0", b"ours"),
    ] {
        let found = manifest(&server, path).await;
        assert_eq!(found.status(), 200, "{path}");
        assert_eq!(header(&found, "docker-content-digest"), digest(layer), "{path}");
    }
    let own = format!("line/press/manifests/1.0?ns={}", server.address());
    assert_eq!(header(&manifest(&server, &own).await, "docker-content-digest"), digest(b"ours"));
    let blob = format!("line/press/blobs/{}?ns=registry.example", Digest::sha256(b"theirs"));
    assert_eq!(manifest(&server, &blob).await.text().await.unwrap(), "theirs");
    let tags = manifest(&server, "line/press/tags/list?ns=registry.example").await.text().await.unwrap();
    assert!(tags.contains("1.0"), "{tags}");

    // What is not mirrored is not found, even if we have something of that name.
    for path in
        ["line/press/manifests/1.0?ns=other.example", "line/press/manifests/1.0?ns=%5B%3A%3A1%5D", "none/manifests/1"]
    {
        let missing = manifest(&server, path).await;
        assert_eq!(missing.status(), 404, "{path}");
    }
    // A namespace does not bypass authorization.
    let refused = server.v2(Method::GET, "line/press/manifests/1.0?ns=registry.example").send().await.unwrap();
    assert_error(refused, 401, "UNAUTHORIZED").await;
    // And pushes go to the named repository.
    let started = server.v2(Method::POST, "line/press/blobs/uploads/?ns=registry.example");
    let started = started.basic_auth("me", Some(&server.token)).send().await.unwrap();
    assert!(header(&started, "location").starts_with("/v2/line/press/"));
}

/// An unreachable registry.
fn gone() -> String {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    format!("127.0.0.1:{port}")
}

#[tokio::test]
async fn skopeo_pulls_the_original_reference_while_its_registry_is_down() {
    let server = Server::start(|_| {}).await;
    let origin = gone();
    let home = server.scratch();
    let layout = home.join("layout");
    crate::clients::skopeo::write_layout(&layout);
    server.authority_for(&home.join(".config/containers/certs.d").join(server.address()));
    // Copied in beforehand, over TLS.
    let mirrored = format!("{}/mirror/{}/line/press", server.address(), origin.replace(':', "__"));
    let (from, to) = (format!("oci:{}:1.0", layout.display()), format!("docker://{mirrored}:1.0"));
    let credentials = format!("me:{}", server.token);
    run_in(&home, "skopeo", &["--insecure-policy", "copy", "--dest-creds", &credentials, &from, &to], "").await.ok();

    let conf = format!(
        "[[registry]]\nprefix = \"{origin}\"\nlocation = \"{origin}\"\n\n[[registry.mirror]]\nlocation = \"{}\"\n",
        mirrored.trim_end_matches("/line/press")
    );
    fs::write(home.join("registries.conf"), conf).unwrap();
    let conf = home.join("registries.conf").display().to_string();
    let original = format!("docker://{origin}/line/press:1.0");
    let target = format!("oci:{}:1.0", home.join("target").display());
    let pull = ["--registries-conf", &conf, "--insecure-policy", "copy", &original, &target];
    // Without credentials the mirror refuses, and the registry itself is down.
    run_in(&home, "skopeo", &pull, "").await.refused();
    server.create(CLIENT, ClientState::Accepted).await;
    let password = server.password(CLIENT).await;
    let login = ["login", "-u", CLIENT, "--password-stdin", &server.address()];
    run_in(&home, "skopeo", &login, &password).await.ok();
    run_in(&home, "skopeo", &pull, "").await.ok();
    assert!(home.join("target/index.json").exists());

    // A replaced password stops working.
    let replaced = server.api(Method::POST, &format!("clients/{CLIENT}/pull-credentials"));
    assert_eq!(replaced.json(&serde_json::json!({})).send().await.unwrap().status(), 201);
    fs::remove_dir_all(home.join("target")).unwrap();
    run_in(&home, "skopeo", &pull, "").await.refused();
}

#[tokio::test]
async fn a_docker_engine_pulls_images_of_its_own_registry_through_the_mirror() {
    let server = Server::start(|_| {}).await;
    let home = server.scratch();
    let layout = home.join("layout");
    crate::clients::skopeo::write_layout(&layout);
    server.authority_for(&home.join(".config/containers/certs.d").join(server.address()));
    let (from, to) = (
        format!("oci:{}:1.0", layout.display()),
        format!("docker://{}/mirror/docker.io/line/press:1.0", server.address()),
    );
    let credentials = format!("me:{}", server.token);
    run_in(&home, "skopeo", &["--insecure-policy", "copy", "--dest-creds", &credentials, &from, &to], "").await.ok();

    let engine = Engine::start_with(&[&format!("--registry-mirror=https://{}", server.address())]).await;
    let pull = ["pull", "line/press:1.0"];
    engine.docker_in(&home, &pull, "").await.refused();
    server.create(CLIENT, ClientState::Accepted).await;
    let basic = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        format!("{CLIENT}:{}", server.password(CLIENT).await),
    );
    fs::create_dir_all(home.join("docker")).unwrap();
    let config = serde_json::json!({ "auths": { "https://index.docker.io/v1/": { "auth": basic } } });
    fs::write(home.join("docker/config.json"), config.to_string()).unwrap();
    let pulled = engine.docker_in(&home, &pull, "").await.ok();
    assert!(pulled.contains("docker.io/line/press:1.0"), "{pulled}");
    let shown = engine.docker_in(&home, &["image", "inspect", "--format", "{{.RepoTags}}", "line/press:1.0"], "").await;
    assert!(shown.ok().contains("line/press:1.0"));
}

#[tokio::test]
async fn containerd_pulls_the_original_reference_through_its_hosts_file() {
    let server = Server::start(|_| {}).await;
    let home = server.scratch();
    let layout = home.join("layout");
    crate::clients::skopeo::write_layout(&layout);
    server.authority_for(&home.join(".config/containers/certs.d").join(server.address()));
    let (from, to) = (
        format!("oci:{}:1.0", layout.display()),
        format!("docker://{}/mirror/registry.example/line/press:1.0", server.address()),
    );
    let credentials = format!("me:{}", server.token);
    run_in(&home, "skopeo", &["--insecure-policy", "copy", "--dest-creds", &credentials, &from, &to], "").await.ok();

    server.create(CLIENT, ClientState::Accepted).await;
    let basic = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        format!("{CLIENT}:{}", server.password(CLIENT).await),
    );
    let hosts = home.join("certs.d/registry.example");
    fs::create_dir_all(&hosts).unwrap();
    server.authority_for(&home.join("authority"));
    // As `margrave client mirror-config --for containerd` writes it.
    let address = server.address();
    let ca = home.join("authority/ca.crt").display().to_string();
    let text = format!(
        "server = \"https://registry.example\"\n\n[host.\"https://{address}\"]\n  capabilities = [\"pull\", \"resolve\"]\n  ca = \"{ca}\"\n  [host.\"https://{address}\".header]\n    authorization = \"Basic {basic}\"\n"
    );
    fs::write(hosts.join("hosts.toml"), text).unwrap();
    let containerd = Containerd::start(&home).await;
    let folder = home.join("certs.d").display().to_string();
    let pull = ["-a", &containerd.socket, "images", "pull", "--hosts-dir", &folder, "registry.example/line/press:1.0"];
    run_in(&home, "ctr", &pull, "").await.ok();
    let listed = run_in(&home, "ctr", &["-a", &containerd.socket, "images", "ls", "-q"], "").await.ok();
    assert_eq!(listed.trim(), "registry.example/line/press:1.0");
}

/// A separate containerd; stopped when dropped.
struct Containerd {
    process: std::process::Child,
    socket: String,
}

impl Containerd {
    async fn start(home: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("ctd").tempdir_in(home).unwrap().keep();
        let path = |name: &str| folder.join(name).display().to_string();
        let config = format!(
            "version = 2\nroot = \"{}\"\nstate = \"{}\"\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\n  address = \"{}\"\n",
            path("root"),
            path("state"),
            path("socket")
        );
        fs::write(folder.join("config.toml"), config).unwrap();
        let process = std::process::Command::new(tool("containerd"))
            .args(["--config", &path("config.toml")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        let containerd = Self { process, socket: path("socket") };
        wait_for("containerd listens", || std::os::unix::net::UnixStream::connect(&containerd.socket).is_ok()).await;
        containerd
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let id = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let _ = self.process.wait();
    }
}
