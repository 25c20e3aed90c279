//! Request bodies, bounded.

use axum::body::Body;
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;

/// How much of a body that is too long is still read and discarded, so that its sender sees the response instead
/// of a broken connection. Beyond this the sender is not reading anyway.
const DISCARDED_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    TooLong,
    BrokenOff,
}

/// The whole body, if it has at most `bytes_max` bytes.
pub async fn read(request: Request, bytes_max: usize) -> Result<Bytes, BodyError> {
    let mut body = request.into_body();
    let mut stored = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::BrokenOff)?.into_data() else { continue };
        if stored.len() + data.len() > bytes_max {
            drop(stored);
            discard(body).await;
            return Err(BodyError::TooLong);
        }
        stored.extend_from_slice(&data);
    }
    Ok(stored.freeze())
}

async fn discard(mut body: Body) {
    let mut discarded = 0;
    while discarded < DISCARDED_BYTES_MAX {
        match body.frame().await {
            Some(Ok(frame)) => discarded += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BodyError, read};
    use axum::body::Body;
    use axum::extract::Request;
    use bytes::Bytes;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_body_of_exactly_the_bound_is_read() {
        let request = Request::new(Body::from(vec![7; 100]));
        assert_eq!(read(request, 100).await, Ok(Bytes::from(vec![7; 100])));
    }

    #[tokio::test]
    async fn drains_a_body_that_is_too_long_before_rejecting_it() {
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sent);
        let chunks = futures_util::stream::iter((0..50).map(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(Bytes::from_static(&[7; 1024]))
        }));
        let request = Request::new(Body::from_stream(chunks));
        assert_eq!(read(request, 2048).await, Err(BodyError::TooLong));
        assert_eq!(sent.load(Ordering::Relaxed), 50, "the sender must be able to finish and read the answer");
    }
}
