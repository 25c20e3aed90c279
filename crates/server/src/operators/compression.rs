//! Compresses pages, built-in files and API answers with gzip for callers that accept it (ADR 50).
//!
//! Only complete bodies of text formats are compressed: an event stream has no length, and packages and registry content
//! have other media types. An answer with an `ETag` stays as it is, because the tag identifies those bytes.

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, header};
use std::io::Write as _;

/// Smaller bodies fit into one packet anyway.
const BYTES_MIN: u64 = 1024;
/// Larger bodies are not held in memory twice.
const BYTES_MAX: u64 = 16 << 20;
/// Larger bodies are compressed on a blocking thread, so that other tasks are not delayed.
const AT_ONCE_MAX: usize = 64 << 10;

/// Formats of text. Everything else is compressed already or is identified by its digest.
const MEDIA_TYPES: [&str; 9] = [
    "text/html",
    "text/css",
    "text/javascript",
    "text/plain",
    "image/svg+xml",
    "application/json",
    "application/problem+json",
    "application/manifest+json",
    "application/yaml",
];

pub(super) async fn compress(request: Request, next: Next) -> Response {
    let accepted = accepts_gzip(request.headers());
    let mut response = next.run(request).await;
    if !compressible(&response) {
        return response;
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if !accepted {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, BYTES_MAX as usize).await else {
        // The length was known, so the body is in memory and complete.
        return Response::from_parts(head, Body::empty());
    };
    let packed = if bytes.len() <= AT_ONCE_MAX {
        gzip(&bytes)
    } else {
        let copy = bytes.clone();
        tokio::task::spawn_blocking(move || gzip(&copy)).await.ok().flatten()
    };
    match packed.filter(|packed| packed.len() < bytes.len()) {
        Some(packed) => {
            head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            head.headers.remove(header::CONTENT_LENGTH);
            head.headers.remove(header::ACCEPT_RANGES);
            Response::from_parts(head, Body::from(packed))
        }
        None => Response::from_parts(head, Body::from(bytes)),
    }
}

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::new(4));
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

fn compressible(response: &Response) -> bool {
    let headers = response.headers();
    let known = |value: &HeaderValue| {
        let media_type = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        MEDIA_TYPES.contains(&media_type)
    };
    let sized = response.body().size_hint().exact().is_some_and(|bytes| (BYTES_MIN..=BYTES_MAX).contains(&bytes));
    sized
        && headers.get(header::CONTENT_TYPE).is_some_and(known)
        && [header::CONTENT_ENCODING, header::CONTENT_RANGE, header::ETAG]
            .iter()
            .all(|name| !headers.contains_key(name))
}

/// Whether `gzip` (or everything) is acceptable; a quality of zero refuses it.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let mut any = None;
    for item in headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()) {
        for coding in item.split(',') {
            let mut parts = coding.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let refused = parts.any(|part| {
                part.strip_prefix("q=")
                    .is_some_and(|quality| quality.parse::<f32>().is_ok_and(|quality| quality <= 0.0))
            });
            if name.eq_ignore_ascii_case("gzip") {
                return !refused;
            }
            if name == "*" {
                any = Some(!refused);
            }
        }
    }
    any.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_which_encodings_a_caller_accepts() {
        for (value, expected) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("*", true),
            ("identity, gzip;q=0", false),
            ("*;q=0", false),
            ("gzip;q=0.0, *", false),
            ("br", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
