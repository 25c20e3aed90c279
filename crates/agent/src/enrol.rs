//! Enrolment: a key made on the device, a request signed with it, an identity in return (LC-01).
//!
//! The key is written before the request is sent and used again if the answer is lost, so that a token that works for
//! one key gives one identity.

use crate::config::AgentConfig;
use crate::disk::{DiskError, create_private_dir, write_private};
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

/// An answer holds a chain and a bundle.
const BODY_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum EnrolError {
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("say where the trust endpoint is: `--trust-url https://host:port`")]
    NoUrl,
    #[error("this client is enrolled already as `{0}`: add `--again` to replace its identity")]
    Already(String),
    #[error("make a key and a request: {0}")]
    Key(String),
    #[error("enrolment was refused with {status}{detail}: ask the operator for a fresh token (code 712)")]
    Refused { status: u16, detail: String },
    #[error("the identity that came back cannot be used: {0}")]
    Unusable(String),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Enrols a device that has no identity, with the token its file holds; `None` while there is no token.
pub(crate) async fn enrol_from_file(
    config: &AgentConfig,
    clock: Arc<dyn Clock>,
) -> Result<Option<Enrolment>, EnrolError> {
    let Some(path) = config.trust.token_file.as_ref() else { return Ok(None) };
    let at = |source| DiskError::Io { path: path.clone(), source };
    let token = match std::fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => SecretString::from(text.trim().to_owned()),
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(error).into()),
    };
    let enrolment = enrol(config, &token, false, clock).await?;
    // It is used up; one that cannot be removed does no harm.
    let _ = std::fs::remove_file(path);
    Ok(Some(enrolment))
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

/// What is remembered of an enrolment beside the identity itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Enrolment {
    pub spiffe_id: String,
    pub wfm_url: Url,
    pub trust_url: Url,
    /// How the trust endpoint was recognised: exactly one of the two.
    pub trust_pin: Option<String>,
    pub trust_ca: Option<String>,
}

impl Enrolment {
    pub fn load(state_dir: &Path) -> Option<Self> {
        let bytes = std::fs::read(identity_dir(state_dir).join("enrolment.json")).ok()?;
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

/// Enrols with a one-time token and keeps the identity in the state folder.
pub async fn enrol(
    config: &AgentConfig,
    token: &SecretString,
    again: bool,
    clock: Arc<dyn Clock>,
) -> Result<Enrolment, EnrolError> {
    let trust_url = config.trust.url.clone().ok_or(EnrolError::NoUrl)?;
    let folder = identity_dir(&config.state_dir);
    // Neither the key nor the identity of the machine this disk was copied from is of any use here.
    machine::set_aside(config)?;
    let certificate_path = folder.join("certificate.pem");
    if !again && certificate_path.exists() {
        let held = Enrolment::load(&config.state_dir).map_or_else(|| "unknown".to_owned(), |held| held.spiffe_id);
        return Err(EnrolError::Already(held));
    }
    let anchor = trust::anchor(config)?;
    let client = trust::client(config, &anchor, Arc::clone(&clock))?;
    create_private_dir(&folder).map_err(|source| DiskError::Io { path: folder.clone(), source })?;
    // Before the key, so that no key is there that could be copied without a trace.
    Machine::this(&config.identity.machine_files).write(&config.state_dir)?;
    // A key that never got a certificate is used again: the answer may only have been lost.
    let key = device_key(&folder.join("key.pem"), again && certificate_path.exists())?;
    let csr = CertificateParams::default().serialize_request(&key).and_then(|csr| csr.pem());
    let csr = csr.map_err(|error| EnrolError::Key(error.to_string()))?;
    let response = post(&client, &trust_url, &Request { token: token.expose_secret(), csr }).await?;
    let bundle_text = response.trust_bundle.get().as_bytes();
    check(&response, &key, bundle_text, clock)?;
    let bundle = TrustBundle::read(bundle_text).map_err(|findings| EnrolError::Unusable(findings.to_string()))?;
    let (trust_pin, trust_ca) = match anchor {
        TrustAnchor::Pin(pin) => (Some(format!("sha256:{}", margo::digest::hex(&pin))), None),
        TrustAnchor::Ca(pem) => (None, Some(String::from_utf8_lossy(&pem).into_owned())),
    };
    let enrolment =
        Enrolment { spiffe_id: response.spiffe_id, wfm_url: response.wfm_url, trust_url, trust_pin, trust_ca };
    if again {
        // Another server may count its bundles from the start.
        write_private(&fetched_bundle(&config.state_dir), bundle_text)?;
    } else {
        trust::take(&config.state_dir, bundle_text, &bundle.document)?;
    }
    let json = serde_json::to_vec_pretty(&enrolment).map_err(|error| EnrolError::Unusable(error.to_string()))?;
    write_private(&folder.join("enrolment.json"), &json)?;
    write_private(&folder.join("key.pem"), key.serialize_pem().as_bytes())?;
    // Last: its presence says that all the rest is there.
    write_private(&certificate_path, response.certificate.as_bytes())?;
    Ok(enrolment)
}

fn device_key(path: &Path, fresh: bool) -> Result<KeyPair, EnrolError> {
    let held = std::fs::read_to_string(path).ok().filter(|_| !fresh);
    if let Some(key) = held.and_then(|pem| KeyPair::from_pem(&pem).ok()) {
        return Ok(key);
    }
    // SV-02, SV-04
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| EnrolError::Key(error.to_string()))?;
    if !fresh {
        write_private(path, key.serialize_pem().as_bytes())?;
    }
    Ok(key)
}

async fn post(client: &reqwest::Client, trust_url: &Url, request: &Request<'_>) -> Result<Response, EnrolError> {
    let url = format!("{}/enrolment/v1", trust_url.as_str().trim_end_matches('/'));
    let unreachable = |answer| TrustError::Unreachable { url: url.clone(), message: message_of(answer) };
    let mut answer = client.post(&url).json(request).send().await.map_err(|error| unreachable(http::failed(&error)))?;
    let status = answer.status().as_u16();
    let body = http::read_body(&mut answer, BODY_BYTES_MAX).await.map_err(unreachable)?;
    if status != 200 {
        return Err(EnrolError::Refused { status, detail: problem_detail(&body) });
    }
    serde_json::from_slice(&body).map_err(|error| EnrolError::Unusable(error.to_string()))
}

/// The identity must be for our key, be what it says it is, and lead to the bundle that came with it.
fn check(response: &Response, key: &KeyPair, bundle: &[u8], clock: Arc<dyn Clock>) -> Result<(), EnrolError> {
    let unusable = |message: String| EnrolError::Unusable(message);
    let identity = Identity::from_parts(response.certificate.as_bytes(), key.serialize_pem().as_bytes(), bundle)
        .map_err(|error| unusable(error.to_string()))?;
    let expected = ClientIdentity::parse(&response.spiffe_id).map_err(|error| unusable(error.to_string()))?;
    if identity.client != expected {
        return Err(unusable(format!("the certificate is for `{}`, the answer says `{expected}`", identity.client)));
    }
    let leaf = pem_certificates(response.certificate.as_bytes()).map_err(unusable)?;
    let leaf = leaf.first().ok_or_else(|| unusable("no certificate came back".to_owned()))?;
    let svid = Svid::read(leaf).map_err(unusable)?;
    if svid.public_key != key.subject_public_key_info() {
        return Err(unusable("the certificate is for another key".to_owned()));
    }
    tls::leads_to_its_bundle(&identity, &*clock).map_err(unusable)?;
    tls::wfm_config(&identity, clock).map_err(|error| unusable(error.to_string()))?;
    Ok(())
}
