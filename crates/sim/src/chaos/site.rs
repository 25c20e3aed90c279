//! A server in a folder on fixed loopback ports, started and set up with the documented commands.

use super::daemon::Daemon;
use super::{programs, wait};
use anyhow::Context as _;
use margrave_api::client::{ApiClient, ClientOptions};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A start includes database recovery after a kill, which takes a while on a loaded machine.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// Longer than any call to a running server; a killed server closes connections at once.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

pub struct Site {
    folder: PathBuf,
    data: PathBuf,
    program: PathBuf,
    operators: SocketAddr,
    pub server: Daemon,
}

impl Site {
    /// Prepares a server with its state in `data`; nothing runs yet.
    pub fn new(folder: &Path, data: &Path) -> anyhow::Result<Self> {
        let program = programs::find("margrave")?;
        // Reserve all three at once, so that they differ; released before the server binds them.
        let sockets = (0..3).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
        let ports = sockets.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
        let mut arguments = vec!["serve".to_owned(), "--data".to_owned(), data.display().to_string()];
        for (name, address) in ["--devices", "--trust", "--operators"].into_iter().zip(&ports) {
            arguments.extend([name.to_owned(), address.to_string()]);
        }
        let server = Daemon::new(program.clone(), arguments, &folder.join("server.log"));
        Ok(Self { folder: folder.to_owned(), data: data.to_owned(), program, operators: ports[2], server })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Starts the server and waits until it is ready.
    pub async fn start(&mut self) -> anyhow::Result<()> {
        self.server.start()?;
        self.ready().await
    }

    pub async fn ready(&mut self) -> anyhow::Result<()> {
        let url = format!("http://{}/readyz", self.operators);
        let http = plain()?;
        let server = &mut self.server;
        wait::until("the server being ready", READY_WITHIN, async || {
            server.must_run()?;
            Ok(match http.get(&url).send().await {
                Ok(answer) if answer.status().is_success() => Ok(()),
                Ok(answer) => Err(answer.status().to_string()),
                Err(error) => Err(error.to_string()),
            })
        })
        .await
    }

    pub fn operators_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.operators)
    }

    /// The operator API with the admin token.
    pub fn api(&self) -> anyhow::Result<ApiClient> {
        let token = std::fs::read_to_string(self.data.join("admin-token")).context("read the admin token")?;
        self.api_with(token.trim())
    }

    pub fn api_with(&self, token: &str) -> anyhow::Result<ApiClient> {
        let mut options = ClientOptions::new(format!("http://{}", self.operators)).with_token(token);
        options.timeout = CALL_TIMEOUT;
        Ok(ApiClient::new(&options)?)
    }

    /// Mints an identity into a folder, as described in `docs/guides/test-tools.md`.
    pub fn mint(&self, client: &str) -> anyhow::Result<PathBuf> {
        let out = self.folder.join("identities").join(client);
        self.command(&["client", "mint", client, "--out", &out.display().to_string()])?;
        Ok(out)
    }

    /// Writes a package folder and imports it.
    pub fn import(&self, name: &str, version: &str, components: usize) -> anyhow::Result<()> {
        let package = self.folder.join("packages").join(name).join(version);
        std::fs::create_dir_all(&package)?;
        let text = crate::simulation::description(name, version, components);
        std::fs::write(package.join("margo.yaml"), text)?;
        self.command(&["app", "import", &package.display().to_string()])
    }

    /// Runs a `margrave` command against this server.
    pub fn command(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let output = Command::new(&self.program).arg("--data").arg(&self.data).args(arguments).output()?;
        anyhow::ensure!(
            output.status.success(),
            "`margrave {}` failed:\n{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

/// Plain HTTP on loopback needs no certificates.
pub fn plain() -> anyhow::Result<reqwest::Client> {
    Ok(reqwest::Client::builder().timeout(Duration::from_secs(5)).tls_certs_only([]).build()?)
}
