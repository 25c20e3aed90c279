//! A second manager, written after the reference and other implementations, not after our server.
//!
//! It serves under a prefix that its manifests do not name (W-01, W-03), gives the digest of the bundle as ETag without
//! quotes (W-07), takes nothing but an integer as adopted version (W-12), answers 201 with JSON of its own to
//! everything (W-10, W-15, W-19), closes each connection after an answer (W-27), and refuses clients that are not on
//! its list in the handshake (W-26).

use crate::pki::{Authority, Leaf};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use margo::{DeploymentId, Digest};
use margrave_core::publish::ServedDeployment;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// As the reference has it (W-01).
pub(crate) const PREFIX: &str = "/v1alpha2/margo";

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Accepted SPIFFE IDs; an empty list rejects all clients (W-26).
    pub(crate) allowed: Vec<String>,
    /// Answer every request with 403, as in the specification (GEN-14).
    pub(crate) forbids: bool,
    manifest: Vec<u8>,
    etag: String,
    bundle: (String, Vec<u8>),
    yamls: Vec<(String, Vec<u8>)>,
    /// Handshakes that were refused.
    pub(crate) refused: usize,
    /// `If-None-Match` of each poll that had one.
    pub(crate) matched: Vec<String>,
    /// Adopted version and state of each report.
    pub(crate) reports: Vec<(DeploymentId, u64, String)>,
    pub(crate) not_modified: usize,
    /// Unknown requests.
    pub(crate) strange: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct Manager {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Manager {
    pub(crate) async fn start(leaf: &Leaf, clients: &Authority) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(clients.der.clone())).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chains =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap();
        let chain = CertificateDer::pem_slice_iter(leaf.certificate.as_bytes()).collect::<Result<Vec<_>, _>>().unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(Arc::new(AllowList { chains, state: Arc::clone(&state) }))
            .with_single_cert(chain, PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).unwrap())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let manager = Self { address: listener.local_addr().unwrap(), state };
        let state = Arc::clone(&manager.state);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(socket).await else { return };
                    let service = hyper::service::service_fn(move |request| answer(Arc::clone(&state), request));
                    let mut http = hyper::server::conn::http1::Builder::new();
                    let _ = http.keep_alive(false).serve_connection(TokioIo::new(tls), service).await;
                });
            }
        });
        manager
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The base URL for the configuration of a device.
    pub(crate) fn base_url(&self) -> url::Url {
        format!("https://{}{PREFIX}", self.address).parse().unwrap()
    }

    pub(crate) fn publish(&self, version: u64, deployments: &[ServedDeployment]) {
        let files: Vec<_> = deployments.iter().map(|served| (served.id, served.yaml.as_slice())).collect();
        let bundle = margo::bundle::pack(&files);
        let digest = Digest::of(&bundle);
        let bundle_url = format!("/api/v1/bundles/{digest}");
        let yaml_url = |served: &ServedDeployment| format!("/api/v1/deployments/{}/{}", served.id, served.digest);
        let entry = |served: &ServedDeployment| json!({ "deploymentId": served.id, "digest": served.digest, "url": yaml_url(served), "note": "ours" });
        let manifest = json!({
            "apiVersion": "margo.org/v1", "manifestVersion": version,
            "bundle": { "mediaType": "application/vnd.margo.bundle.v1+tar+gzip", "digest": digest, "url": bundle_url },
            "deployments": deployments.iter().map(entry).collect::<Vec<_>>(),
        });
        let mut state = self.state();
        // W-08
        state.manifest = format!("{manifest}\n").into_bytes();
        state.etag = digest.to_string();
        state.bundle = (bundle_url, bundle);
        state.yamls = deployments.iter().map(|served| (yaml_url(served), served.yaml.clone())).collect();
    }

    pub(crate) fn last_report(&self, id: DeploymentId) -> Option<(u64, String)> {
        let state = self.state();
        let last = state.reports.iter().rfind(|report| report.0 == id)?;
        Some((last.1, last.2.clone()))
    }
}

