//! Reads and writes PEM: key and chain in one file, so that one rename replaces both.

use super::IdentityError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt::Write as _;
use std::path::Path;

const LINE_CHARS: usize = 64;

/// A private key with its certificate chain, leaf first.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) chain: Vec<CertificateDer<'static>>,
}

pub(super) fn encode(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE_CHARS));
        let _ = writeln!(out, "{line}");
        rest = after;
    }
    let _ = writeln!(out, "-----END {label}-----");
    out
}

pub(super) fn certificate(der: &CertificateDer<'_>) -> String {
    encode("CERTIFICATE", der)
}

pub(super) fn certificates(ders: &[CertificateDer<'_>]) -> String {
    ders.iter().map(certificate).collect()
}

/// Every certificate in a PEM file, at least one.
pub(super) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let text = read(path)?;
    let chain = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(path, &error.to_string()))?;
    if chain.is_empty() { Err(unusable(path, "it contains no certificate")) } else { Ok(chain) }
}

pub(super) fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, IdentityError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| unusable(path, &error.to_string()))
}

/// A file with both a key and a chain.
pub(super) fn read_pair(path: &Path) -> Result<Pair, IdentityError> {
    Ok(Pair { key: read_key(path)?, chain: read_certificates(path)? })
}

pub(super) fn write_pair(path: &Path, key_pem: &str, chain_pem: &str) -> Result<(), IdentityError> {
    crate::files::write_atomically(path, format!("{key_pem}{chain_pem}").as_bytes(), crate::files::PRIVATE_FILE)
        .map_err(|source| IdentityError::Io { attempt: format!("write `{}`", path.display()), source })
}

pub(super) fn unusable(path: &Path, problem: &str) -> IdentityError {
    IdentityError::Material { attempt: format!("use `{}`", path.display()), problem: problem.to_owned() }
}

fn read(path: &Path) -> Result<Vec<u8>, IdentityError> {
    std::fs::read(path).map_err(|source| IdentityError::Io { attempt: format!("read `{}`", path.display()), source })
}
