//! Copies an application with its images from another registry: followed, killed in the middle, run again.

use crate::origin::{Origin, PASSWORD, USER};
use crate::support::{CommandOutput, Server, until};
use bytes::Bytes;
use margo::Digest;
use margrave_oci::{Connection, Credentials, Registry};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn layer() -> Vec<u8> {
    (0..3_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A proxy in front of a registry; while `holds` is set, it sends half of one blob and then stalls.
struct StallingProxy {
    host: String,
    holds: Arc<AtomicBool>,
}

impl StallingProxy {
    fn start(upstream: String, blob: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let holds = Arc::new(AtomicBool::new(true));
        let held = Arc::clone(&holds);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let (upstream, blob, held) = (upstream.clone(), blob.clone(), Arc::clone(&held));
                // A client that disconnects ends only its own connection.
                std::thread::spawn(move || drop(serve(connection.unwrap(), &upstream, &blob, &held)));
            }
        });
        Self { host, holds }
    }
}

fn serve(mut client: TcpStream, upstream: &str, blob: &str, holds: &AtomicBool) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let head = head.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    let mut server = TcpStream::connect(upstream)?;
    server.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    let ok = answer.starts_with(b"HTTP/1.1 200");
    if ok && head.starts_with("GET") && head.contains(blob) && holds.load(Ordering::SeqCst) {
        client.write_all(&answer[..answer.len() / 2])?;
        // Until the other side disconnects.
        return client.read_exact(&mut byte);
    }
    client.write_all(&answer)
}

