//! Enrollment: a key generated on the device, a request signed with it, an identity in return (LC-01).
//!
//! The key is written before the request is sent and reused if the response is lost, so that a token for one key gives
//! one identity.

use crate::config::AgentConfig;
use crate::disk::{self, DiskError, create_private_dir, write_private};
use crate::identity::machine::{self, Machine};
use crate::identity::{Identity, Svid, fetched_bundle, identity_dir, pem_certificates};
use crate::tls::TrustAnchor;
use crate::trust::{self, TrustError, message_of, problem_detail};
use crate::{http, tls};
use margo::spiffe::ClientIdentity;
use margo::trust_bundle::TrustBundle;
use margrave_core::time::Clock;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData as _};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::path::Path;
use std::sync::Arc;
use url::Url;

/// A response contains a chain and a bundle.
const BODY_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum EnrollError {
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("missing trust endpoint: set `--trust-url https://host:port`")]
    NoUrl,
    #[error("already enrolled as `{0}`: add `--again` to replace the identity")]
    Already(String),
    #[error("create a key and a request: {0}")]
    Key(String),
    #[error("enrollment was refused with {status}{detail}: get a new token from the operator (code 712)")]
    Refused { status: u16, detail: String },
    #[error("the issued identity cannot be used: {0}")]
    Unusable(String),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Enrolls a device that has no identity, with the token its file holds; `None` while there is no token.
pub(crate) async fn enroll_from_file(
    config: &AgentConfig,
    clock: Arc<dyn Clock>,
) -> Result<Option<Enrollment>, EnrollError> {
    let Some(path) = config.trust.token_file.as_ref() else { return Ok(None) };
    let at = |source| DiskError::Io { path: path.clone(), source };
    let token = match std::fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => SecretString::from(text.trim().to_owned()),
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(error).into()),
    };
    let enrollment = enroll(config, &token, false, clock).await?;
    // The token is used up; a file that cannot be removed is harmless.
    let _ = std::fs::remove_file(path);
    Ok(Some(enrollment))
}

#[derive(Serialize)]
struct Request<'a> {
    token: &'a str,
    csr: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    spiffe_id: String,
    certificate: String,
    trust_bundle: Box<RawValue>,
    wfm_url: Url,
}

/// The record of an enrollment, stored next to the identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Enrollment {
    pub spiffe_id: String,
    pub wfm_url: Url,
    pub trust_url: Url,
    /// How the trust endpoint was verified: exactly one of the two.
    pub trust_pin: Option<String>,
    pub trust_ca: Option<String>,
}

