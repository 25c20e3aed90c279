//! Idempotency: a repeated call returns the first result.
//!
//! A call may carry a key chosen by the caller. Its answer is built before its effect and stored under the key in the
//! same transaction, so there is never an effect without a stored answer, whenever the server stops. Stored answers
//! are sealed with secrets of the caller, its token and the key, because some contain secrets (docs/adr/0013).

use super::access::Caller;
use super::error::{AppError, AppResult, Code};
use crate::state::ServerState;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use margrave_api::access::Token;
use margrave_api::applications::Imported;
use margrave_api::clients::{Client, IssuedEnrollmentToken, IssuedSvid};
use margrave_api::copies::Copy;
use margrave_api::devices::Group;
use margrave_api::preload::Preload;
use margrave_api::registries::SavedRegistry;
use margrave_api::rollouts::Rollout;
use margrave_core::time::Timestamp;
use margrave_store::{KeyOwner, KeyWrite, Store};
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

/// The longest key accepted; a UUID has 36 characters.
pub const KEY_CHARS_MAX: usize = 255;
/// Separates keys derived here from any other use of a token.
const REQUEST_PURPOSE: &[u8] = b"margrave idempotency request v1\n";
const SEAL_PURPOSE: &[u8] = b"margrave idempotency seal v1\n";

/// The answer of a creating call.
pub trait Replayable: Serialize {
    fn status(&self) -> u16 {
        201
    }
    fn location(&self) -> Option<String> {
        None
    }
    /// For `ETag`.
    fn revision(&self) -> Option<i64> {
        None
    }
}

impl Replayable for Rollout {
    fn status(&self) -> u16 {
        202
    }
    fn location(&self) -> Option<String> {
        Some(format!("/api/rollouts/{}", self.id))
    }
}
impl Replayable for Copy {
    fn status(&self) -> u16 {
        202
    }
    fn location(&self) -> Option<String> {
        Some(format!("/api/registry/copies/{}", self.id))
    }
}
impl Replayable for Client {
    fn revision(&self) -> Option<i64> {
        Some(self.revision)
    }
}
impl Replayable for Group {
    fn status(&self) -> u16 {
        if self.revision == 1 { 201 } else { 200 }
    }
    fn revision(&self) -> Option<i64> {
        Some(self.revision)
    }
}
impl Replayable for SavedRegistry {
    fn status(&self) -> u16 {
        if self.revision == 1 { 201 } else { 200 }
    }
    fn revision(&self) -> Option<i64> {
        Some(self.revision)
    }
}
impl Replayable for Imported {
    fn status(&self) -> u16 {
        if self.added { 201 } else { 200 }
    }
}
impl Replayable for Token {}
impl Replayable for IssuedEnrollmentToken {}
impl Replayable for IssuedSvid {}
impl Replayable for Preload {}

/// An answer as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    pub head: Head,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

impl StoredAnswer {
    pub fn of(made: &impl Replayable) -> Self {
        let head = Head {
            status: made.status(),
            content_type: Some("application/json".to_owned()),
            location: made.location(),
            etag: made.revision().map(|revision| format!("\"{revision}\"")),
        };
        Self { head, body: serde_json::to_vec(made).expect("answers are plain data") }
    }
}

/// One request with a key.
pub struct Call {
    owner: KeyOwner,
    request_hash: String,
    seal: [u8; 32],
}

