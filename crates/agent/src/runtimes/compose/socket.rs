//! The HTTP API of the engine over its Unix socket: containers, events, images, logs. Docker's, and the compatible API
//! of Podman. Credentials go in a header, so they are never on disk or in an argument.

use crate::artifacts::registries::Login;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper_util::rt::TokioIo;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// Requests take milliseconds; a busy engine on a small device takes longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit for lists of containers and logs.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Chunks of an image that are read ahead, and their size.
const PIECES_AT_ONCE: usize = 4;
const PIECE_BYTES: usize = 256 << 10;
/// A pull reports progress regularly; after this time without progress it has stalled.
const PULL_STALL_MAX: Duration = Duration::from_mins(5);

#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("the container engine does not answer at `{}`: {reason}", path.display())]
    Unreachable { path: PathBuf, reason: String },
    #[error("{message}")]
    Refused { status: u16, message: String },
    #[error("{0}")]
    Failed(String),
}

impl SocketError {
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }
}

#[derive(Debug, Clone)]
pub struct Socket {
    path: PathBuf,
}

impl Socket {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// As a URL for programs.
    pub fn address(&self) -> String {
        format!("unix://{}", self.path.display())
    }

    fn no_response(&self, reason: impl ToString) -> SocketError {
        SocketError::Unreachable { path: self.path.clone(), reason: reason.to_string() }
    }

