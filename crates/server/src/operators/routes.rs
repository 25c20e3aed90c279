//! One file per address or small family of addresses; handlers extract, call one function in `app`, and convert.

mod access;
mod applications;
mod audit;
mod rollouts;
mod clients;
mod copies;
mod deployments;
mod devices;
mod diffs;
mod documents;
mod explain;
mod events;
mod groups;
mod identities;
mod lookup;
mod registries;
mod registry;
mod uploads;
mod versions;

use crate::state::ServerState;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Every route of the API; the OpenAPI document is generated from exactly these.
pub(super) fn all() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new()
        .routes(routes!(access::whoami))
        .routes(routes!(access::get_summary))
        .routes(routes!(access::openapi))
        .routes(routes!(access::list_tokens, access::create_token))
        .routes(routes!(access::revoke_token))
        .routes(routes!(access::list_operators))
        .routes(routes!(access::set_password))
        .routes(routes!(access::list_sessions))
        .routes(routes!(access::end_session))
        .routes(routes!(audit::list_audit))
        .routes(routes!(audit::verify_audit))
        .routes(routes!(events::list_events))
        .routes(routes!(events::stream_events))
        .routes(routes!(lookup::lookup))
        .routes(routes!(clients::list_clients, clients::create_client))
        .routes(routes!(clients::get_client, clients::update_client))
        .routes(routes!(identities::issue_svid))
        .routes(routes!(clients::list_enrollment_tokens))
        .routes(routes!(identities::create_enrollment_token, clients::revoke_client_enrollment_tokens))
        .routes(routes!(identities::create_preload))
        .routes(routes!(identities::get_trust))
        .routes(routes!(registry::get_registry))
        .routes(routes!(registry::list_repositories))
        .routes(routes!(registry::run_registry_garbage_collection))
        .routes(routes!(copies::list_copies, copies::create_copy))
        .routes(routes!(copies::get_copy, copies::cancel_copy))
        .routes(routes!(registry::get_pull_credentials, registry::replace_pull_credentials))
        .routes(routes!(registries::list_registries))
        .routes(routes!(registries::get_saved_registry, registries::put_registry, registries::delete_registry))
        .routes(routes!(registries::check_registry))
        .routes(routes!(devices::list_devices))
        .routes(routes!(devices::get_device, devices::update_device, devices::delete_device))
        .routes(routes!(groups::list_groups))
        .routes(routes!(groups::get_group, groups::put_group, groups::delete_group))
        .routes(routes!(groups::list_group_devices))
        .routes(routes!(applications::list_applications, uploads::upload_application))
        .routes(routes!(uploads::import_application))
        .routes(routes!(applications::get_application))
        .routes(routes!(versions::get_application_version, versions::delete_application_version))
        .routes(routes!(versions::check_application_components))
        .routes(routes!(versions::list_application_compatibility))
        .routes(routes!(versions::get_application_parameters))
        .routes(routes!(versions::get_application_resource))
        .routes(routes!(deployments::list_deployments, deployments::create_deployments))
        .routes(routes!(deployments::get_deployment, deployments::update_deployment, deployments::remove_deployment))
        .routes(routes!(deployments::retry_deployment))
        .routes(routes!(deployments::rollback_deployment))
        .routes(routes!(documents::list_deployment_revisions))
        .routes(routes!(documents::list_deployment_statuses))
        .routes(routes!(documents::get_deployment_document))
        .routes(routes!(diffs::diff_deployment))
        .routes(routes!(diffs::diff_application))
        .routes(routes!(explain::explain_deployment))
        .routes(routes!(explain::explain_device))
        .routes(routes!(explain::explain_application))
        .routes(routes!(rollouts::list_rollouts, rollouts::create_rollout))
        .routes(routes!(rollouts::get_rollout))
        .routes(routes!(rollouts::cancel_rollout))
        .routes(routes!(rollouts::retry_rollout))
        .routes(routes!(rollouts::withdraw_rollout))
}
