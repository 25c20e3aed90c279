use super::*;
use crate::config::{KubernetesConfig, RuntimeKind};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;

const KUBECONFIG: &str = "current-context: plant
contexts: [{name: plant, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: \"https://127.0.0.1:6443\", certificate-authority-data: \"\"}}]
users: [{name: u, user: {token: t}}]
";

fn config(folder: &Path) -> AgentConfig {
    AgentConfig {
        state_dir: folder.to_owned(),
        file: Some(PathBuf::from("/etc/margrave/a.toml")),
        ..Default::default()
    }
}

fn nowhere() -> Places {
    Places { sockets: Vec::new(), kubeconfigs: Vec::new(), pod: false }
}

/// An engine that answers.
fn engine(path: &Path) {
    let listener = UnixListener::bind(path).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut requested = [0; 1024];
            let _ = stream.read(&mut requested).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOK").await;
        }
    });
}

#[tokio::test]
async fn no_advice_with_an_enabled_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let base = config(folder.path());
    for config in [
        AgentConfig { compose: Some(ComposeConfig::default()), ..base.clone() },
        AgentConfig { kubernetes: Some(KubernetesConfig::default()), ..base.clone() },
        AgentConfig { runtime: Some(RuntimeKind::Simulated), ..base.clone() },
    ] {
        assert_eq!(advice(&config, &nowhere()).await, None);
    }
    assert!(advice(&base, &nowhere()).await.is_some());
}

#[tokio::test]
async fn names_a_found_engine_with_the_lines_to_add() {
    let folder = tempfile::tempdir().unwrap();
    let (no_response, there) = (folder.path().join("old.sock"), folder.path().join("engine.sock"));
    drop(UnixListener::bind(&no_response).unwrap());
    engine(&there);
    let places = Places { sockets: vec![no_response, there.clone()], ..nowhere() };
    let advice = advice(&config(folder.path()), &places).await.unwrap();
    let (line, there) = (advice.to_string(), there.display());
    assert!(line.contains(&format!("a container engine answers at `{there}`")), "{line}");
    assert!(
        line.contains(&format!("add `[compose]` and below it `socket = \"{there}\"` to `/etc/margrave/a.toml`")),
        "{line}"
    );
    let text = advice.terminal_text();
    assert!(text.contains(&format!("add to /etc/margrave/a.toml:\n\n  [compose]\n  socket = \"{there}\"\n")), "{text}");
}

#[tokio::test]
async fn finds_a_cluster_by_kubeconfig_or_pod() {
    let folder = tempfile::tempdir().unwrap();
    let (broken, good) = (folder.path().join("broken"), folder.path().join("good.yaml"));
    std::fs::write(&broken, "nonsense").unwrap();
    let authority = rcgen::generate_simple_self_signed(["cluster".to_owned()]).unwrap().cert.pem();
    let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, authority);
    std::fs::write(&good, KUBECONFIG.replace("data: \"\"", &format!("data: \"{data}\""))).unwrap();
    let places = Places { kubeconfigs: vec![broken, good.clone()], ..nowhere() };
    let line = advice(&config(folder.path()), &places).await.unwrap().to_string();
    assert!(line.contains(&format!("`[kubernetes]` and below it `kubeconfig = \"{}\"`", good.display())), "{line}");
    let line = advice(&config(folder.path()), &Places { pod: true, ..nowhere() }).await.unwrap().to_string();
    assert!(line.contains("in a pod with a service account, add `[kubernetes]` to"), "{line}");
}

#[tokio::test]
async fn advises_what_to_install_and_mentions_simulation() {
    let folder = tempfile::tempdir().unwrap();
    let line = advice(&config(folder.path()), &nowhere()).await.unwrap().to_string();
    assert!(
        line.contains("install Docker or Podman with Compose and add `[compose]` to `/etc/margrave/a.toml`"),
        "{line}"
    );
    assert!(!line.contains("simulated"), "{line}");
    std::fs::write(folder.path().join(simulated::WORLD_FILE), "{}").unwrap();
    let line = advice(&config(folder.path()), &nowhere()).await.unwrap().to_string();
    assert!(
        line.contains("what it reported as installed never ran (`runtime = \"simulated\"` enables this again)"),
        "{line}"
    );
    let unnamed = AgentConfig { file: None, ..config(folder.path()) };
    assert!(advice(&unnamed, &nowhere()).await.unwrap().to_string().contains(DEFAULT_PATH));
}
