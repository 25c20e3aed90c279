//! `Idempotency-Key`: a repeat gets the answer of the first call, or waits while that is in progress.

use super::auth::bearer;
use super::extract::read_body;
use super::problems::{Answer, ApiError};
use crate::app::access::Caller;
use crate::app::error::{AppError, Code};
use crate::app::idempotency::{Call, Head, KEY_CHARS_MAX, Replayable, StoredAnswer, expired_before};
use crate::catalog::UPLOAD_BYTES_MAX;
use crate::state::ServerState;
use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use margrave_store::{KeyOwner, StoreError};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use utoipa::openapi::OpenApi;

pub(super) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAY: HeaderName = HeaderName::from_static("idempotent-replay");
/// The longest answer stored; answers of creating calls have a few hundred bytes. A longer one is not repeated.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Keys in use in this process. Between processes the database decides.
#[derive(Clone, Default)]
pub(super) struct KeyLocks(Arc<Mutex<HashMap<KeyOwner, Arc<tokio::sync::Mutex<()>>>>>);

/// The lock of one key; other calls with the key wait.
struct KeyLock {
    locks: KeyLocks,
    owner: KeyOwner,
    guard: Option<OwnedMutexGuard<()>>,
}

impl KeyLocks {
    async fn take(&self, owner: &KeyOwner) -> KeyLock {
        // Before the wait: a cancelled wait cleans up as well.
        let mut key_lock = KeyLock { locks: self.clone(), owner: owner.clone(), guard: None };
        let lock = Arc::clone(self.0.lock().entry(owner.clone()).or_default());
        key_lock.guard = Some(lock.lock_owned().await);
        key_lock
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        self.guard.take();
        let mut locks = self.locks.0.lock();
        // Each waiting call holds a clone.
        if locks.get(&self.owner).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.owner);
        }
    }
}

/// The operations of the API, by path and method.
#[derive(Clone)]
pub(super) struct Operations(Arc<HashSet<(String, Method)>>);

impl Operations {
    pub(super) fn of(document: &OpenApi) -> Self {
        let declared = document.paths.paths.iter().flat_map(|(path, item)| {
            let methods = [
                (&item.post, Method::POST),
                (&item.put, Method::PUT),
                (&item.patch, Method::PATCH),
                (&item.delete, Method::DELETE),
            ];
            methods.into_iter().filter(|(operation, _)| operation.is_some()).map(|(_, method)| (path.clone(), method))
        });
        Self(Arc::new(declared.collect()))
    }

    fn declares(&self, request: &Request) -> bool {
        let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
        path.is_some_and(|path| self.0.contains(&(path, request.method().clone())))
    }
}

/// Answers a repeat, or stores the answer for repeats.
pub(super) async fn once(
    State((state, locks, operations)): State<(ServerState, KeyLocks, Operations)>,
    request: Request,
    next: Next,
) -> Answer<Response> {
    // A method that the address does not have is refused as such, whatever its key.
    if !operations.declares(&request) {
        return Ok(next.run(request).await);
    }
    let Some(key) = request.headers().get(KEY).map(read_key).transpose()? else { return Ok(next.run(request).await) };
    if matches!(*request.method(), Method::GET | Method::HEAD) || is_dry_run(&request) {
        return Ok(next.run(request).await);
    }
    let (request, call) = read_call(request, &key).await?;
    let _turn = locks.take(call.owner()).await;
    if let Some(answer) = repeat(&state, &call).await? {
        return Ok(answer);
    }
    let response = next.run(request).await;
    if response.status().is_success() {
        return keep(&state, &call, response).await;
    }
    // Another server may have been faster, so this call failed because of its effect.
    Ok(repeat(&state, &call).await?.unwrap_or(response))
}

fn read_key(value: &HeaderValue) -> Answer<String> {
    let text = value.to_str().unwrap_or_default().trim();
    let good = !text.is_empty() && text.len() <= KEY_CHARS_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    if good {
        return Ok(text.to_owned());
    }
    let detail =
        format!("`Idempotency-Key` takes 1 to {KEY_CHARS_MAX} printable characters without spaces, such as a UUID");
    Err(ApiError(AppError::refused(Code::Malformed, detail)))
}