impl Enrollment {
    pub fn load(state_dir: &Path) -> Option<Self> {
        let bytes = std::fs::read(identity_dir(state_dir).join("enrollment.json")).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    pub(crate) fn anchor(&self) -> Result<TrustAnchor, TrustError> {
        match (&self.trust_pin, &self.trust_ca) {
            (Some(pin), _) => Ok(TrustAnchor::parse_pin(pin)?),
            (None, Some(pem)) => Ok(TrustAnchor::Ca(pem.clone().into_bytes())),
            (None, None) => Err(TrustError::NoAnchor),
        }
    }
}

/// Enrolls with a one-time token and keeps the identity in the state folder.
pub async fn enroll(
    config: &AgentConfig,
    token: &SecretString,
    again: bool,
    clock: Arc<dyn Clock>,
) -> Result<Enrollment, EnrollError> {
    let trust_url = config.trust.url.clone().ok_or(EnrollError::NoUrl)?;
    let folder = identity_dir(&config.state_dir);
    disk::check_format(&config.state_dir)?;
    // The key and identity of the machine this disk was copied from are useless here.
    machine::set_aside(config)?;
    let certificate_path = folder.join("certificate.pem");
    if !again && certificate_path.exists() {
        let held = Enrollment::load(&config.state_dir).map_or_else(|| "unknown".to_owned(), |held| held.spiffe_id);
        return Err(EnrollError::Already(held));
    }
    let anchor = trust::anchor(config)?;
    let client = trust::client(config, &anchor, Arc::clone(&clock))?;
    disk::prepare(&config.state_dir)?;
    create_private_dir(&folder).map_err(|source| DiskError::Io { path: folder.clone(), source })?;
    // Before the key, so that no key exists without its machine record.
    Machine::this(&config.identity.machine_files).write(&config.state_dir)?;
    // A key without a certificate is reused: the response may have been lost.
    let key = device_key(&folder.join("key.pem"), again && certificate_path.exists())?;
    let csr = CertificateParams::default().serialize_request(&key).and_then(|csr| csr.pem());
    let csr = csr.map_err(|error| EnrollError::Key(error.to_string()))?;
    let response = post(&client, &trust_url, &Request { token: token.expose_secret(), csr }).await?;
    let bundle_text = response.trust_bundle.get().as_bytes();
    check(&response, &key, bundle_text, clock)?;
    let bundle = TrustBundle::read(bundle_text).map_err(|findings| EnrollError::Unusable(findings.to_string()))?;
    let (trust_pin, trust_ca) = match anchor {
        TrustAnchor::Pin(pin) => (Some(format!("sha256:{}", margo::digest::hex(&pin))), None),
        TrustAnchor::Ca(pem) => (None, Some(String::from_utf8_lossy(&pem).into_owned())),
    };
    let enrollment =
        Enrollment { spiffe_id: response.spiffe_id, wfm_url: response.wfm_url, trust_url, trust_pin, trust_ca };
    if again {
        // Another server may start with a lower bundle sequence.
        write_private(&fetched_bundle(&config.state_dir), bundle_text)?;
    } else {
        trust::take(&config.state_dir, bundle_text, &bundle.document)?;
    }
    let json = serde_json::to_vec_pretty(&enrollment).map_err(|error| EnrollError::Unusable(error.to_string()))?;
    write_private(&folder.join("enrollment.json"), &json)?;
    write_private(&folder.join("key.pem"), key.serialize_pem().as_bytes())?;
    // Written last: its presence means that everything else is written.
    write_private(&certificate_path, response.certificate.as_bytes())?;
    Ok(enrollment)
}

fn device_key(path: &Path, fresh: bool) -> Result<KeyPair, EnrollError> {
    let held = std::fs::read_to_string(path).ok().filter(|_| !fresh);
    if let Some(key) = held.and_then(|pem| KeyPair::from_pem(&pem).ok()) {
        return Ok(key);
    }
    // SV-02, SV-04
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| EnrollError::Key(error.to_string()))?;
    if !fresh {
        write_private(path, key.serialize_pem().as_bytes())?;
    }
    Ok(key)
}

async fn post(client: &reqwest::Client, trust_url: &Url, request: &Request<'_>) -> Result<Response, EnrollError> {
    let url = format!("{}/enrollment/v1", trust_url.as_str().trim_end_matches('/'));
    let unreachable = |answer| TrustError::Unreachable { url: url.clone(), message: message_of(answer) };
    let mut answer = client.post(&url).json(request).send().await.map_err(|error| unreachable(http::failed(&error)))?;
    let status = answer.status().as_u16();
    let body = http::read_body(&mut answer, BODY_BYTES_MAX).await.map_err(unreachable)?;
    if status != 200 {
        return Err(EnrollError::Refused { status, detail: problem_detail(&body) });
    }
    serde_json::from_slice(&body).map_err(|error| EnrollError::Unusable(error.to_string()))
}

/// The identity must be for our key, match the response, and be trusted by the bundle of the response.
fn check(response: &Response, key: &KeyPair, bundle: &[u8], clock: Arc<dyn Clock>) -> Result<(), EnrollError> {
    let unusable = |message: String| EnrollError::Unusable(message);
    let identity = Identity::from_parts(response.certificate.as_bytes(), key.serialize_pem().as_bytes(), bundle)
        .map_err(|error| unusable(error.to_string()))?;
    let expected = ClientIdentity::parse(&response.spiffe_id).map_err(|error| unusable(error.to_string()))?;
    if identity.client != expected {
        return Err(unusable(format!("the certificate is for `{}`, the response says `{expected}`", identity.client)));
    }
    let leaf = pem_certificates(response.certificate.as_bytes()).map_err(unusable)?;
    let leaf = leaf.first().ok_or_else(|| unusable("the response has no certificate".to_owned()))?;
    let svid = Svid::read(leaf).map_err(unusable)?;
    if svid.public_key != key.subject_public_key_info() {
        return Err(unusable("the certificate is for another key".to_owned()));
    }
    tls::is_trusted_by_its_bundle(&identity, &*clock).map_err(unusable)?;
    tls::wfm_config(&identity, clock).map_err(|error| unusable(error.to_string()))?;
    Ok(())
}