    fn late(&self) -> SocketError {
        self.no_response(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()))
    }

    /// Sends one request without a body; returns the unread response body.
    async fn send(&self, method: Method, path: &str, login: Option<&Login>) -> Result<Incoming, SocketError> {
        self.send_with(method, path, login, Full::<Bytes>::default()).await
    }

    async fn send_with<B>(
        &self,
        method: Method,
        path: &str,
        login: Option<&Login>,
        content: B,
    ) -> Result<Incoming, SocketError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let stream = UnixStream::connect(&self.path).await.map_err(|error| self.no_response(error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.no_response(error))?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "engine");
        if let Some(login) = login {
            let auth = json!({ "username": login.username, "password": login.password.expose_secret() });
            request = request.header("x-registry-auth", URL_SAFE.encode(auth.to_string()));
        }
        let request = request.body(content).map_err(|error| self.no_response(error))?;
        let response = sender.send_request(request).await.map_err(|error| self.no_response(error))?;
        let status = response.status();
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            return Ok(response.into_body());
        }
        let bytes = self.read(response.into_body()).await?;
        let message = serde_json::from_slice::<Value>(&bytes).ok();
        let message = message.as_ref().and_then(|body| body["message"].as_str()).unwrap_or("no reason given");
        let message = format!("the container engine says: {message}");
        Err(SocketError::Refused { status: status.as_u16(), message })
    }

    async fn read(&self, mut body: Incoming) -> Result<Vec<u8>, SocketError> {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.no_response(error))?;
            if let Some(data) = frame.data_ref() {
                if bytes.len() + data.len() > ANSWER_BYTES_MAX {
                    return Err(SocketError::Failed("the response of the container engine is too large".to_owned()));
                }
                bytes.extend_from_slice(data);
            }
        }
        Ok(bytes)
    }

    async fn ask(&self, method: Method, path: &str) -> Result<Vec<u8>, SocketError> {
        let question = async { self.read(self.send(method, path, None).await?).await };
        tokio::time::timeout(REQUEST_TIMEOUT, question).await.unwrap_or_else(|_| Err(self.late()))
    }

    pub async fn get(&self, path: &str) -> Result<Value, SocketError> {
        let bytes = self.ask(Method::GET, path).await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| self.no_response(format!("its response cannot be read: {error}")))
    }

    pub async fn delete(&self, path: &str) -> Result<(), SocketError> {
        self.ask(Method::DELETE, path).await.map(|_| ())
    }

    pub async fn post(&self, path: &str) -> Result<(), SocketError> {
        self.ask(Method::POST, path).await.map(|_| ())
    }

    /// Bytes as they are, for logs.
    pub async fn bytes(&self, path: &str) -> Result<Vec<u8>, SocketError> {
        self.ask(Method::GET, path).await
    }

    /// Pulls an image; errors are in the stream, not in the status.
    pub async fn pull(&self, image: &str, login: Option<&Login>) -> Result<(), SocketError> {
        let path = format!("/images/create?fromImage={}", query(image));
        let mut stream = self.lines(Method::POST, &path, login).await?;
        loop {
            let line = tokio::time::timeout(PULL_STALL_MAX, stream.next()).await;
            let line = line.map_err(|_| SocketError::Failed(format!("the pull of `{image}` stalled")))?;
            let Some(line) = line? else { return Ok(()) };
            if let Some(reason) = line["error"].as_str() {
                return Err(SocketError::Failed(reason.to_owned()));
            }
        }
    }

    /// Streams an image archive into the engine.
    pub async fn load(
        &self,
        write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()> + Send + 'static,
    ) -> Result<(), SocketError> {
        let (pieces, arriving) = mpsc::channel::<std::io::Result<Bytes>>(PIECES_AT_ONCE);
        let writing = tokio::task::spawn_blocking(move || {
            let mut out = std::io::BufWriter::with_capacity(PIECE_BYTES, ChunkWriter(pieces.clone()));
            let written = write(&mut out).and_then(|()| std::io::Write::flush(&mut out));
            if let Err(error) = &written {
                // The engine must not load a partial archive.
                let _ = pieces.blocking_send(Err(std::io::Error::other(error.to_string())));
            }
            written
        });
        let stream = futures_util::stream::unfold(arriving, async |mut arriving| {
            let piece = arriving.recv().await?;
            Some((piece.map(Frame::data), arriving))
        });
        let stream = StreamBody::new(Box::pin(stream));
        let sent = self.send_with(Method::POST, "/images/load?quiet=1", None, stream).await;
        let loaded = match sent.map(|body| Lines { body, rest: Vec::new(), socket: self.clone() }) {
            Ok(mut lines) => loop {
                match tokio::time::timeout(PULL_STALL_MAX, lines.next()).await {
                    Err(_) => break Err(SocketError::Failed("the engine took too long to load an image".to_owned())),
                    Ok(Ok(None)) => break Ok(()),
                    Ok(Ok(Some(line))) if line["error"].is_string() => {
                        break Err(SocketError::Failed(line["error"].as_str().unwrap_or_default().to_owned()));
                    }
                    Ok(Ok(Some(_))) => {}
                    Ok(Err(error)) => break Err(error),
                }
            },
            Err(error) => Err(error),
        };
        match writing.await {
            Ok(Err(error)) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(SocketError::Failed(error.to_string()))
            }
            _ => loaded,
        }
    }

    /// Events of containers with a label, from now on.
    pub async fn events(&self, label: &str) -> Result<Lines, SocketError> {
        let filters = json!({ "type": ["container"], "label": [label] });
        let path = format!("/events?filters={}", query(&filters.to_string()));
        let started = tokio::time::timeout(REQUEST_TIMEOUT, self.lines(Method::GET, &path, None)).await;
        started.unwrap_or_else(|_| Err(self.late()))
    }

    async fn lines(&self, method: Method, path: &str, login: Option<&Login>) -> Result<Lines, SocketError> {
        let body = self.send(method, path, login).await?;
        Ok(Lines { body, rest: Vec::new(), socket: self.clone() })
    }
}

/// A writer that sends chunks from a thread.
struct ChunkWriter(mpsc::Sender<std::io::Result<Bytes>>);

impl std::io::Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes))).map_err(gone)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// JSON values, one per line.
#[derive(Debug)]
pub struct Lines {
    body: Incoming,
    rest: Vec<u8>,
    socket: Socket,
}

impl Lines {
    /// The next one; `None` at the end. May be dropped while waiting.
    pub async fn next(&mut self) -> Result<Option<Value>, SocketError> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                let value = serde_json::from_slice(&line);
                return value.map(Some).map_err(|error| self.socket.no_response(error));
            }
            if self.rest.len() > ANSWER_BYTES_MAX {
                return Err(SocketError::Failed("the response of the container engine is too large".to_owned()));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    let frame = frame.map_err(|error| self.socket.no_response(error))?;
                    self.rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                }
            }
        }
    }
}

/// Text as part of a query.
pub fn query(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Containers, networks or volumes with a label.
pub fn labeled(label: &str) -> String {
    query(&json!({ "label": [label] }).to_string())
}
