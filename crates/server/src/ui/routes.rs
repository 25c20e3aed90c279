//! Every page, one file per page or small family of pages.

mod events;
mod catalog;
mod rollouts;
mod deploy;
mod deployments;
mod devices;
mod groups;
mod heads;
mod overview;
mod query;
mod settings;
mod bulk;
mod sign_in;
mod tiles;
mod why;

pub(super) use events::about;

use super::{assets, live};
pub(super) use query::link;

use crate::catalog::UPLOAD_BYTES_MAX;
use crate::state::ServerState;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

/// Form overhead around an archive.
const FORM_BYTES: usize = 64 << 10;

/// Pages that need no session.
pub(super) fn open() -> Router<ServerState> {
    Router::new().route("/sign-in", get(sign_in::form).post(sign_in::enter)).merge(assets::router())
}

/// Pages that need a session.
pub(super) fn signed_in() -> Router<ServerState> {
    Router::new()
        .route("/", get(overview::show))
        .route("/sign-out", post(sign_in::leave))
        .route("/ui/events", get(live::events))
        .route("/ui/session", get(live::session))
        .merge(of_devices())
        .merge(of_catalog())
        .merge(of_deploying())
        .merge(of_settings())
}

fn of_devices() -> Router<ServerState> {
    Router::new()
        .route("/devices", get(devices::list::show))
        .route("/devices/add", get(devices::add::form).post(devices::add::create_token))
        .route("/devices/bulk", get(bulk::devices::show).post(bulk::devices::act))
        .route("/devices/{client}/{*device}", get(devices::detail::show).post(devices::detail::act))
        .route("/clients/{client}", get(devices::client::confirm).post(devices::client::act))
        .route("/groups", get(groups::list))
        .route("/groups/new", get(groups::new).post(groups::create))
        .route("/groups/{name}/check", post(groups::check))
        .route("/groups/{name}", get(groups::edit).post(groups::update))
}

fn of_catalog() -> Router<ServerState> {
    let upload = post(catalog::add::upload).layer(DefaultBodyLimit::max(UPLOAD_BYTES_MAX + FORM_BYTES));
    Router::new()
        .route("/catalog", get(catalog::catalog_view::show))
        .route("/catalog/add", get(catalog::add::form))
        .route("/catalog/add/upload", upload)
        .route("/catalog/add/registry", post(catalog::add::import))
        .route("/catalog/copies/{id}", get(catalog::copies::show).post(catalog::copies::cancel))
        .route("/catalog/{id}", get(catalog::application::show).post(catalog::application::act))
        .route("/catalog/{id}/compatibility", get(catalog::compatibility::show))
        .route("/catalog/{id}/icon", get(catalog::application::icon))
}

fn of_deploying() -> Router<ServerState> {
    Router::new()
        .route("/deploy", post(deploy::begin::begin))
        .route("/deploy/{id}/discard", get(deploy::begin::confirm_discard).post(deploy::begin::abandon))
        .route("/deploy/{id}/version", get(deploy::version::show).post(deploy::version::keep))
        .route("/deploy/{id}/devices", get(deploy::devices::show).post(deploy::devices::keep))
        .route("/deploy/{id}/configuration", get(deploy::configuration::show).post(deploy::configuration::keep))
        .route("/deploy/{id}/check", post(deploy::configuration::check))
        .route("/deploy/{id}/override", get(deploy::overrides::show).post(deploy::overrides::keep))
        .route("/deploy/{id}/override/check", post(deploy::overrides::check))
        .route("/deploy/{id}/review", get(deploy::review::show).post(deploy::review::deploy))
        .route("/deployments", get(deployments::list::show))
        .route("/deployments/{id}", get(deployments::detail::show).post(deployments::detail::act))
        .route("/rollouts", get(rollouts::list))
        .route("/rollouts/{id}", get(rollouts::show).post(rollouts::act))
}

fn of_settings() -> Router<ServerState> {
    Router::new()
        .route("/events", get(events::events))
        .route("/audit", get(events::records))
        .route("/settings", get(settings::index))
        .route("/settings/tokens", get(settings::tokens::show).post(settings::tokens::act))
        .route("/settings/password", get(settings::password::show).post(settings::password::act))
        .route("/settings/identities", get(settings::clients::show).post(settings::clients::act))
        .route("/settings/identities/bulk", get(bulk::clients::show).post(bulk::clients::act))
        .route(
            "/settings/enrollment-tokens",
            get(settings::enrollment_tokens::show).post(settings::enrollment_tokens::act),
        )
        .route("/settings/sessions", get(settings::sessions::show).post(settings::sessions::act))
        .route("/settings/registries", get(settings::registries::show).post(settings::registries::act))
        .route(
            "/settings/registries/add",
            get(settings::registries::edit::new).post(settings::registries::edit::create),
        )
        .route(
            "/settings/registries/update",
            get(settings::registries::edit::edit).post(settings::registries::edit::update),
        )
        .route("/settings/certificates", get(settings::certificates::show))
}
