//! The minimal cost of a poll: axum behind rustls with client certificates and a handler that only returns 304.

use anyhow::Context as _;
use axum::Router;
use axum::routing::get;
use http::{StatusCode, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The file for the address it listens on.
pub const ADDRESS_FILE: &str = "bare-address";

/// Serves until the process ends. `folder` contains the trust anchors of the clients.
pub async fn serve(folder: &Path) -> anyhow::Result<()> {
    let acceptor = TlsAcceptor::from(Arc::new(tls(folder)?));
    let etag = margo::Digest::of(b"bare").etag();
    let handler = move || std::future::ready((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]));
    let router = Router::new().route("/api/v1/deployments", get(handler));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    std::fs::write(folder.join(ADDRESS_FILE), listener.local_addr()?.to_string())?;
    loop {
        let (socket, _) = listener.accept().await?;
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else { return };
            let service = TowerToHyperService::new(router);
            let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn tls(folder: &Path) -> anyhow::Result<rustls::ServerConfig> {
    let mut anchors = RootCertStore::empty();
    for anchor in CertificateDer::pem_file_iter(folder.join("bundle.pem"))? {
        anchors.add(anchor?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(anchors), Arc::clone(&provider)).build()?;
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).context("create a certificate")?;
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).map_err(|error| anyhow::anyhow!(error))?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![own.cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
