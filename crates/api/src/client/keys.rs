//! Idempotency keys for requests that change something, so that they can be repeated safely.

use super::{ClientError, Result};
use reqwest::header::{HeaderName, HeaderValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

pub(super) const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// The server accepts 255; the rest is for the number of the request.
pub(super) const GIVEN_CHARS_MAX: usize = 240;

/// Source of keys.
#[derive(Clone)]
pub(super) enum Keys {
    Drawn,
    Given { key: Arc<str>, used: Arc<AtomicU64> },
}

impl Keys {
    pub(super) fn new(given: Option<&str>) -> Result<Self> {
        let Some(key) = given else { return Ok(Self::Drawn) };
        let good = !key.is_empty() && key.len() <= GIVEN_CHARS_MAX && key.bytes().all(|byte| byte.is_ascii_graphic());
        if !good {
            return Err(ClientError::IdempotencyKey);
        }
        Ok(Self::Given { key: key.into(), used: Arc::default() })
    }

    /// The key of the next request.
    pub(super) fn next(&self) -> HeaderValue {
        let text = match self {
            Self::Drawn => Uuid::new_v4().to_string(),
            Self::Given { key, used } => match used.fetch_add(1, Ordering::Relaxed) + 1 {
                1 => key.to_string(),
                number => format!("{key}-{number}"),
            },
        };
        HeaderValue::from_str(&text).expect("a key is printable")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_requests_after_a_given_key() {
        let keys = Keys::new(Some("nightly")).unwrap();
        let made: Vec<HeaderValue> = (0..3).map(|_| keys.clone().next()).collect();
        assert_eq!(made, ["nightly", "nightly-2", "nightly-3"]);
    }

    #[test]
    fn drawn_keys_differ() {
        let keys = Keys::new(None).unwrap();
        assert_ne!(keys.next(), keys.next());
    }

    #[test]
    fn rejects_an_invalid_key() {
        for bad in ["", "with space", "\u{e4}", &"x".repeat(GIVEN_CHARS_MAX + 1)] {
            assert!(matches!(Keys::new(Some(bad)), Err(ClientError::IdempotencyKey)), "{bad}");
        }
    }
}
