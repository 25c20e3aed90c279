//! The real server as a process, and identities for its clients.

use super::process::Process;
use crate::chaos::{site, wait};
use anyhow::Context as _;
use margrave_api::access::CreateToken;
use margrave_api::client::{ApiClient, ClientOptions};
use margrave_api::clients::{CreateClient, IssueSvid};
use margrave_server::run::Addresses;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A folder with `margrave` and `margrave-agent` to use instead of those next to this program.
const FOLDER_VARIABLE: &str = "MARGRAVE_PROGRAMS";

/// A start reads the manifest head of every client, which takes a while with 100,000 devices on a slow disk.
const READY_WITHIN: Duration = Duration::from_mins(3);

pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("find this program")?;
    let temporary = own.parent().context("this program has no parent folder")?;
    let folder = std::env::var_os(FOLDER_VARIABLE).map_or_else(|| temporary.to_owned(), PathBuf::from);
    let path = folder.join(name);
    anyhow::ensure!(
        path.is_file(),
        "`{}` does not exist: `make bench` builds it, or set {FOLDER_VARIABLE}",
        path.display()
    );
    Ok(path)
}

pub struct Server {
    pub process: Process,
    pub devices: SocketAddr,
    pub trust: SocketAddr,
    pub operators: SocketAddr,
    data: PathBuf,
    identities: PathBuf,
}

impl Server {
    /// `margrave serve` with its defaults and its state in `folder/data`.
    pub async fn start(folder: &Path, core: Option<usize>) -> anyhow::Result<Self> {
        Self::start_program(&program("margrave")?, folder, core).await
    }

    pub async fn start_program(program: &Path, folder: &Path, core: Option<usize>) -> anyhow::Result<Self> {
        let data = folder.join("data");
        let addresses = data.join(margrave_server::run::ADDRESSES_FILE);
        // Left by an earlier server.
        let _ = std::fs::remove_file(&addresses);
        let mut command = Command::new(program);
        command.arg("--data").arg(&data).arg("serve").args(["--log", "json"]);
        for listener in ["--devices", "--trust", "--operators"] {
            command.args([listener, "127.0.0.1:0"]);
        }
        let log = folder.join("server.log");
        let mut process = Process::start("the server", &command, core, &log)?;
        let found: Addresses = wait::until("the server listening", READY_WITHIN, async || {
            process.must_run().with_context(|| std::fs::read_to_string(&log).unwrap_or_default())?;
            let text = std::fs::read(&addresses).map_err(|error| error.to_string());
            Ok(text.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string())))
        })
        .await?;
        let one = |address: Option<SocketAddr>| address.context("a listener is disabled");
        let (devices, trust, operators) = (one(found.devices)?, one(found.trust)?, one(found.operators)?);
        let identities = folder.join("identities");
        let server = Self { process, devices, trust, operators, data, identities };
        let http = site::plain()?;
        wait::until("the server being ready", READY_WITHIN, async || {
            let answer = http.get(server.url("/readyz")).send().await.and_then(reqwest::Response::error_for_status);
            Ok(answer.map(drop).map_err(|error| error.to_string()))
        })
        .await?;
        Ok(server)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.operators)
    }

    pub fn token(&self) -> anyhow::Result<String> {
        let token = std::fs::read_to_string(self.data.join(margrave_server::run::ADMIN_TOKEN_FILE))?;
        Ok(token.trim().to_owned())
    }

    /// Creates another token.
    pub async fn another_token(&self, number: usize) -> anyhow::Result<String> {
        let body = CreateToken { name: format!("viewer-{number}"), valid_for_seconds: None, comment: None };
        self.api()?.create_token(&body).await?.secret.context("a new token has a secret")
    }

    pub fn api(&self) -> anyhow::Result<ApiClient> {
        Ok(ApiClient::new(&ClientOptions::new(self.url("")).with_token(&self.token()?))?)
    }

    /// Creates clients and writes their identities to files.
    pub async fn new_clients(&self, prefix: &str, count: usize) -> anyhow::Result<Vec<PathBuf>> {
        let api = self.api()?;
        let mut identities = Vec::new();
        for index in 0..count {
            let id = format!("{prefix}-{index}");
            api.create_client(&CreateClient { id: id.clone(), state: None, note: None, comment: None }).await?;
            identities.push(self.identity(&api, &id).await?);
        }
        Ok(identities)
    }

    /// A metric of the server, by name with labels; 0 if absent.
    pub async fn metric(&self, name: &str) -> anyhow::Result<u64> {
        let text =
            crate::chaos::site::plain()?.get(self.url("/metrics")).send().await?.error_for_status()?.text().await?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(Ok(0), |value| value.parse().with_context(|| format!("the metric {name} is `{value}`")))
    }

    /// An identity of an existing client.
    pub async fn identity(&self, api: &ApiClient, id: &str) -> anyhow::Result<PathBuf> {
        let key = rcgen::KeyPair::generate()?;
        let csr = rcgen::CertificateParams::default().serialize_request(&key)?.pem()?;
        let issued = api.issue_svid(id, &IssueSvid { csr, valid_for_seconds: None }).await?;
        let files = self.identities.join(id);
        std::fs::create_dir_all(&files)?;
        std::fs::write(files.join("cert.pem"), issued.certificate)?;
        std::fs::write(files.join("key.pem"), key.serialize_pem())?;
        std::fs::write(files.join("bundle.pem"), issued.trust_bundle)?;
        std::fs::write(files.join("wfm-url"), issued.wfm_url)?;
        Ok(files)
    }
}
