//! A third-party device client: plain requests over mutual TLS with a minted identity, without an agent.

use anyhow::Context as _;
use margo::digest::Digest;
use margo::manifest::StateManifest;
use margo::status::DeploymentStatus;
use std::path::Path;
use std::time::Duration;

/// A killed server closes connections at once; this timeout is for a hanging one.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub struct DeviceClient {
    http: reqwest::Client,
    base: String,
}

/// A manifest as received.
#[derive(Debug, Clone)]
pub struct Fetched {
    pub manifest: StateManifest,
    pub digest: Digest,
    pub etag: Option<String>,
}

impl DeviceClient {
    /// Uses the files written by `margrave client mint`.
    pub fn open(identity: &Path) -> anyhow::Result<Self> {
        let read = |name: &str| std::fs::read(identity.join(name)).with_context(|| format!("read `{name}`"));
        let pem = [read("cert.pem")?, read("key.pem")?].concat();
        let base = String::from_utf8(read("wfm-url")?)?.trim().to_owned();
        let http = reqwest::Client::builder()
            .identity(reqwest::Identity::from_pem(&pem)?)
            // An SVID has no DNS name to verify, and this tool acts as a device, not as a verifier.
            .tls_danger_accept_invalid_certs(true)
            .timeout(CALL_TIMEOUT)
            .build()?;
        Ok(Self { http, base })
    }

    /// `None` for 304. Any response outside the protocol is an error.
    pub async fn manifest(&self, if_none_match: Option<&str>) -> reqwest::Result<Option<Fetched>> {
        let mut request = self.http.get(format!("{}/api/v1/deployments", self.base));
        if let Some(etag) = if_none_match {
            request = request.header("If-None-Match", etag);
        }
        let answer = request.send().await?.error_for_status()?;
        if answer.status() == 304 {
            return Ok(None);
        }
        let etag = answer.headers().get("ETag").and_then(|etag| etag.to_str().ok()).map(str::to_owned);
        let body = answer.bytes().await?;
        let manifest = StateManifest::read(&body).expect("a complete manifest is readable").document;
        Ok(Some(Fetched { manifest, digest: Digest::of(&body), etag }))
    }

    pub async fn put_capabilities(&self, device: &str, body: String) -> reqwest::Result<u16> {
        let url = format!("{}/api/v1/capabilities/{device}", self.base);
        let answer = self.http.put(url).header("Content-Type", "application/json").body(body).send().await?;
        Ok(answer.status().as_u16())
    }

    pub async fn post_status(&self, status: &DeploymentStatus) -> reqwest::Result<u16> {
        let url = format!("{}/api/v1/deployments/{}/status", self.base, status.deployment_id);
        let answer =
            self.http.post(url).header("Content-Type", "application/json").body(status.to_json()).send().await?;
        Ok(answer.status().as_u16())
    }
}
