//! Settings: access, registries, certificates.

pub(super) mod clients;
pub(super) mod enrollment_tokens;
pub(super) mod password;
pub(super) mod registries;
pub(super) mod sessions;
pub(super) mod tokens;
pub(super) mod certificates;

use crate::ui::visit::go;
use axum::response::Response;

/// Redirects to the first tab.
pub(super) async fn index() -> Response {
    go("/settings/tokens", None)
}
