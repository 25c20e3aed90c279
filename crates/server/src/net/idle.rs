//! Idle connections: the HTTP buffers are released between two requests.
//!
//! A device polls once a minute and keeps its connection. Ten thousand of them would hold buffers used for a
//! millisecond.

use super::lifetime::Lifetime;
use axum::body::Bytes;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Checks whether there is data to read, without a buffer.
pub(super) trait Readable {
    /// Only for a stream whose last read found nothing.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()>;
}

impl Readable for TcpStream {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        // An error counts as data: the next read returns it.
        self.poll_read_ready(context).map(|_| ())
    }
}

impl<S: Readable> Readable for Box<S> {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        S::poll_readable(self, context)
    }
}

impl Readable for TlsStream<TcpStream> {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.get_ref().0.poll_readable(context)
    }
}

/// A stream that records whether all written data is flushed.
#[derive(Debug)]
pub(super) struct FlushTracker<S> {
    stream: S,
    lifetime: Arc<Lifetime>,
    /// Already read by the previous owner of the stream.
    ahead: Bytes,
}

impl<S: AsyncRead + AsyncWrite + Unpin> FlushTracker<S> {
    pub(super) fn new(stream: S, lifetime: Arc<Lifetime>) -> Self {
        Self { stream, lifetime, ahead: Bytes::new() }
    }

    /// Returns data that was read too early.
    pub(super) fn unread(&mut self, bytes: Bytes) {
        self.ahead = bytes;
    }
}

impl<S: Readable> FlushTracker<S> {
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.ahead.is_empty() { self.stream.poll_readable(context) } else { Poll::Ready(()) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FlushTracker<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let fitting = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(&self.ahead.split_to(fitting));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FlushTracker<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.lifetime.wrote(true);
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.lifetime.wrote(true);
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.lifetime.wrote(false);
        }
        flushed
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
