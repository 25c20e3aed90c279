//! Loads the material from the data folder and the operator's files; creates and renews our own.
//!
//! Every file is written as a whole and depends only on files written before it, so a crash at any
//! instant leaves a prefix of the work and the next call continues from there.

use super::authority::{Authority, is_self_signed};
use super::material::{Credential, Facts, Issuing, Material};
use super::pem::{self, Pair};
use super::{IdentityError, authority::Svid};
use crate::config::{Config, host_name};
use crate::files;
use margo::spiffe::WfmIdentity;
use margo::trust_bundle::TrustBundle;
use margrave_core::time::Timestamp;
use rcgen::KeyPair;
use rustls_pki_types::CertificateDer;
use std::path::{Path, PathBuf};

/// Always in the HTTPS certificate, so that the machine can reach its own listeners.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

pub(super) fn load(config: &Config, wfm: &WfmIdentity, now: Timestamp) -> Result<Material, IdentityError> {
    let folder = config.trust_dir();
    files::private_folder(&folder)
        .map_err(|source| IdentityError::Io { attempt: format!("make the folder `{}`", folder.display()), source })?;
    let authority = authority(config, &folder, wfm, now)?;
    let (anchors, issuer) = anchors(config, authority)?;
    let bundle_json = bundle(config, &folder, &anchors)?;
    let wfm = wfm_credential(config, &folder, wfm, &issuer, now)?;
    let (https, https_ca) = https_credential(config, &folder, now)?;
    Ok(Material { anchors, bundle_json, issuer, wfm, https, https_ca })
}

/// The files an operator may replace while the server runs.
pub(crate) fn watched(config: &Config) -> Vec<PathBuf> {
    let identity = &config.identity;
    let https = &config.https;
    [&identity.anchors_file, &identity.issuer_file, &identity.wfm_svid_file, &https.certificate_file, &https.key_file]
        .into_iter()
        .flatten()
        .cloned()
        .collect()
}

fn authority(config: &Config, folder: &Path, wfm: &WfmIdentity, now: Timestamp) -> Result<Authority, IdentityError> {
    if let Some(path) = &config.identity.issuer_file {
        return Authority::read(path);
    }
    let path = folder.join("svid-ca.pem");
    if !path.exists() {
        let name = format!("Margrave SVID authority of {}", wfm.trust_domain);
        Authority::create(&path, &name, Some(&format!("spiffe://{}", wfm.trust_domain)), now)?;
    }
    Authority::read(&path)
}

/// The anchors of the trust domain, and whether the authority chains to one of them.
fn anchors(config: &Config, authority: Authority) -> Result<(Vec<CertificateDer<'static>>, Issuing), IdentityError> {
    if let Some(path) = &config.identity.anchors_file {
        let anchors = pem::read_certificates(path)?;
        // An operator's issuer may chain to the anchors through its intermediates; the embedded one is its own anchor.
        let leads_there = config.identity.issuer_file.is_some() || anchors.contains(&authority.chain[0]);
        return Ok((anchors, if leads_there { Issuing::By(Box::new(authority)) } else { Issuing::Elsewhere }));
    }
    let anchors: Vec<_> = authority.chain.iter().filter(|der| is_self_signed(der)).cloned().collect();
    if anchors.is_empty() {
        return Err(IdentityError::Material {
            attempt: "use `identity.issuer_file`".to_owned(),
            problem: "it contains no self-signed certificate: give the anchors in `identity.anchors_file`".to_owned(),
        });
    }
    Ok((anchors, Issuing::By(Box::new(authority))))
}