/// Publishes an application whose compose file names an image; both are available under `host`.
fn publish(server: &Server, origin: &Origin, host: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let credentials = Credentials::new(Some(USER.to_owned()), Some(PASSWORD.to_owned())).unwrap();
        let connection = Connection { plain_http: true, ca: None, credentials };
        let mut registry = Registry::new(&origin.host(), &connection).unwrap();
        let mut parts = Vec::new();
        for (content, kind) in [(b"{}".to_vec(), "config.v1+json"), (layer(), "layer.v1.tar")] {
            let bytes = Bytes::from(content);
            let digest = Digest::of(&bytes);
            registry.push_blob("images/web", &digest, &bytes, |_| {}).await.unwrap();
            let media_type = format!("application/vnd.oci.image.{kind}");
            parts.push(json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() }));
        }
        let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": parts[0], "layers": [parts[1]] });
        registry.push_manifest("images/web", "1.0", MANIFEST, &manifest.to_string().into()).await.unwrap();
    });
    let stack = server.folder.path().join("stack");
    write(&stack.join("compose.yaml"), &format!("services:\n  web: {{ image: '{host}/images/web:1.0' }}\n"));
    let app = server.folder.path().join("app");
    write(
        &app.join("margo.yaml"),
        &format!(
            "apiVersion: v1
id: press
metadata:
  name: Press
  version: 1.0.0
  catalog:
    organization: [{{ name: Example }}]
deploymentProfiles:
  - type: compose
    id: small
    components:
      - name: press-stack
        properties: {{ repository: 'oci://{host}/compose/press', revision: 1.0.0 }}
"
        ),
    );
    for (folder, to, more) in
        [(&stack, "compose/press", &["--version", "1.0.0"][..]), (&app, "apps/press", &["--no-import"])]
    {
        let to = format!("oci://{}/{to}", origin.host());
        let mut arguments = vec!["app", "push", folder.to_str().unwrap(), "--to", &to];
        arguments.extend(["--plain-http", "--username", USER, "--password-stdin"]);
        arguments.extend(more);
        let seen = CommandOutput::of(with_password(server, &arguments).wait_with_output().unwrap());
        assert_eq!(seen.code, 0, "{}", seen.stderr);
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn with_password(server: &Server, arguments: &[&str]) -> Child {
    let mut command = server.command(arguments);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    child.stdin.take().unwrap().write_all(PASSWORD.as_bytes()).unwrap();
    child
}

fn import(server: &Server, host: &str, more: &[&str]) -> Child {
    let source = format!("oci://{host}/apps/press:1.0.0");
    let mut arguments = vec!["app", "import", &source, "--with-images"];
    arguments.extend(["--plain-http", "--username", USER, "--password-stdin"]);
    arguments.extend(more);
    with_password(server, &arguments)
}

#[test]
fn resumes_a_copy_after_the_server_was_killed() {
    let mut server = Server::start();
    let origin = Origin::start(false);
    let slow = StallingProxy::start(origin.host(), Digest::of(&layer()).to_string());
    publish(&server, &origin, &slow.host);
    let command = import(&server, &slow.host, &[]);
    let uploads = server.data().join("registry/uploads");
    until("half of the layer on the disk", || {
        let entries = std::fs::read_dir(&uploads).ok()?;
        let sizes = entries.filter_map(|entry| std::fs::metadata(entry.ok()?.path().join("data")).ok());
        sizes.map(|data| data.len()).find(|size| *size > 1_000_000)
    });
    server.kill_and_start_again();
    let seen = CommandOutput::of(command.wait_with_output().unwrap());
    assert!(seen.code != 0, "{}", seen.stdout);
    assert!(seen.stderr.contains("run the command again"), "{}", seen.stderr);
    assert_eq!(server.json(&["app", "list"]), json!([]));

    slow.holds.store(false, Ordering::SeqCst);
    let seen = CommandOutput::of(import(&server, &slow.host, &["-o", "json"]).wait_with_output().unwrap());
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    let copy: Value = serde_json::from_str(&seen.stdout).unwrap();
    let states: Vec<&str> =
        copy["artifacts"].as_array().unwrap().iter().map(|artifact| artifact["state"].as_str().unwrap()).collect();
    // Package and component were copied before the kill.
    assert_eq!(states, ["present", "present", "copied"], "{copy}");
    assert_eq!(server.json(&["app", "list"])[0]["id"], "press");
    assert!(!server.log().contains(PASSWORD));

    let again = CommandOutput::of(import(&server, &slow.host, &[]).wait_with_output().unwrap());
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(again.stdout.contains("press 1.0.0 is in the catalog."), "{}", again.stdout);
    assert!(again.stderr.contains("image <address>/images/web:1.0: present"), "{}", again.stderr);
    let missing = format!("{}/images/none:1", slow.host);
    let seen = CommandOutput::of(import(&server, &slow.host, &["--image", &missing]).wait_with_output().unwrap());
    assert_eq!(seen.code, 1, "{}", seen.stdout);
    assert!(
        seen.stdout.contains("not found") && seen.stderr.contains("some artifacts could not be copied"),
        "{seen:?}"
    );
}

#[test]
fn prints_a_valid_mirror_configuration_for_every_runtime() {
    let server = Server::start();
    assert_eq!(server.run(&["client", "accept", "press-07"]).code, 0);
    let seen = server.run(&["client", "mirror-config", "press-07", "--for", "k3s"]);
    assert_eq!(seen.code, 2, "{}", seen.stdout);
    assert!(seen.stderr.contains("nothing to mirror yet"), "{}", seen.stderr);
    let shown = |runtime: &str| {
        let arguments =
            ["client", "mirror-config", "press-07", "--for", runtime, "--registry", "registry.example:5000"];
        server.json(&arguments)["files"].as_array().unwrap().clone()
    };
    for (runtime, file, expected) in [
        ("k3s", "/etc/rancher/k3s/registries.yaml", "registry.example:5000"),
        ("containerd", "/etc/containerd/certs.d/registry.example:5000/hosts.toml", "authorization = \"Basic "),
        ("podman", "/etc/containers/registries.conf.d/margrave.conf", "/mirror/registry.example__5000\""),
        ("docker", "/etc/docker/daemon.json", "registry-mirrors"),
    ] {
        let files = shown(runtime);
        let found = files.iter().find(|entry| entry["path"] == file).unwrap_or_else(|| panic!("{files:?}"));
        assert!(found["content"].as_str().unwrap().contains(expected), "{found}");
        assert!(files.iter().any(|entry| entry["content"].as_str().unwrap().contains("BEGIN CERTIFICATE")));
    }
    let folder = server.folder.path().join("out");
    let write = ["client", "mirror-config", "press-07", "--for", "podman", "--registry", "a.example", "--write"];
    let seen = server.run(&[&write[..], &[folder.to_str().unwrap()]].concat());
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    let secret = std::fs::metadata(folder.join("etc/containers/margrave-auth.json")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&secret.permissions()) & 0o777, 0o600);
}
