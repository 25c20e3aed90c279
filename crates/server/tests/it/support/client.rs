//! Clients over real TLS: devices with an SVID, and ordinary HTTPS.

use super::TestServer;
use margrave_core::time::Clock;
use rcgen::KeyPair;
use reqwest::{Client, RequestBuilder, Response};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use std::sync::Arc;
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// A WFM client.
#[derive(Clone)]
pub(crate) struct Device {
    http: Client,
    base: String,
}

impl Device {
    pub(crate) fn new(server: &TestServer, certificate_pem: &str, key: &KeyPair) -> Self {
        let chain = certificates(certificate_pem);
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let config = svid_builder(server).with_client_auth_cert(chain, key).unwrap();
        Self::with(server, config)
    }

    /// A client without a certificate.
    pub(crate) fn anonymous(server: &TestServer) -> Self {
        Self::with(server, svid_builder(server).with_no_client_auth())
    }

    pub(crate) fn with(server: &TestServer, config: ClientConfig) -> Self {
        let prefix = &server.state().config.listeners.devices.path_prefix;
        Self { http: http(config), base: format!("https://{}{prefix}", server.devices()) }
    }

    /// The same identity, connecting to another base URL.
    pub(crate) fn at(&self, base: &str) -> Self {
        Self { http: self.http.clone(), base: base.to_owned() }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> RequestBuilder {
        self.http.request(method.parse().unwrap(), format!("{}{path}", self.base))
    }
    pub(crate) async fn get(&self, path: &str) -> Response {
        self.request("GET", path).send().await.unwrap()
    }
    pub(crate) async fn put(&self, path: &str, body: impl Into<reqwest::Body>) -> Response {
        self.request("PUT", path).header("content-type", "application/json").body(body).send().await.unwrap()
    }
    pub(crate) async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Response {
        self.request("POST", path).header("content-type", "application/json").body(body).send().await.unwrap()
    }
    pub(crate) async fn delete(&self, path: &str) -> Response {
        self.request("DELETE", path).send().await.unwrap()
    }
    /// Fails if the connection cannot be established.
    pub(crate) async fn try_get(&self, path: &str) -> reqwest::Result<Response> {
        self.request("GET", path).send().await
    }
}

/// HTTPS to the trust listener, trusting the server's own HTTPS authority.
pub(crate) fn https(server: &TestServer) -> Client {
    let mut roots = RootCertStore::empty();
    for der in certificates(&server.state().identity.https_ca_pem()) {
        roots.add(der).unwrap();
    }
    let config = ClientConfig::builder_with_details(provider(), Arc::new(Time(server.clock.clone())))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    http(config)
}

/// Plain HTTP, for the operator listener on loopback.
pub(crate) fn plain() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

fn http(config: ClientConfig) -> Client {
    Client::builder()
        .tls_backend_preconfigured(config)
        .no_proxy()
        .timeout(Duration::from_secs(20))
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap()
}

pub(crate) fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().unwrap()
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

pub(crate) fn svid_builder(
    server: &TestServer,
) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let verifier = WfmVerifier {
        anchors: certificates(&server.state().identity.bundle_pem()),
        spiffe_id: server.state().identity.wfm().to_string(),
        algorithms: provider().signature_verification_algorithms,
    };
    ClientConfig::builder_with_details(provider(), Arc::new(Time(server.clock.clone())))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
}

#[derive(Debug)]
struct Time(Arc<super::TestClock>);

impl TimeProvider for Time {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_micros(self.0.now().0.unsigned_abs())))
    }
}

/// Verifies the server as WID-04 requires: chain to the bundle, the WFM's SPIFFE ID; host names do not matter.
#[derive(Debug)]
struct WfmVerifier {
    anchors: Vec<CertificateDer<'static>>,
    spiffe_id: String,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for WfmVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let refused = |error: String| Error::General(error);
        let anchors: Vec<_> = self.anchors.iter().map(|der| anchor_from_trusted_cert(der).unwrap()).collect();
        let leaf = EndEntityCert::try_from(end_entity).map_err(|error| refused(error.to_string()))?;
        leaf.verify_for_usage(self.algorithms.all, &anchors, intermediates, now, KeyUsage::server_auth(), None, None)
            .map_err(|error| refused(error.to_string()))?;
        let uris: Vec<_> = leaf.valid_uri_names().collect();
        if uris == [self.spiffe_id.as_str()] {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(refused(format!("this is {uris:?}, not {}", self.spiffe_id)))
        }
    }
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2".to_owned()))
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Checks the requirements for every problem response (PRB-01 to PRB-03, RTY-01, W-30); returns the document.
#[track_caller]
pub(crate) fn problem_of(status: u16, fragment: Option<&str>, response: &Response, body: &[u8]) -> serde_json::Value {
    let document: serde_json::Value =
        serde_json::from_slice(body).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(body)));
    assert_eq!(response.status().as_u16(), status, "{document}");
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let base = "https://docs.margo.org/specification/problem-types";
    let expected = fragment.map_or_else(|| "about:blank".to_owned(), |fragment| format!("{base}#{fragment}"));
    assert_eq!(document["type"], expected, "{document}");
    assert_eq!(document["status"], status);
    assert!(document["title"].as_str().is_some_and(|title| !title.is_empty()));
    let retryable = matches!(status, 429 | 500 | 503);
    assert_eq!(document["retryable"], retryable);
    assert_eq!(document["backoffStrategy"], if retryable { "exponential" } else { "none" });
    assert_eq!(response.headers().contains_key("retry-after"), retryable);
    assert!(response.headers().contains_key("x-request-id"));
    document
}

/// Checks a rejected request and returns its document.
pub(crate) async fn refused(response: Response, status: u16, fragment: Option<&str>) -> serde_json::Value {
    let mut response = response;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.unwrap() {
        body.extend_from_slice(&chunk);
    }
    problem_of(status, fragment, &response, &body)
}
