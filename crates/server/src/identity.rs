//! The embedded identity service: trust domain, anchors, the WFM's SVID, SVIDs for clients.
//!
//! This module is the seam for a fuller identity service: the rest of the server uses only [`Identity`].
//! The source of its [`Material`] (the embedded authority below, files of the operator, later EST or SPIRE)
//! can change; listeners only see a new generation.

mod authority;
mod csr;
mod load;
mod material;
mod pem;

pub(crate) use load::watched as watched_files;
pub use material::{Credential, Material};

use crate::config::Config;
use arc_swap::ArcSwap;
use margo::ids::ClientId;
use margo::spiffe::{TrustDomain, WfmIdentity};
use margrave_core::time::{Clock, Timestamp};
use rustls::SignatureScheme;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("invalid certificate signing request: {0}")]
    BadRequest(String),
    #[error("{attempt}")]
    Io {
        attempt: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{attempt}: {problem}")]
    Material { attempt: String, problem: String },
}

/// Signature schemes for statements: those of TLS 1.3, without legacy ones.
const STATEMENT_SCHEMES: [SignatureScheme; 6] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
];

/// A signature of this server, with its certificates.
#[derive(Debug, Clone)]
pub struct Signed {
    /// Its number in TLS.
    pub scheme: u16,
    pub signature: Vec<u8>,
    /// DER: leaf first.
    pub certificates: Vec<Vec<u8>>,
}

/// A new certificate.
#[derive(Debug, Clone)]
pub struct Issued {
    pub spiffe_id: String,
    /// PEM: leaf and intermediates.
    pub certificate_pem: String,
    pub expires_at: Timestamp,
}

pub struct Identity {
    wfm: WfmIdentity,
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
    material: ArcSwap<Material>,
    /// Incremented with every change of the material; connections from before a change are closed.
    generation: watch::Sender<u64>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys must never appear in a log.
        f.debug_struct("Identity").field("wfm", &self.wfm).finish_non_exhaustive()
    }
}

impl Identity {
    /// Loads the material; creates what is missing. After a crash at any point, running it again ends in the same
    /// state.
    pub fn open(config: Arc<Config>, clock: Arc<dyn Clock>) -> Result<Self, IdentityError> {
        let settings = &config.identity;
        let wrong = |problem: String| IdentityError::Material { attempt: "name this server".to_owned(), problem };
        let wfm = WfmIdentity {
            trust_domain: TrustDomain::parse(&settings.trust_domain).map_err(|error| wrong(error.to_string()))?,
            wfm_id: settings.wfm_id.parse::<ClientId>().map_err(|error| wrong(error.to_string()))?,
        };
        let material = load::load(&config, &wfm, clock.now())?;
        Ok(Self { wfm, config, clock, material: ArcSwap::from_pointee(material), generation: watch::Sender::new(0) })
    }

    pub fn wfm(&self) -> &WfmIdentity {
        &self.wfm
    }

    /// The keys and certificates in use.
    pub fn material(&self) -> Arc<Material> {
        self.material.load_full()
    }

    /// Subscribes to changes of the material.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Reloads operator files and renews what is due; returns whether anything changed.
    /// On an error the material in use stays.
    pub fn refresh(&self) -> Result<bool, IdentityError> {
        let fresh = load::load(&self.config, &self.wfm, self.clock.now())?;
        if fresh == **self.material.load() {
            return Ok(false);
        }
        self.material.store(Arc::new(fresh));
        self.generation.send_modify(|generation| *generation += 1);
        Ok(true)
    }

    /// Issues an SVID for the key of this CSR; names in the CSR are ignored (LC-01).
    pub fn issue(
        &self,
        client: &ClientId,
        csr_pem: &str,
        valid_for: Option<Duration>,
    ) -> Result<Issued, IdentityError> {
        let settings = &self.config.identity;
        let key = csr::public_key(csr_pem)?;
        let lifetime = valid_for.unwrap_or(settings.client_svid_lifetime.0).min(settings.client_svid_lifetime_max.0);
        let spiffe_id = self.wfm.client(client.clone()).to_string();
        let material = self.material.load();
        let svid = material.issuer.authority()?.client_svid(&spiffe_id, &key, self.clock.now(), lifetime)?;
        Ok(Issued { spiffe_id, certificate_pem: svid.chain_pem, expires_at: svid.expires_at })
    }

    /// Signs as this server, so that devices can verify the sender.
    pub fn sign(&self, bytes: &[u8]) -> Result<Signed, IdentityError> {
        let failed = |problem: String| IdentityError::Material { attempt: "sign a statement".to_owned(), problem };
        let material = self.material.load();
        let certified = &material.wfm.certified;
        let signer = certified.key.choose_scheme(&STATEMENT_SCHEMES);
        let signer = signer
            .ok_or_else(|| failed("the key type of this server's SVID is not supported for signatures".to_owned()))?;
        let signature = signer.sign(bytes).map_err(|error| failed(error.to_string()))?;
        let certificates = certified.cert.iter().map(|certificate| certificate.to_vec()).collect();
        Ok(Signed { scheme: signer.scheme().into(), signature, certificates })
    }

    /// SHA-256 of the CSR's public key, for one-time tokens.
    pub fn csr_key_hash(csr_pem: &str) -> Result<String, IdentityError> {
        csr::public_key(csr_pem).map(|key| key.hash())
    }

    /// SPIFFE JWK set of the anchors, as served.
    pub fn bundle_json(&self) -> Vec<u8> {
        self.material.load().bundle_json.clone()
    }

    /// PEM of the anchors.
    pub fn bundle_pem(&self) -> String {
        pem::certificates(&self.material.load().anchors)
    }

    /// PEM of the CA behind the HTTPS certificates of the trust and operator listeners; empty when those come from files.
    pub fn https_ca_pem(&self) -> String {
        self.material.load().https_ca.as_ref().map_or_else(String::new, |der| pem::certificate(der))
    }

    /// `sha256:<hex>` of the trust listener's public key.
    pub fn pin(&self) -> String {
        self.material.load().https.pin.clone()
    }
}

#[cfg(test)]
mod tests;