/// Without the secret that seals its answer.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl Call {
    /// `parts` is everything that identifies the request.
    pub fn new(token: Uuid, secret: &str, key: &str, parts: &[&[u8]]) -> Self {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let mut request = hmac::Context::with_key(&secret);
        request.update(REQUEST_PURPOSE);
        for part in parts {
            // With its length, so that bytes cannot move from one part into the next.
            request.update(&(part.len() as u64).to_be_bytes());
            request.update(part);
        }
        let mut seal = hmac::Context::with_key(&secret);
        seal.update(SEAL_PURPOSE);
        seal.update(key.as_bytes());
        Self {
            owner: KeyOwner { token, key_hash: crate::secrets::hash(key) },
            request_hash: URL_SAFE_NO_PAD.encode(request.sign()),
            seal: seal.sign().as_ref().try_into().expect("HMAC-SHA256 has 32 bytes"),
        }
    }

    pub fn owner(&self) -> &KeyOwner {
        &self.owner
    }

    /// For effects that are stored outside the store.
    pub fn fingerprint(&self) -> String {
        format!("{}/{}/{}", self.owner.token, self.owner.key_hash, self.request_hash)
    }

    /// Whether the stored answer belongs to this request.
    pub fn is_for(&self, request_hash: &str) -> bool {
        self.request_hash == request_hash
    }

    pub fn write(&self, stored: Option<&StoredAnswer>, at: Timestamp, expired_before: Timestamp) -> KeyWrite {
        let answer = stored.map(|stored| self.seal(stored)).unwrap_or_default();
        KeyWrite { owner: self.owner.clone(), request_hash: self.request_hash.clone(), answer, at, expired_before }
    }

    /// Nonce, then the sealed head and body.
    fn seal(&self, stored: &StoredAnswer) -> Vec<u8> {
        let mut text = serde_json::to_vec(&stored.head).expect("a head is plain data");
        text.push(b'\n');
        text.extend_from_slice(&stored.body);
        let key = RandomizedNonceKey::new(&AES_256_GCM, &self.seal).expect("the key has the right length");
        let nonce = key.seal_in_place_append_tag(self.aad(), &mut text).expect("answers are short");
        [nonce.as_ref().as_slice(), &text].concat()
    }

    /// `None` when it was not stored, or by another version of the server.
    pub fn open(&self, sealed: &[u8]) -> Option<StoredAnswer> {
        let (nonce, text) = sealed.split_at_checked(NONCE_LEN)?;
        let key = RandomizedNonceKey::new(&AES_256_GCM, &self.seal).ok()?;
        let mut text = text.to_vec();
        let text = key.open_in_place(Nonce::try_assume_unique_for_key(nonce).ok()?, self.aad(), &mut text).ok()?;
        let end = text.iter().position(|byte| *byte == b'\n')?;
        Some(StoredAnswer { head: serde_json::from_slice(&text[..end]).ok()?, body: text[end + 1..].to_vec() })
    }

    /// An answer belongs to its request.
    fn aad(&self) -> Aad<&[u8]> {
        Aad::from(self.request_hash.as_bytes())
    }
}

impl Caller {
    /// The store for one effect, which also stores the result as the answer for the caller's key.
    pub fn store(&self, state: &ServerState, made: &impl Replayable) -> Store {
        match &self.call {
            Some(call) => {
                state.store.with_key(call.write(Some(&StoredAnswer::of(made)), state.now(), expired_before(state)))
            }
            None => state.store.clone(),
        }
    }
}

impl Caller {
    /// The same caller, for a second effect of the call: the key covers the first.
    #[must_use]
    pub fn again(&self) -> Self {
        Self { call: None, ..self.clone() }
    }
}

/// The stored result of the same call, if any.
pub async fn stored<T: serde::de::DeserializeOwned>(state: &ServerState, call: &Call) -> AppResult<Option<T>> {
    let Some(entry) = state.store.key_find(call.owner(), expired_before(state)).await? else { return Ok(None) };
    let stored = call.is_for(&entry.request_hash).then(|| call.open(&entry.answer)).flatten();
    match stored.and_then(|stored| serde_json::from_slice(&stored.body).ok()) {
        Some(made) => Ok(Some(made)),
        None => Err(AppError::refused(Code::Done, "this request was already processed; read the current state")),
    }
}

/// Keys stored before this time are deleted.
pub fn expired_before(state: &ServerState) -> Timestamp {
    state.now().minus(state.config.retention.idempotency_keys.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(secret: &str, key: &str, body: &[u8]) -> Call {
        Call::new(Uuid::nil(), secret, key, &[b"POST", b"/api/tokens", body])
    }

    fn stored() -> StoredAnswer {
        let head = Head { status: 201, location: Some("/api/rollouts/1".to_owned()), ..Head::default() };
        StoredAnswer { head, body: b"{\"secret\":\"mgv_abc\"}\n".to_vec() }
    }

    #[test]
    fn unseals_an_answer_for_the_same_call_only() {
        let one = call("token", "key", b"body");
        let sealed = one.seal(&stored());
        assert!(!sealed.windows(7).any(|part| part == b"mgv_abc"));
        assert_eq!(call("token", "key", b"body").open(&sealed), Some(stored()));
        for other in [call("tokem", "key", b"body"), call("token", "kex", b"body"), call("token", "key", b"b0dy")] {
            assert_eq!(other.open(&sealed), None);
        }
        assert_eq!(one.open(b""), None);
    }

    #[test]
    fn separates_the_parts_of_a_request() {
        let joined = |parts: &[&[u8]]| Call::new(Uuid::nil(), "token", "key", parts).request_hash;
        assert_ne!(joined(&[b"ab", b"c"]), joined(&[b"a", b"bc"]));
        assert_eq!(joined(&[b"a", b"b"]), joined(&[b"a", b"b"]));
    }

    #[test]
    fn hides_secrets_in_debug_output() {
        assert!(!format!("{:?}", call("token", "key", b"")).contains("seal"));
    }
}
