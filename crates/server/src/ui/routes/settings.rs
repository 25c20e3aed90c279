//! Settings: who may come in, from where software comes, how the server is reached.

pub(super) mod clients;
pub(super) mod invitations;
pub(super) mod password;
pub(super) mod registries;
pub(super) mod sessions;
pub(super) mod tokens;
pub(super) mod trust;

use crate::ui::visit::go;
use axum::response::Response;

/// The first of them.
pub(super) async fn index() -> Response {
    go("/settings/tokens", None)
}