async fn answer(state: Arc<Mutex<State>>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    let mut state = state.lock().unwrap();
    let (status, headers, body) = route(&mut state, parts.method.as_str(), parts.uri.path(), &parts.headers, &body);
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(Bytes::from(body))).unwrap())
}

type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// JSON acknowledgements that no rule defines (W-15).
fn acknowledged() -> Answer {
    (201, vec![("content-type", "application/json".to_owned())], br#"{"message":"created"}"#.to_vec())
}

fn route(state: &mut State, method: &str, path: &str, headers: &HeaderMap, body: &[u8]) -> Answer {
    let Some(path) = path.strip_prefix(PREFIX) else {
        state.strange.push(format!("{method} {path}"));
        return (404, vec![], b"404 page not found\n".to_vec());
    };
    if state.forbids {
        let problem = json!({ "type": "https://margo.org/problems#not-authorized", "status": 403, "title": "no" });
        return (403, vec![("content-type", "application/problem+json".to_owned())], problem.to_string().into_bytes());
    }
    match (method, path) {
        ("GET", "/api/v1/deployments") => {
            let held = headers.get("if-none-match").map(|held| held.to_str().unwrap().to_owned());
            let same = held.as_deref() == Some(state.etag.as_str());
            state.matched.extend(held);
            let headers = vec![
                ("etag", state.etag.clone()),
                ("content-type", "application/vnd.margo.manifest.v1+json".to_owned()),
            ];
            if same {
                state.not_modified += 1;
                return (304, headers, vec![]);
            }
            (200, headers, state.manifest.clone())
        }
        ("GET", path) => {
            let yaml = state.yamls.iter().find(|(url, _)| url == path).map(|(_, yaml)| yaml);
            match yaml.or_else(|| (state.bundle.0 == path).then_some(&state.bundle.1)) {
                Some(bytes) => (200, vec![], bytes.clone()),
                None => {
                    state.strange.push(format!("{method} {path}"));
                    (404, vec![], b"404 page not found\n".to_vec())
                }
            }
        }
        ("PUT", path) if path.starts_with("/api/v1/") => acknowledged(),
        ("POST", path) => {
            let id = path.strip_prefix("/api/v1/deployments/").and_then(|rest| rest.strip_suffix("/status"));
            let report: Value = serde_json::from_slice(body).unwrap();
            // W-12: a strict parser accepts only an integer.
            let version = report["adoptedManifestVersion"].as_u64();
            let (Some(id), Some(version)) = (id.and_then(|id| id.parse().ok()), version) else {
                state.strange.push(format!("{method} {path}: {report}"));
                return (400, vec![], br#"{"Error":"cannot unmarshal"}"#.to_vec());
            };
            let word = report["status"]["state"].as_str().unwrap_or_default().to_owned();
            state.reports.push((id, version, word));
            acknowledged()
        }
        // W-19: no handler for DELETE.
        _ => (405, vec![], b"405 method not allowed\n".to_vec()),
    }
}

/// W-26: the list is checked in the handshake.
#[derive(Debug)]
struct AllowList {
    chains: Arc<dyn ClientCertVerifier>,
    state: Arc<Mutex<State>>,
}

impl ClientCertVerifier for AllowList {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.chains.verify_client_cert(leaf, intermediates, now)?;
        let (_, certificate) = X509Certificate::from_der(leaf).map_err(|_| CertificateError::BadEncoding)?;
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.map(|names| names.value.general_names.clone()).unwrap_or_default();
        let uri = names.iter().find_map(|name| match name {
            GeneralName::URI(uri) => Some((*uri).to_owned()),
            _ => None,
        });
        let mut state = self.state.lock().unwrap();
        if uri.is_some_and(|uri| state.allowed.contains(&uri)) {
            return Ok(verified);
        }
        state.refused += 1;
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
