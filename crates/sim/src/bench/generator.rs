//! The load generator: keep-alive connections over mutual TLS with minimal own cost.

use anyhow::Context as _;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::{DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Timeout, so that a hanging server ends the measurement.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);

/// Largest accepted response.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Key exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// Supported by every server.
    X25519,
    /// X25519 with ML-KEM-768, which resists quantum computers.
    Hybrid,
}

/// TLS configuration of one client: no resumption, and no verification of the server certificate, because the cost of
/// the generator is not measured.
pub fn config(identity: &Path, exchange: Exchange) -> anyhow::Result<Arc<ClientConfig>> {
    let chain = CertificateDer::pem_file_iter(identity.join("cert.pem"))?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(identity.join("key.pem"))?;
    let kx_groups = match exchange {
        Exchange::X25519 => vec![kx_group::X25519],
        Exchange::Hybrid => vec![kx_group::X25519MLKEM768],
    };
    let provider = Arc::new(CryptoProvider { kx_groups, ..default_provider() });
    let verifier = Arc::new(NoVerification(Arc::clone(&provider)));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(chain, key)?;
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct NoVerification(Arc<CryptoProvider>);

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The relevant parts of a response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub etag: Option<String>,
    pub body: Vec<u8>,
}

/// One keep-alive connection.
pub struct Line {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

impl Line {
    pub async fn open(address: SocketAddr, config: &Arc<ClientConfig>) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(address).await.context("connect")?;
        socket.set_nodelay(true)?;
        let name = ServerName::IpAddress(address.ip().into());
        let connecting = TlsConnector::from(Arc::clone(config)).connect(name, socket);
        let stream = tokio::time::timeout(ANSWER_WITHIN, connecting).await.context("the handshake timed out")?;
        Ok(Self { stream: stream.context("handshake")?, buffer: Vec::new() })
    }

    /// Sends a request and reads the whole response.
    pub async fn ask(&mut self, request: &[u8]) -> anyhow::Result<Answer> {
        self.send(request).await?;
        tokio::time::timeout(ANSWER_WITHIN, self.answer()).await.context("the response timed out")?
    }

    pub async fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(request).await?;
        Ok(self.stream.flush().await?)
    }

    /// Reads the next response.
    pub async fn answer(&mut self) -> anyhow::Result<Answer> {
        let end = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
            self.more().await?;
        };
        let head = Head::read(&self.buffer[..end])?;
        let whole = end + head.length;
        anyhow::ensure!(whole <= ANSWER_BYTES_MAX, "a response of {whole} bytes");
        while self.buffer.len() < whole {
            self.more().await?;
        }
        let body = self.buffer[end..whole].to_vec();
        self.buffer.drain(..whole);
        Ok(Answer { status: head.status, etag: head.etag, body })
    }

    async fn more(&mut self) -> anyhow::Result<()> {
        anyhow::ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server closed the connection");
        Ok(())
    }

    /// An unchanged poll; anything but 304 is an error. Checks only the status.
    async fn unchanged(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.send(request).await?;
        self.buffer.clear();
        while !self.buffer.ends_with(b"\r\n\r\n") {
            self.more().await?;
        }
        anyhow::ensure!(self.buffer.starts_with(b"HTTP/1.1 304"), "a poll did not return 304");
        self.buffer.clear();
        Ok(())
    }

    /// Closes the connection properly, as a client does.
    pub async fn close(mut self) {
        let _ = self.stream.shutdown().await;
    }
}

fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    text.windows(pattern.len()).position(|window| window == pattern)
}

struct Head {
    status: u16,
    etag: Option<String>,
    length: usize,
}

impl Head {
    fn read(bytes: &[u8]) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(bytes).context("the response is not HTTP")?;
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
        let header = |name: &str| {
            text.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            })
        };
        anyhow::ensure!(header("transfer-encoding").is_none(), "this generator does not support chunked responses");
        let length = header("content-length").map(|length| length.parse()).transpose()?.unwrap_or(0);
        Ok(Self { status, etag: header("etag"), length: if status == 304 { 0 } else { length } })
    }
}

