//! The identity of this client: X.509-SVID, key and trust bundle (WID-01, SV-03, ONB-06).

pub(crate) mod machine;

use crate::config::AgentConfig;
use margo::Digest;
use margo::spiffe::ClientIdentity;
use margo::trust_bundle::TrustBundle;
use margrave_core::time::Timestamp;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// Far above the size of any real identity file.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error(
        "this client has no identity yet: run `margrave-agent enroll`, or name provisioned files under `[identity]`"
    )]
    None,
    #[error("read `{}`: {message}", path.display())]
    File { path: PathBuf, message: String },
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
    #[error("the trust bundle cannot be used: {0}")]
    Bundle(String),
}

/// The files of an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The first existing one is used; of several, the one with the higher sequence, else the newest.
    pub trust_bundles: Vec<PathBuf>,
}

/// The subfolder of the state folder that enrollment writes to.
pub(crate) fn identity_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("identity")
}

/// The trust bundle as last fetched: also the offline cache (TB-05).
pub(crate) fn fetched_bundle(state_dir: &Path) -> PathBuf {
    identity_dir(state_dir).join("trust-bundle.json")
}

impl IdentityFiles {
    pub fn of(config: &AgentConfig) -> Self {
        let folder = identity_dir(&config.state_dir);
        let fetched = fetched_bundle(&config.state_dir);
        let provisioned = config.identity.trust_bundle.clone();
        let trust_bundles = match (provisioned, config.trust.url.is_some()) {
            (Some(provisioned), true) => vec![provisioned, fetched],
            (Some(provisioned), false) => vec![provisioned],
            (None, _) => vec![fetched],
        };
        Self {
            certificate: config.identity.certificate.clone().unwrap_or_else(|| folder.join("certificate.pem")),
            key: config.identity.key.clone().unwrap_or_else(|| folder.join("key.pem")),
            trust_bundles,
        }
    }

    fn trust_bundle(&self) -> Option<&PathBuf> {
        let sequence = |path: &PathBuf| TrustBundle::read(&read(path).ok()?).ok()?.document.sequence;
        let written = |path: &PathBuf| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        self.trust_bundles.iter().filter(|path| path.exists()).max_by(|left, right| {
            match (sequence(left), sequence(right)) {
                // The clock may have been wrong when a file was written; the sequence only grows (TB-05).
                (Some(left), Some(right)) if left != right => left.cmp(&right),
                _ => written(left).cmp(&written(right)),
            }
        })
    }

