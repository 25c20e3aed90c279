//! A fake WFM that serves valid and invalid content.

use crate::pki::{Authority, Leaf};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use margo::manifest::{bundle_url, deployment_url};
use margrave_core::publish::{Publication, ServedDeployment};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    /// Counted from one.
    pub(crate) connection: usize,
    /// The certificates of the client in the handshake, leaf first.
    pub(crate) certificates: Arc<[CertificateDer<'static>]>,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn reply(status: u16, body: impl Into<Vec<u8>>) -> Reply {
    Reply { status, headers: vec![], body: body.into() }
}

type Twist = Box<dyn FnMut(&Seen) -> Option<Reply> + Send>;

/// How the server handles `Prefer: wait=N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LongPollMode {
    #[default]
    Ignored,
    /// Answers the long poll when the manifest changes.
    Held,
    /// Never answers, like a dead connection.
    Lost,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) manifest: Vec<u8>,
    pub(crate) artifacts: HashMap<String, Vec<u8>>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) twist: Option<Twist>,
    pub(crate) prefix: String,
    /// How long polls are handled.
    pub(crate) holding: LongPollMode,
    connections: usize,
}

#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Fake {
    /// Mutual TLS: accepts only clients of `clients` (W-25).
    pub(crate) async fn start(leaf: &Leaf, clients: &Authority) -> Self {
        Self::start_on("127.0.0.1", leaf, clients).await
    }

    /// On another address of the machine, for an agent elsewhere.
    pub(crate) async fn start_on(address: &str, leaf: &Leaf, clients: &Authority) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(clients.der.clone())).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap();
        Self::serve(
            address,
            ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_client_cert_verifier(verifier),
            leaf,
        )
        .await
    }

    /// TLS without client certificates, as a trust endpoint has it.
    pub(crate) async fn start_trust(leaf: &Leaf) -> Self {
        Self::start_trust_on("127.0.0.1", leaf).await
    }

    pub(crate) async fn start_trust_on(address: &str, leaf: &Leaf) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        Self::serve(
            address,
            ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth(),
            leaf,
        )
        .await
    }

    async fn serve(
        address: &str,
        builder: rustls::ConfigBuilder<ServerConfig, rustls::server::WantsServerCert>,
        leaf: &Leaf,
    ) -> Self {
        let chain = CertificateDer::pem_slice_iter(leaf.certificate.as_bytes()).collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()));
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let fake = Self { address: listener.local_addr().unwrap(), state: Arc::default() };
        let state = Arc::clone(&fake.state);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(socket).await else { return };
                    let shown = tls.get_ref().1.peer_certificates().unwrap_or_default();
                    let peer = Peer { connection: next_connection(&state), certificates: certificates(shown) };
                    let service =
                        hyper::service::service_fn(move |request| answer(Arc::clone(&state), peer.clone(), request));
                    let _ =
                        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tls), service).await;
                });
            }
        });
        fake
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn url(&self) -> url::Url {
        format!("https://{}", self.address).parse().unwrap()
    }

    /// Serves a publication as it is.
    pub(crate) fn publish(&self, publication: &Publication, deployments: &[ServedDeployment]) {
        let mut state = self.state();
        state.manifest.clone_from(&publication.body);
        for served in deployments {
            state.artifacts.insert(deployment_url(served.id, &served.digest), served.yaml.clone());
        }
        if let Some((digest, bytes)) = &publication.bundle {
            state.artifacts.insert(bundle_url(digest), bytes.clone());
        }
    }

    pub(crate) fn twist(&self, twist: impl FnMut(&Seen) -> Option<Reply> + Send + 'static) {
        self.state().twist = Some(Box::new(twist));
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// States reported for a deployment, in order.
    pub(crate) fn reported(&self, id: margo::DeploymentId) -> Vec<margo::status::DeploymentStatus> {
        let path = format!("/api/v1/deployments/{id}/status");
        let read = |seen: Seen| margo::status::DeploymentStatus::read(&seen.body).unwrap().document;
        self.seen().into_iter().filter(|seen| seen.path.ends_with(&path)).map(read).collect()
    }
}

/// The peer of a connection.
#[derive(Clone)]
struct Peer {
    connection: usize,
    certificates: Arc<[CertificateDer<'static>]>,
}

fn next_connection(state: &Mutex<State>) -> usize {
    let mut state = state.lock().unwrap();
    state.connections += 1;
    state.connections
}

fn certificates(shown: &[CertificateDer<'_>]) -> Arc<[CertificateDer<'static>]> {
    shown.iter().map(|shown| shown.clone().into_owned()).collect()
}

async fn answer(
    state: Arc<Mutex<State>>,
    peer: Peer,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    let seen = Seen {
        at: Instant::now(),
        connection: peer.connection,
        certificates: peer.certificates,
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body,
    };
    let waits = seen.headers.contains_key("prefer");
    let holding = {
        let mut state = state.lock().unwrap();
        state.seen.push(seen.clone());
        if waits { state.holding } else { LongPollMode::Ignored }
    };
    let applied = match holding {
        LongPollMode::Ignored => None,
        LongPollMode::Lost => std::future::pending().await,
        LongPollMode::Held => {
            while honest(&state.lock().unwrap(), &seen).status == 304 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Some("wait=50")
        }
    };
    let mut state = state.lock().unwrap();
    let mut twist = state.twist.take();
    let twisted = twist.as_mut().and_then(|twist| twist(&seen));
    state.twist = twist;
    let Reply { status, headers, body } = twisted.unwrap_or_else(|| honest(&state, &seen));
    let mut response = Response::builder().status(status);
    if let Some(applied) = applied {
        response = response.header("preference-applied", applied);
    }
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(Bytes::from(body))).unwrap())
}

fn honest(state: &State, seen: &Seen) -> Reply {
    let Some(path) = seen.path.strip_prefix(&state.prefix) else { return reply(404, "") };
    // The device API knows no queries.
    if !seen.query.is_empty() {
        return reply(400, "");
    }
    match (seen.method.as_str(), path) {
        ("PUT", _) => reply(201, ""),
        ("GET", "/api/v1/deployments") => {
            let etag = margo::Digest::of(&state.manifest).etag();
            if seen.headers.get("if-none-match").is_some_and(|held| held.as_bytes() == etag.as_bytes()) {
                return reply(304, "");
            }
            Reply { status: 200, headers: vec![("etag", etag)], body: state.manifest.clone() }
        }
        ("GET", path) => match state.artifacts.get(path) {
            Some(bytes) => reply(200, bytes.clone()),
            None => reply(
                404,
                margo::problem::Problem::new(margo::problem::ProblemType::InvalidBundle, 404, "gone").to_json(),
            ),
        },
        ("POST", _) => reply(200, ""),
        _ => reply(405, ""),
    }
}
