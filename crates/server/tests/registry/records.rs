//! Every modification is recorded: it fails when it cannot be, and a disconnect cannot separate it from its record.

use crate::support::{Fixture, MANIFEST, image, wait_for};
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use futures_util::future::BoxFuture;
use margrave_server::registry::{
    Access, Action, Credentials, Digest, RegistryAuth, RegistryError, RepositoryName, Rollout, router,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, Semaphore};
use tower::ServiceExt as _;

/// Grants all access and stores the records, when the test allows it.
struct Recorder {
    able: AtomicBool,
    started: Notify,
    turns: Semaphore,
    records: Mutex<Vec<(&'static str, String)>>,
}

impl Recorder {
    fn new(turns: usize) -> Arc<Self> {
        let (able, started) = (AtomicBool::new(true), Notify::new());
        Arc::new(Self { able, started, turns: Semaphore::new(turns), records: Mutex::default() })
    }

    fn records(&self) -> Vec<(&'static str, String)> {
        self.records.lock().unwrap().clone()
    }
}

impl RegistryAuth for Recorder {
    fn authorize<'a>(
        &'a self,
        _: Option<&'a Credentials>,
        _: Action,
        _: Option<&'a RepositoryName>,
    ) -> BoxFuture<'a, Access> {
        Box::pin(std::future::ready(Access::Granted("operator".to_owned())))
    }

    fn record(&self, rollout: Rollout) -> BoxFuture<'_, Result<(), RegistryError>> {
        Box::pin(async move {
            self.started.notify_one();
            self.turns.acquire().await.unwrap().forget();
            if !self.able.load(Ordering::SeqCst) {
                return Err(RegistryError::Unrecorded);
            }
            self.records.lock().unwrap().push((rollout.action, rollout.reference));
            Ok(())
        })
    }
}

async fn send(fixture: &Fixture, recorder: &Arc<Recorder>, method: Method, path: &str) -> StatusCode {
    let app = router(fixture.registry.clone(), Arc::clone(recorder) as Arc<dyn RegistryAuth>);
    let body = if method == Method::PUT { image(b"{}", b"layer").to_string() } else { String::new() };
    let request = Request::builder().method(method).uri(path).header("content-type", MANIFEST);
    let response = app.oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        assert!(response.headers().contains_key("retry-after"));
    }
    response.status()
}

async fn with_blobs() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.push_blob("a", b"{}").await;
    fixture.push_blob("a", b"layer").await;
    fixture
}

#[tokio::test]
async fn asks_to_retry_a_modification_that_cannot_be_recorded() {
    let (fixture, recorder) = (with_blobs().await, Recorder::new(100));
    let layer = Digest::sha256(b"layer");
    let rollouts = [
        (Method::PUT, "/v2/a/manifests/1.0".to_owned(), StatusCode::CREATED),
        (Method::DELETE, "/v2/a/manifests/1.0".to_owned(), StatusCode::ACCEPTED),
        (
            Method::DELETE,
            format!("/v2/a/manifests/{}", Digest::sha256(image(b"{}", b"layer").to_string().as_bytes())),
            StatusCode::ACCEPTED,
        ),
        (Method::DELETE, format!("/v2/a/blobs/{layer}"), StatusCode::ACCEPTED),
    ];
    for (number, (method, path, done)) in rollouts.into_iter().enumerate() {
        recorder.able.store(false, Ordering::SeqCst);
        assert_eq!(send(&fixture, &recorder, method.clone(), &path).await, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert_eq!(recorder.records().len(), number);
        recorder.able.store(true, Ordering::SeqCst);
        assert_eq!(send(&fixture, &recorder, method, &path).await, done, "{path}");
        assert_eq!(recorder.records().len(), number + 1);
    }
    let missing = send(&fixture, &recorder, Method::DELETE, &format!("/v2/a/blobs/{layer}")).await;
    assert_eq!((missing, recorder.records().len()), (StatusCode::NOT_FOUND, 4), "nothing changed, nothing recorded");
}

#[tokio::test]
async fn records_modifications_of_disconnected_clients() {
    let (fixture, recorder) = (Arc::new(with_blobs().await), Recorder::new(0));
    for (number, method) in [Method::PUT, Method::DELETE].into_iter().enumerate() {
        let (held, recording) = (Arc::clone(&fixture), Arc::clone(&recorder));
        let request = tokio::spawn(async move { send(&held, &recording, method, "/v2/a/manifests/1.0").await });
        recorder.started.notified().await;
        request.abort();
        assert!(request.await.unwrap_err().is_cancelled());
        recorder.turns.add_permits(1);
        wait_for("the change is recorded", || recorder.records().len() == number + 1).await;
    }
    let actions: Vec<&str> = recorder.records().iter().map(|(action, _)| *action).collect();
    assert_eq!(actions, ["registry.push", "registry.delete"]);
    let (registry, name, tag) = (&fixture.registry, "a".parse().unwrap(), "1.0".parse().unwrap());
    wait_for("the tag is gone", || registry.stat_manifest(&name, &tag).is_err()).await;
}
