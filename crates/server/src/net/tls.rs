//! TLS configurations built from the identity material, and replaced when it changes.

use super::verify::ClientVerifier;
use crate::identity::{Identity, IdentityError, Material};
use margrave_core::time::Clock;
use rustls::crypto::aws_lc_rs;
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ConfigBuilder, ServerConfig, server::WantsServerCert};
use rustls_pki_types::UnixTime;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The TLS configuration of one listener. Connections with an older one are closed.
pub type Tls = watch::Receiver<Arc<ServerConfig>>;

/// Which listener a configuration is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Mutual TLS with SVIDs, HTTP/1.1 (GEN-03).
    Devices,
    /// An ordinary server certificate.
    Https,
}

/// Certificates are checked against the server's clock.
struct ServerTime(Arc<dyn Clock>);

impl fmt::Debug for ServerTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTime")
    }
}

impl TimeProvider for ServerTime {
    fn current_time(&self) -> Option<UnixTime> {
        let micros = u64::try_from(self.0.now().0).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_micros(micros)))
    }
}

/// The configuration for the current material.
pub fn config(kind: Kind, identity: &Identity, clock: &Arc<dyn Clock>) -> Result<Arc<ServerConfig>, IdentityError> {
    let material = identity.material();
    let unusable = |problem: String| IdentityError::Material { attempt: "set up TLS".to_owned(), problem };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    // TLS 1.3 only, set explicitly: another crate may enable TLS 1.2 by a feature (TLS-01).
    let builder = ServerConfig::builder_with_details(provider, Arc::new(ServerTime(Arc::clone(clock))))
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| unusable(error.to_string()))?;
    let (builder, credential): (ConfigBuilder<ServerConfig, WantsServerCert>, _) = match kind {
        Kind::Devices => {
            let Material { anchors, wfm, .. } = &*material;
            let verifier = ClientVerifier::new(identity.wfm().clone(), anchors, algorithms)
                .map_err(|error| unusable(format!("a trust anchor is unusable: {error}")))?;
            (builder.with_client_cert_verifier(Arc::new(verifier)), &wfm.certified)
        }
        Kind::Https => (builder.with_no_client_auth(), &material.https.certified),
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(credential.clone())));
    // No resumption: every connection is a full handshake, so that none outlives its certificates (TLS-03).
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = match kind {
        Kind::Devices => vec![b"http/1.1".to_vec()],
        Kind::Https => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(Arc::new(config))
}

/// Follows the identity: builds a new configuration after every change of the material.
pub fn follow(kind: Kind, identity: &Arc<Identity>, clock: &Arc<dyn Clock>) -> Result<Tls, IdentityError> {
    let mut changes = identity.changes();
    changes.mark_unchanged();
    let (sender, receiver) = watch::channel(config(kind, identity, clock)?);
    let (identity, clock) = (Arc::clone(identity), Arc::clone(clock));
    tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            match config(kind, &identity, &clock) {
                Ok(config) => {
                    if sender.send(config).is_err() {
                        return;
                    }
                }
                Err(error) => tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "cannot use the new certificates; the old ones stay in use"
                ),
            }
        }
    });
    Ok(receiver)
}
