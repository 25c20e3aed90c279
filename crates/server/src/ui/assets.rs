//! Built-in scripts, styles and images. Their path contains a hash of all of them, so browsers can cache them forever.

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderValue, StatusCode, header};
use margo::digest::Digest;
use std::sync::LazyLock;

/// Name, media type and content.
const FILES: [(&str, &str, &str); 10] = [
    ("app.css", "text/css; charset=utf-8", include_str!("static/app.css")),
    ("live.js", "text/javascript; charset=utf-8", include_str!("static/live.js")),
    ("add.js", "text/javascript; charset=utf-8", include_str!("static/add.js")),
    ("choose.js", "text/javascript; charset=utf-8", include_str!("static/choose.js")),
    ("session.js", "text/javascript; charset=utf-8", include_str!("static/session.js")),
    ("times.js", "text/javascript; charset=utf-8", include_str!("static/times.js")),
    ("later.js", "text/javascript; charset=utf-8", include_str!("static/later.js")),
    ("idiomorph.js", "text/javascript; charset=utf-8", include_str!("static/idiomorph.js")),
    ("margrave.svg", "image/svg+xml", include_str!("static/margrave.svg")),
    ("manifest.webmanifest", "application/manifest+json", include_str!("static/manifest.webmanifest")),
];
/// Enough of the hash to distinguish any two builds.
const HASH_CHARS: usize = 16;

static BASE: LazyLock<String> = LazyLock::new(|| {
    let mut all = Vec::new();
    for (name, _, content) in FILES {
        all.extend_from_slice(name.as_bytes());
        all.extend_from_slice(content.as_bytes());
    }
    format!("/assets/{}", &Digest::of(&all).hex()[..HASH_CHARS])
});

/// The folder of this build, without a slash at its end.
pub(super) fn base() -> &'static str {
    &BASE
}

pub(super) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/assets/{hash}/{name}", get(|Path((_, name)): Path<(String, String)>| async move { file(&name) }))
        .route("/favicon.ico", get(|| async { file("margrave.svg") }))
}

fn file(name: &str) -> Response {
    let Some((_, media_type, content)) = FILES.into_iter().find(|(known, _, _)| *known == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
    ];
    (headers, content).into_response()
}