/// A dry run has no effect that could happen twice.
fn is_dry_run(request: &Request) -> bool {
    let query = request.uri().query().unwrap_or_default();
    url::form_urlencoded::parse(query.as_bytes()).any(|(name, value)| name == "dryRun" && value == "true")
}

/// Reads the body, which is part of the identity of a request, and puts it back.
async fn read_call(mut request: Request, key: &str) -> Answer<(Request, Arc<Call>)> {
    let body = std::mem::replace(request.body_mut(), Body::empty());
    let body = read_body(Request::new(body), UPLOAD_BYTES_MAX).await?;
    let head = |name: HeaderName| request.headers().get(name).map_or(&b""[..], HeaderValue::as_bytes);
    let place = request.uri().path_and_query().map_or("", http::uri::PathAndQuery::as_str);
    let parts = [
        request.method().as_str().as_bytes(),
        place.as_bytes(),
        head(header::IF_MATCH),
        head(header::CONTENT_TYPE),
        &body,
    ];
    let caller = request.extensions().get::<Caller>().zip(bearer(&request));
    let unknown = || ApiError(AppError::refused(Code::Unauthenticated, "send an API token"));
    let (caller, secret) = caller.ok_or_else(unknown)?;
    let call = Arc::new(Call::new(caller.id, secret, key, &parts));
    if let Some(caller) = request.extensions_mut().get_mut::<Caller>() {
        caller.call = Some(Arc::clone(&call));
    }
    *request.body_mut() = Body::from(body);
    Ok((request, call))
}

/// The stored answer for the key, if any.
async fn repeat(state: &ServerState, call: &Call) -> Answer<Option<Response>> {
    let Some(entry) = state.store.key_find(call.owner(), expired_before(state)).await? else { return Ok(None) };
    if !call.is_for(&entry.request_hash) {
        let detail = "this `Idempotency-Key` was used for another request; use a new key for each request";
        return Err(ApiError(AppError::refused(Code::KeyReused, detail)));
    }
    match call.open(&entry.answer) {
        Some(stored) => {
            let mut response = respond(stored);
            response.headers_mut().insert(REPLAY, HeaderValue::from_static("true"));
            Ok(Some(response))
        }
        None => {
            let detail = "the first call with this `Idempotency-Key` was executed, but its answer was not stored; \
                          read the current state, and use a new key for a new request";
            Err(ApiError(AppError::refused(Code::Done, detail)))
        }
    }
}

fn respond(stored: StoredAnswer) -> Response {
    let Head { status, content_type, location, etag } = stored.head;
    let mut response = Response::new(Body::from(stored.body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    for (name, value) in [(header::CONTENT_TYPE, content_type), (header::LOCATION, location), (header::ETAG, etag)] {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
            headers.insert(name, value);
        }
    }
    response
}

/// Stores an answer that the effect's own transaction did not: for effects that are harmless to repeat.
async fn keep(state: &ServerState, call: &Call, response: Response) -> Answer<Response> {
    if state.store.key_find(call.owner(), expired_before(state)).await?.is_some() {
        return Ok(response);
    }
    let short = response.body().size_hint().upper().is_some_and(|bytes| bytes <= ANSWER_BYTES_MAX);
    let (response, stored) = if short { copy(response).await } else { (response, None) };
    match state.store.key_put(call.write(stored.as_ref(), state.now(), expired_before(state))).await {
        Ok(()) | Err(StoreError::Repeated) => {}
        // The effect has happened; an error would claim otherwise.
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot store the answer for an idempotency key");
        }
    }
    Ok(response)
}

async fn copy(response: Response) -> (Response, Option<StoredAnswer>) {
    let (head, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let text = |headers: &HeaderMap, name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let stored = StoredAnswer {
        head: Head {
            status: head.status.as_u16(),
            content_type: text(&head.headers, header::CONTENT_TYPE),
            location: text(&head.headers, header::LOCATION),
            etag: text(&head.headers, header::ETAG),
        },
        body: body.to_vec(),
    };
    (Response::from_parts(head, Body::from(body)), Some(stored))
}

/// The first answer, in the same form as its repeats.
pub(super) struct Created<T>(pub(super) T);

impl<T: Replayable> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        respond(StoredAnswer::of(&self.0))
    }
}
