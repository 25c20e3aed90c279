//! Checks what a configuration needs from this machine: folders, files, addresses.
//!
//! The checks create nothing and keep nothing open, so they can run next to a running server.

use super::{Config, Problem};
use rustix::fs::{Access, access};
use std::fs::File;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut refuse = |key, text: String| found.push(Problem { key, text });
    if let Err(text) = can_hold(&config.data_dir) {
        refuse("data_dir", text);
    }
    if let Some(path) = config.store.url.as_deref().and_then(sqlite_path)
        && let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty())
    {
        if !folder.is_dir() {
            refuse("store.url", format!("the folder `{}` of the database does not exist: create it", folder.display()));
        } else if let Err(text) = can_hold(folder) {
            refuse("store.url", text);
        }
    }
    if let Some(key) = &config.store.seal_key_file {
        match File::open(key).and_then(|file| file.metadata()).and_then(is_file) {
            // Created at the first start.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if let Some(Err(text)) = key.parent().map(can_hold) {
                    refuse("store.seal_key_file", text);
                }
            }
            Err(error) => refuse("store.seal_key_file", format!("`{}` cannot be read: {error}", key.display())),
            Ok(()) => {}
        }
    }
    let (https, identity) = (&config.https, &config.identity);
    for (key, path) in [
        ("https.certificate_file", &https.certificate_file),
        ("https.key_file", &https.key_file),
        ("identity.anchors_file", &identity.anchors_file),
        ("identity.issuer_file", &identity.issuer_file),
        ("identity.wfm_svid_file", &identity.wfm_svid_file),
    ] {
        let Some(path) = path else { continue };
        if let Err(error) = File::open(path).and_then(|file| file.metadata()).and_then(is_file) {
            refuse(key, format!("`{}` cannot be read: {error}", path.display()));
        }
    }
    let listeners = &config.listeners;
    for (key, enabled, address) in [
        ("listeners.devices.address", listeners.devices.enabled, listeners.devices.address),
        ("listeners.trust.address", listeners.trust.enabled, listeners.trust.address),
        ("listeners.operators.address", listeners.operators.enabled, listeners.operators.address),
    ] {
        // The server of this file may use the port already; binding to any free port shows whether the address exists.
        let probe = SocketAddr::new(address.ip(), 0);
        let bound = if enabled { TcpListener::bind(probe).map(drop) } else { Ok(()) };
        if bound.is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable) {
            refuse(key, format!("this machine has no address {}", address.ip()));
        }
    }
    found
}

fn is_file(metadata: std::fs::Metadata) -> std::io::Result<()> {
    if metadata.is_file() { Ok(()) } else { Err(std::io::Error::other("it is not a file")) }
}

fn sqlite_path(url: &str) -> Option<&Path> {
    let rest = url.strip_prefix("sqlite:")?;
    let path = rest.strip_prefix("//").unwrap_or(rest).split('?').next()?;
    (!path.is_empty() && path != ":memory:").then(|| Path::new(path))
}

/// Whether a folder exists and is writable, or could be created.
fn can_hold(folder: &Path) -> Result<(), String> {
    let here = Path::new(".");
    let existing = folder
        .ancestors()
        .map(|path| if path.as_os_str().is_empty() { here } else { path })
        .find(|path| path.symlink_metadata().is_ok())
        .unwrap_or(here);
    if !existing.is_dir() {
        return Err(format!("`{}` is not a folder", existing.display()));
    }
    access(existing, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| format!("the folder `{}` cannot be written to: {error}", existing.display()))
}