/// A poll request; with the current `etag` the response is 304.
pub fn poll_request(etag: Option<&str>) -> Vec<u8> {
    let condition = etag.map(|etag| format!("If-None-Match: {etag}\r\n")).unwrap_or_default();
    format!(
        "GET /api/v1/deployments HTTP/1.1\r\nHost: localhost\r\nAccept: {}\r\n{condition}\r\n",
        margo::manifest::MANIFEST_MEDIA_TYPE
    )
    .into_bytes()
}

/// Opens a connection per configuration and prepares the request for an unchanged poll.
pub async fn open(address: SocketAddr, configs: &[Arc<ClientConfig>]) -> anyhow::Result<Vec<(Line, Vec<u8>)>> {
    let mut lines = Vec::new();
    for config in configs {
        let mut line = Line::open(address, config).await?;
        let first = line.ask(&poll_request(None)).await?;
        // The bare handler always returns 304.
        anyhow::ensure!(matches!(first.status, 200 | 304), "the first poll returned {}", first.status);
        let request = poll_request(Some(&first.etag.context("a response without ETag")?));
        line.unchanged(&request).await?;
        lines.push((line, request));
    }
    Ok(lines)
}

/// Polls on every connection as fast as possible; returns the number of responses.
pub async fn polls(lines: Vec<(Line, Vec<u8>)>, time: Duration) -> anyhow::Result<(Vec<(Line, Vec<u8>)>, u64)> {
    let end = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for (mut line, request) in lines {
        tasks.spawn(async move {
            let mut answered = 0_u64;
            while Instant::now() < end {
                line.unchanged(&request).await?;
                answered += 1;
            }
            anyhow::Ok(((line, request), answered))
        });
    }
    let mut total = 0;
    let mut lines = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        let (line, answered) = ended??;
        lines.push(line);
        total += answered;
    }
    Ok((lines, total))
}

/// Repeatedly connects, polls once and disconnects, with `at_once` connections at a time.
pub async fn handshakes(
    address: SocketAddr,
    configs: &[Arc<ClientConfig>],
    request: &[u8],
    time: Duration,
) -> anyhow::Result<u64> {
    let end = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for config in configs {
        let (config, request) = (Arc::clone(config), request.to_vec());
        tasks.spawn(async move {
            let mut answered = 0_u64;
            while Instant::now() < end {
                let mut line = Line::open(address, &config).await?;
                line.unchanged(&request).await?;
                line.close().await;
                answered += 1;
            }
            anyhow::Ok(answered)
        });
    }
    let mut total = 0;
    while let Some(ended) = tasks.join_next().await {
        total += ended??;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::{Head, find, poll_request};

    #[test]
    fn parses_the_head_of_a_response() {
        let head = Head::read(b"HTTP/1.1 200 OK\r\nETag: \"a\"\r\ncontent-length: 12\r\n\r\n").expect("a head");
        assert_eq!((head.status, head.etag.as_deref(), head.length), (200, Some("\"a\""), 12));
        let head = Head::read(b"HTTP/1.1 304 Not Modified\r\ncontent-length: 12\r\n\r\n").expect("a head");
        assert_eq!((head.status, head.length), (304, 0));
        assert!(Head::read(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert_eq!(find(b"ab\r\n\r\n", b"\r\n\r\n"), Some(2));
    }

    #[test]
    fn a_poll_carries_the_etag_it_was_given() {
        let text = String::from_utf8(poll_request(Some("\"x\""))).expect("text");
        assert!(text.contains("If-None-Match: \"x\"\r\n") && text.ends_with("\r\n\r\n"), "{text}");
        assert!(!String::from_utf8(poll_request(None)).expect("text").contains("If-None-Match"));
    }
}
