//! The server's data folder, its sockets, and its addresses as seen from outside.

use super::{Addresses, Sockets, StartError};
use crate::config::{Config, host_name};
use crate::files;
use crate::state::ExternalUrls;
use serde::Serialize;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::net::SocketAddr;

/// In the data folder: the addresses actually bound, for scripts that use port 0.
pub const ADDRESSES_FILE: &str = "addresses.json";

const HTTPS_PORT: u16 = 443;

/// Creates the data folder and locks it for this process.
pub(super) fn take(config: &Config) -> Result<File, StartError> {
    let path = config.data_dir.clone();
    let failed = |source| StartError::DataFolder { path: path.clone(), source };
    files::private_folder(&path).map_err(failed)?;
    let lock = OpenOptions::new().write(true).create(true).truncate(false).open(path.join("lock")).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StartError::InUse { path }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

pub(super) fn listen_hint(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::AddrInUse => "another program uses the port; stop it or set another address under `listeners`",
        ErrorKind::PermissionDenied => {
            "ports below 1024 need a privilege; grant CAP_NET_BIND_SERVICE or set another port under `listeners`"
        }
        ErrorKind::AddrNotAvailable => "this machine does not have this address; set another under `listeners`",
        _ => "set another address under `listeners`",
    }
}

#[derive(Serialize)]
pub(super) struct Place {
    #[serde(flatten)]
    pub(super) addresses: Addresses,
    pub(super) urls: ExternalUrls,
}

impl Place {
    pub(super) fn new(config: &Config, sockets: &Sockets) -> Self {
        let address = |bound: &Option<crate::net::Bound>| bound.as_ref().map(|bound| bound.address);
        let addresses = Addresses {
            devices: address(&sockets.devices),
            trust: address(&sockets.trust),
            operators: address(&sockets.operators),
        };
        let listeners = &config.listeners;
        let devices = url(config, "https", addresses.devices.unwrap_or(listeners.devices.address));
        let operator_scheme = if listeners.operators.speaks_tls() { "https" } else { "http" };
        let given = |url: &Option<String>| url.as_ref().map(|url| url.trim_end_matches('/').to_owned());
        let urls = ExternalUrls {
            devices: given(&config.urls.devices).unwrap_or(devices + &listeners.devices.path_prefix),
            trust: given(&config.urls.trust)
                .unwrap_or_else(|| url(config, "https", addresses.trust.unwrap_or(listeners.trust.address))),
            operators: given(&config.urls.operators).unwrap_or_else(|| {
                url(config, operator_scheme, addresses.operators.unwrap_or(listeners.operators.address))
            }),
        };
        Self { addresses, urls }
    }

    pub(super) fn write(&self, config: &Config) -> Result<(), StartError> {
        let mut json = serde_json::to_vec_pretty(self).expect("addresses can always be written as JSON");
        json.push(b'\n');
        files::write_atomically(&config.data_dir.join(ADDRESSES_FILE), &json, files::PUBLIC_FILE)
            .map_err(|source| StartError::DataFolder { path: config.data_dir.clone(), source })
    }
}

/// The first configured name; else the address itself, unless it is a wildcard; else the host name.
fn url(config: &Config, scheme: &str, address: SocketAddr) -> String {
    let host = match config.https.names.first() {
        _ if address.ip().is_loopback() => bracketed(&address.ip().to_string()),
        Some(name) => bracketed(name),
        None if address.ip().is_unspecified() => host_name(),
        None => bracketed(&address.ip().to_string()),
    };
    if scheme == "https" && address.port() == HTTPS_PORT {
        return format!("https://{host}");
    }
    format!("{scheme}://{host}:{}", address.port())
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}