/// The bundle as served; its sequence is incremented when the anchors change and survives restarts (TB-05).
fn bundle(config: &Config, folder: &Path, anchors: &[CertificateDer<'_>]) -> Result<Vec<u8>, IdentityError> {
    let path = folder.join("bundle.json");
    let held = match std::fs::read(&path) {
        Ok(json) => {
            let read = TrustBundle::read(&json).map_err(|error| pem::unusable(&path, &error.to_string()))?;
            Some((read.document, json))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(source) => return Err(IdentityError::Io { attempt: format!("read `{}`", path.display()), source }),
    };
    let mut requested = TrustBundle {
        sequence: Some(1),
        refresh_hint_seconds: Some(config.identity.bundle_refresh.0.as_secs()),
        anchors: anchors.iter().map(|der| der.to_vec()).collect(),
    };
    if let Some((held, json)) = held {
        requested.sequence = held.sequence;
        if held == requested {
            return Ok(json);
        }
        requested.sequence = Some(held.sequence.unwrap_or(0) + 1);
    }
    let json = requested.to_json();
    files::write_atomically(&path, &json, files::PRIVATE_FILE)
        .map_err(|source| IdentityError::Io { attempt: format!("write `{}`", path.display()), source })?;
    Ok(json)
}

fn wfm_credential(
    config: &Config,
    folder: &Path,
    wfm: &WfmIdentity,
    issuer: &Issuing,
    now: Timestamp,
) -> Result<Credential, IdentityError> {
    let spiffe_id = wfm.to_string();
    if let Some(path) = &config.identity.wfm_svid_file {
        let pair = pem::read_pair(path)?;
        let names = Facts::of(&pair.chain[0]).map(|facts| facts.uris).unwrap_or_default();
        if names != [spiffe_id.as_str()] {
            return Err(pem::unusable(path, &format!("its URI names are {names:?}, not exactly `{spiffe_id}`")));
        }
        return Credential::new(pair, &format!("`{}`", path.display()));
    }
    let authority = issuer.authority()?;
    let path = folder.join("wfm-svid.pem");
    let usable = |pair: &Pair| {
        Facts::of(&pair.chain[0]).is_some_and(|facts| facts.uris == [spiffe_id.as_str()] && !facts.renewal_due(now))
            && is_signed_by(&pair.chain[0], &authority.chain[0])
    };
    if !path.exists() || !usable(&pem::read_pair(&path)?) {
        let key = new_key()?;
        let Svid { chain_pem, .. } =
            authority.client_svid(&spiffe_id, &key, now, config.identity.wfm_svid_lifetime.0)?;
        pem::write_pair(&path, &key.serialize_pem(), &chain_pem)?;
    }
    Credential::new(pem::read_pair(&path)?, &format!("`{}`", path.display()))
}

fn https_credential(
    config: &Config,
    folder: &Path,
    now: Timestamp,
) -> Result<(Credential, Option<CertificateDer<'static>>), IdentityError> {
    if let (Some(certificate), Some(key)) = (&config.https.certificate_file, &config.https.key_file) {
        let pair = Pair { key: pem::read_key(key)?, chain: pem::read_certificates(certificate)? };
        return Ok((Credential::new(pair, &format!("`{}`", certificate.display()))?, None));
    }
    let authority_path = folder.join("https-ca.pem");
    if !authority_path.exists() {
        Authority::create(&authority_path, "Margrave HTTPS authority", None, now)?;
    }
    let authority = Authority::read(&authority_path)?;
    let names = https_names(config);
    let path = folder.join("https.pem");
    let held = if path.exists() { Some(pem::read_pair(&path)?) } else { None };
    let usable = held.as_ref().is_some_and(|pair| {
        Facts::of(&pair.chain[0]).is_some_and(|facts| facts.hosts == names && !facts.renewal_due(now))
            && is_signed_by(&pair.chain[0], &authority.chain[0])
    });
    if !usable {
        // The key is kept on renewal: devices pin it.
        let key = match held {
            Some(pair) => KeyPair::try_from(&pair.key).map_err(|error| pem::unusable(&path, &error.to_string()))?,
            None => new_key()?,
        };
        let Svid { chain_pem, .. } = authority.https(&names, &key, now, config.https.lifetime.0)?;
        pem::write_pair(&path, &key.serialize_pem(), &chain_pem)?;
    }
    let credential = Credential::new(pem::read_pair(&path)?, &format!("`{}`", path.display()))?;
    Ok((credential, authority.chain.into_iter().next()))
}

/// Configured names (or the host name), listening addresses, the local names; each once.
fn https_names(config: &Config) -> Vec<String> {
    let usual = |name: &str| match name.parse::<std::net::IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => name.to_owned(),
    };
    let mut requested = config.https.names.clone();
    if requested.is_empty() {
        requested.push(host_name());
    }
    let listeners = [config.listeners.trust.address, config.listeners.operators.address];
    let specific = listeners.iter().map(std::net::SocketAddr::ip).filter(|ip| !ip.is_unspecified());
    requested.extend(specific.map(|ip| ip.to_string()));
    requested.extend(LOCAL_NAMES.map(ToOwned::to_owned));
    requested.iter().map(|name| usual(name)).fold(Vec::new(), |mut names, name| {
        if !names.contains(&name) {
            names.push(name);
        }
        names
    })
}

fn new_key() -> Result<KeyPair, IdentityError> {
    KeyPair::generate()
        .map_err(|error| IdentityError::Material { attempt: "make a key".to_owned(), problem: error.to_string() })
}

fn is_signed_by(leaf: &CertificateDer<'_>, authority: &CertificateDer<'_>) -> bool {
    let (Ok((_, leaf)), Ok((_, authority))) =
        (x509_parser::parse_x509_certificate(leaf), x509_parser::parse_x509_certificate(authority))
    else {
        return false;
    };
    leaf.verify_signature(Some(authority.public_key())).is_ok()
}
