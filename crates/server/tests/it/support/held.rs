//! One open connection: what is sent and received on it, byte for byte, and when it is closed.

use super::client::{certificates, svid_builder};
use super::{PATIENCE, TestServer, client_id, pki};
use rcgen::KeyPair;
use rustls_pki_types::{PrivateKeyDer, ServerName};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

pub(crate) struct Held(TlsStream<TcpStream>);

impl Held {
    /// With a fresh SVID of this server.
    pub(crate) async fn open(server: &TestServer, client: &str) -> Self {
        let key = pki::key();
        let issued = server.state().identity.issue(&client_id(client), &pki::csr(&key), None).unwrap();
        Self::with(server, &issued.certificate_pem, &key).await
    }

    pub(crate) async fn with(server: &TestServer, certificate_pem: &str, key: &KeyPair) -> Self {
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = svid_builder(server).with_client_auth_cert(certificates(certificate_pem), key).unwrap();
        let stream = TcpStream::connect(server.devices()).await.unwrap();
        let name = ServerName::try_from("wfm").unwrap();
        Self(TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap())
    }

    /// Requests the manifest with only these header lines; returns the head of the response in lower case.
    pub(crate) async fn ask(&mut self, headers: &str) -> String {
        self.say(&format!("GET /api/v1/deployments HTTP/1.1\r\nhost: wfm\r\n{headers}\r\n")).await
    }

    /// Sends this, and returns the head of the response in lower case.
    pub(crate) async fn say(&mut self, request: &str) -> String {
        self.0.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(tokio::time::timeout(PATIENCE, self.0.read_u8()).await.unwrap().unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let bodiless = request.starts_with("HEAD ") || head.split(' ').nth(1) == Some("304");
        let length = length.filter(|_| !bodiless);
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        tokio::time::timeout(PATIENCE, self.0.read_exact(&mut body)).await.unwrap().unwrap();
        head
    }

    /// The status code of a poll on this connection.
    pub(crate) async fn poll(&mut self) -> String {
        self.ask("if-none-match: *\r\n").await.split(' ').nth(1).unwrap().to_owned()
    }

    pub(crate) async fn closed(mut self) {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(PATIENCE, self.0.read_to_end(&mut rest)).await.expect("closed in time");
        assert!(read.is_err() || rest.is_empty(), "closed without further data: {rest:?}");
    }
}