    /// Reads and checks all files; an inconsistent identity is never used.
    pub fn load(&self) -> Result<Identity, IdentityError> {
        if !self.certificate.exists() {
            return Err(IdentityError::None);
        }
        let certificate = read(&self.certificate)?;
        let key = read(&self.key)?;
        let bundle = read(self.trust_bundle().ok_or(IdentityError::None)?)?;
        Identity::from_parts(&certificate, &key, &bundle)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, IdentityError> {
    let problem = |message: String| IdentityError::File { path: path.to_owned(), message };
    let metadata = std::fs::metadata(path).map_err(|error| problem(error.to_string()))?;
    if metadata.len() > FILE_BYTES_MAX {
        return Err(problem(format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    std::fs::read(path).map_err(|error| problem(error.to_string()))
}

/// What a device without an identity waits for, and how to enroll it; `None` if it has one.
pub fn waiting_reason(config: &AgentConfig) -> Option<String> {
    let files = IdentityFiles::of(config);
    if files.certificate.exists() {
        return None;
    }
    let missing = "this device has no identity yet";
    if config.identity.certificate.is_some() {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        return Some(format!("{missing}: waiting for the certificate `{certificate}` with its key `{key}`"));
    }
    let default = AgentConfig::default().state_dir;
    let folder = match &config.state_dir {
        given if *given == default => String::new(),
        given => format!(" --state-dir {}", given.display()),
    };
    let command = format!("`margrave-agent enroll{folder} --trust-url URL --pin PIN --token-file FILE`");
    Some(match &config.trust.token_file {
        Some(path) => format!("{missing}: waiting for a token in `{}`, or for {command}", path.display()),
        None => format!(
            "{missing}: waiting for {command}, with a token from an operator (`margrave client enrollment-token`, or \
             `Add a device` in the browser)"
        ),
    })
}

/// A usable identity.
#[derive(Debug)]
pub struct Identity {
    pub client: ClientIdentity,
    pub not_after: Timestamp,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) anchors: Vec<CertificateDer<'static>>,
    /// Changes whenever the files change.
    pub(crate) fingerprint: Digest,
}

impl Identity {
    pub fn from_parts(certificate: &[u8], key: &[u8], bundle: &[u8]) -> Result<Self, IdentityError> {
        let wrong = |message: String| IdentityError::Certificate(message);
        let chain = pem_certificates(certificate).map_err(&wrong)?;
        let leaf = chain.first().ok_or_else(|| wrong("the file holds no certificate".to_owned()))?;
        let svid = Svid::read(leaf).map_err(&wrong)?;
        let client = ClientIdentity::parse(&svid.spiffe_id).map_err(|error| wrong(error.to_string()))?;
        let private = PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong(format!("its key: {error}")))?;
        let anchors = read_anchors(bundle)?;
        let fingerprint = Digest::of(&[certificate, key, bundle].concat());
        Ok(Self { client, not_after: svid.not_after, chain, key: private, anchors, fingerprint })
    }
}

pub(crate) fn pem_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())
}

/// PEM or a SPIFFE JWK set. A bundle without anchors is rejected (TB-04).
pub(crate) fn read_anchors(bundle: &[u8]) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let wrong = |message: String| IdentityError::Bundle(message);
    let is_json = bundle.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let anchors = if is_json {
        let read = TrustBundle::read(bundle).map_err(|findings| wrong(findings.to_string()))?;
        read.document.anchors.into_iter().map(CertificateDer::from).collect()
    } else {
        pem_certificates(bundle).map_err(&wrong)?
    };
    if anchors.is_empty() {
        return Err(wrong("it holds no X.509 anchor".to_owned()));
    }
    Ok(anchors)
}

/// The contents of an X.509-SVID after the leaf checks (SV-03).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Svid {
    pub(crate) spiffe_id: String,
    pub(crate) not_after: Timestamp,
    /// DER of the SubjectPublicKeyInfo.
    pub(crate) public_key: Vec<u8>,
}

impl Svid {
    /// Not a CA, signs no certificates, exactly one URI name, a SPIFFE ID with a path. DNS names are ignored.
    pub(crate) fn read(der: &[u8]) -> Result<Self, String> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|error| format!("not X.509: {error}"))?;
        let text = |error: x509_parser::error::X509Error| error.to_string();
        if certificate.basic_constraints().map_err(text)?.is_some_and(|extension| extension.value.ca) {
            return Err("a leaf must not be a certificate authority".to_owned());
        }
        let usage = certificate.key_usage().map_err(text)?;
        if usage.is_some_and(|usage| usage.value.key_cert_sign() || usage.value.crl_sign()) {
            return Err("a leaf must not be allowed to sign certificates or revocation lists".to_owned());
        }
        let names = certificate.subject_alternative_name().map_err(text)?;
        let mut uris = names.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });
        let (Some(uri), None) = (uris.next(), uris.next()) else {
            return Err("a leaf must have exactly one URI name".to_owned());
        };
        let path = uri.strip_prefix("spiffe://").and_then(|rest| rest.split_once('/')).map(|(_, path)| path);
        if path.is_none_or(str::is_empty) {
            return Err(format!("`{}` is not a SPIFFE ID with a path", uri.chars().take(200).collect::<String>()));
        }
        Ok(Self {
            spiffe_id: uri.to_owned(),
            not_after: Timestamp(certificate.validity().not_after.timestamp().saturating_mul(1_000_000)),
            public_key: certificate.public_key().raw.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests;
