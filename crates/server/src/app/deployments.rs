//! Deployments for operators: intent, last report of the device, and the comparison of both.

use super::access::Caller;
use super::applications::application_id;
use super::clients::client_id;
use super::error::{AppError, AppResult, Code};
use super::explain;
use super::fleet::Search;
use super::mask::Sensitive;
use super::paging::{Listing, Paging, cursor, whole};
use super::rollouts;
use super::sorting::{self, Order};
use crate::manifest_cache::run_to_completion;
use crate::state::ServerState;
use margo::deployment::ApplicationDeployment;
use margo::ids::{ApplicationId, DeploymentId};
use margo::status::{DeploymentStatus, State, StatusError};
use margrave_api::deployments as wire;
use margrave_api::page::Page;
use margrave_api::rollouts::RolloutKind as WireKind;
use margrave_core::deployment_state::{DeploymentState, state_of};
use margrave_core::model::{ClientState, Deployment, Desired, DeviceKey, Failed, Reported, RolloutKind};
use margrave_core::policy::OnFailure;
use margrave_core::sort::{DeploymentColumn, SortValue};
use margrave_core::time::Timestamp;
use margrave_store::{DeploymentFilter, DeploymentView, DeviceSearch, RemovalFilter, RemovalPlace};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use uuid::Uuid;

/// Deployments scanned for one page without a matching index: about a tenth of a second.
const LOOKED_AT_MAX: u32 = 20_000;

/// Filter for deployments.
#[derive(Debug, Clone, Default, serde::Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct Query {
    /// Application id.
    pub application: Option<String>,
    /// Version of the application.
    pub version: Option<String>,
    /// Client id.
    pub client: Option<String>,
    /// Device id, or `gateway/*`.
    pub device: Option<String>,
    /// Id of the rollout that last touched it.
    pub rollout: Option<String>,
    pub state: Option<wire::DeploymentState>,
    /// Also removed ones that are kept for their history.
    #[serde(default)]
    #[param(required = false)]
    pub with_absent: bool,
}

pub async fn list(state: &ServerState, query: &Query, paging: &Paging) -> AppResult<Page<wire::Deployment>> {
    let filter = filter(query)?;
    let limit = paging.limit()?;
    let after: Option<DeploymentId> = paging.after()?;
    let (store, since) = (&state.store, state.offline_before());
    let (mut rows, looked_at) =
        store.deployments_search_bounded(&filter, since, after, limit + 1, LOOKED_AT_MAX).await?;
    let next = if rows.len() > limit as usize {
        rows.truncate(limit as usize);
        rows.last().map(|view| view.deployment.id)
    } else {
        looked_at
    };
    Ok(Page { items: all_to_wire(state, rows).await?, next: next.map(|id| cursor(&id.to_string())) })
}

/// In the order of a column, or of the id; with a `search`, only deployments on matching devices.
pub async fn list_in_order(
    state: &ServerState,
    query: &Query,
    search: Option<&Search>,
    order: Order<DeploymentColumn>,
    paging: &Paging,
) -> AppResult<Listing<wire::Deployment>> {
    let Some(sort) = order.sort else { return Ok(list(state, query, paging).await?.into()) };
    let filter = filter(query)?;
    let devices = match search {
        Some(search) => Some(search.read(state).await?),
        None => None,
    };
    // The instant moves with the clock and would make every search another one.
    let timeless = devices.clone().map(|devices| DeviceSearch { offline_before: Timestamp(0), ..devices });
    let what = format!("deployments {filter:?} {timeless:?}");
    let (store, since) = (state.store.clone(), state.offline_before());
    let read = move |after: Option<(SortValue, DeploymentId)>, limit| async move {
        store.deployments_sorted(&filter, devices.as_ref(), since, sort, after.as_ref(), limit).await
    };
    let Listing { items, next, in_progress } = sorting::keys(state, (order, sort), &what, paging, read).await?;
    let rows = state.store.deployments_by_ids(&items).await?;
    Ok(Listing { items: all_to_wire(state, rows).await?, next, in_progress })
}

pub(super) async fn all_to_wire(state: &ServerState, rows: Vec<DeploymentView>) -> AppResult<Vec<wire::Deployment>> {
    let mut known = Masks::default();
    for view in &rows {
        known.learn(state, &view.deployment.application, &view.deployment.version).await?;
    }
    let simulated = Simulated::among(state, &rows).await?;
    Ok(rows.into_iter().map(|view| to_wire(state, &known, &simulated, view)).collect())
}

/// Deployments being removed, or removed (`over`), newest first. Only application and version of the query apply.
pub async fn removals(
    state: &ServerState,
    query: &Query,
    over: bool,
    paging: &Paging,
) -> AppResult<Page<wire::Deployment>> {
    let DeploymentFilter { application, version, .. } = filter(query)?;
    let (limit, after) = (paging.limit()?, paging.after::<RemovalCursor>()?);
    let filter = RemovalFilter { over, application, version };
    let after = after.map(|notified| notified.0);
    let (mut rows, looked_at) = state.store.removals_search_bounded(&filter, after, limit + 1, LOOKED_AT_MAX).await?;
    let next = if rows.len() > limit as usize {
        rows.truncate(limit as usize);
        rows.last().map(RemovalPlace::from)
    } else {
        looked_at
    };
    Ok(Page {
        items: all_to_wire(state, rows).await?,
        next: next.map(|place| cursor(&RemovalCursor(place).to_string())),
    })
}

/// The position where a page of removals ended.
struct RemovalCursor(RemovalPlace);

impl std::fmt::Display for RemovalCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RemovalPlace(at, id) = self.0;
        write!(f, "{}/{id}", at.0)
    }
}

impl std::str::FromStr for RemovalCursor {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (at, id) = text.split_once('/').ok_or(())?;
        Ok(Self(RemovalPlace(Timestamp(at.parse().map_err(|_| ())?), id.parse().map_err(|_| ())?)))
    }
}

pub async fn get(state: &ServerState, id: &str) -> AppResult<wire::Deployment> {
    let view = existing(state, id).await?;
    let mut known = Masks::default();
    known.learn(state, &view.deployment.application, &view.deployment.version).await?;
    let simulated = Simulated::among(state, std::slice::from_ref(&view)).await?;
    Ok(to_wire(state, &known, &simulated, view))
}

/// Makes the device retry a failed deployment at once. A device that retries automatically gets its manifest once more;
/// one that has given up (failure policies `stop` and `rollback`) acts only on a new document, so it gets a new
/// revision.
pub async fn retry(state: &ServerState, caller: &Caller, id: &str, reason: Option<String>) -> AppResult<()> {
    let view = existing(state, id).await?;
    let client = view.deployment.client.clone();
    let last_seen = state.heads.last_seen(&client).max(view.last_seen_at);
    if state_of(&view.deployment, view.reported.as_ref(), last_seen, state.offline_before()) != DeploymentState::Failed
    {
        return Err(AppError::refused(Code::Unchanged, "the deployment has not failed, so there is nothing to retry"));
    }
    let removing = view.deployment.desired == Desired::Absent;
    if view.deployment.policy.on_failure != OnFailure::KeepPartial && !removing {
        let request = rollouts::retry_request(&view.deployment);
        // The idempotency key belongs to the answer of this call, which is not a rollout.
        let caller = Caller { call: None, ..caller.clone() };
        rollouts::submit(state, &caller, request, reason).await?;
        return Ok(());
    }
    let (store, heads, actor, now) = (state.store.clone(), Arc::clone(&state.heads), caller.actor(reason), state.now());
    let notified = client.clone();
    let work = async move {
        let head = store.manifest_republish(&actor, &notified, now).await?;
        let known = head.is_some();
        if let Some(head) = head {
            heads.put(head);
        }
        Ok::<_, AppError>(known)
    };
    if run_to_completion(work).await.map_err(AppError::Task)?? {
        Ok(())
    } else {
        Err(AppError::not_found(format_args!("client `{client}`")))
    }
}

pub async fn revisions(state: &ServerState, id: &str) -> AppResult<Page<wire::Revision>> {
    let view = existing(state, id).await?;
    let application = view.deployment.application;
    let mut known = Masks::default();
    let mut items = Vec::new();
    for revision in state.store.deployment_revisions(view.deployment.id).await? {
        known.learn(state, &application, &revision.version).await?;
        let sensitive = known.get(&application, &revision.version);
        items.push(wire::Revision {
            revision: revision.revision,
            action: kind_to_wire(revision.action),
            version: revision.version,
            profile: revision.profile,
            values: sensitive.mask_values(revision.values),
            digest: revision.yaml_digest.to_string(),
            manifest_version: revision.manifest_version,
            at: revision.at.to_string(),
            actor: revision.actor,
            comment: revision.comment,
            rollout: revision.rollout.to_string(),
            rollback_to: revision.rollback_to,
        });
    }
    Ok(whole(items))
}

pub async fn status_history(state: &ServerState, id: &str) -> AppResult<Page<wire::Status>> {
    let view = existing(state, id).await?;
    let history = state.store.status_history(view.deployment.id).await?;
    Ok(whole(history.iter().map(status_to_wire).collect()))
}

/// The YAML that the device gets (or got), with sensitive values masked; without any, exactly the bytes served.
pub async fn document(state: &ServerState, id: &str, revision: Option<i64>) -> AppResult<Vec<u8>> {
    let view = existing(state, id).await?;
    let revision = revision.unwrap_or(view.deployment.revision);
    let deployment = view.deployment;
    let missing = || AppError::not_found(format_args!("revision {revision} of deployment {}", deployment.id));
    let bytes = state.store.deployment_document(deployment.id, revision).await?.ok_or_else(missing)?;
    let revisions = state.store.deployment_revisions(deployment.id).await?;
    let version = revisions.into_iter().find(|known| known.revision == revision).map(|known| known.version);
    let mut known = Masks::default();
    let sensitive = match version.or_else(|| (revision == deployment.revision).then_some(deployment.version)) {
        Some(version) => {
            known.learn(state, &deployment.application, &version).await?;
            known.get(&deployment.application, &version)
        }
        None => Sensitive::All,
    };
    Ok(mask_yaml(bytes, &sensitive))
}

pub(crate) fn mask_yaml(bytes: Vec<u8>, sensitive: &Sensitive) -> Vec<u8> {
    if sensitive.is_empty() {
        return bytes;
    }
    match ApplicationDeployment::read(&bytes) {
        Ok(mut read) => {
            sensitive.mask_document(&mut read.document, None);
            read.document.to_yaml().into_bytes()
        }
        // An unreadable document cannot be masked.
        Err(_) => b"# this document cannot be shown: it cannot be parsed and may contain sensitive values\n".to_vec(),
    }
}

pub(crate) async fn existing(state: &ServerState, id: &str) -> AppResult<DeploymentView> {
    let missing = || AppError::not_found(format_args!("deployment `{id}`"));
    let id: DeploymentId = id.parse().map_err(|_| missing())?;
    state.store.deployment_get(id).await?.ok_or_else(missing)
}

fn filter(query: &Query) -> AppResult<DeploymentFilter> {
    let id_error = |error: margo::IdError| AppError::invalid("device", error.to_string());
    let uuid_error = |_| AppError::invalid("rollout", "a rollout id is a UUID");
    Ok(DeploymentFilter {
        application: query.application.as_deref().map(application_id).transpose()?,
        version: query.version.clone(),
        client: query.client.as_deref().map(client_id).transpose()?,
        target: query.device.as_deref().map(str::parse).transpose().map_err(id_error)?,
        rollout: query.rollout.as_deref().map(Uuid::try_parse).transpose().map_err(uuid_error)?,
        deployment_state: query.state.map(Into::into),
        with_absent: query.with_absent
            || matches!(query.state, Some(wire::DeploymentState::Removing | wire::DeploymentState::Removed)),
    })
}

/// Sensitive parameters, per version on a page.
#[derive(Debug, Default)]
pub(crate) struct Masks(HashMap<(ApplicationId, String), Sensitive>);

impl Masks {
    pub(crate) async fn learn(
        &mut self,
        state: &ServerState,
        application: &ApplicationId,
        version: &str,
    ) -> AppResult<()> {
        let key = (application.clone(), version.to_owned());
        if self.0.contains_key(&key) {
            return Ok(());
        }
        let description = match state.store.version_get(application, version).await? {
            Some(version) => Some(state.descriptions.get(&state.store, &version).await?),
            None => None,
        };
        self.0.insert(key, Sensitive::of(description.as_deref()));
        Ok(())
    }

    pub(crate) fn get(&self, application: &ApplicationId, version: &str) -> Sensitive {
        self.0.get(&(application.clone(), version.to_owned())).cloned().unwrap_or(Sensitive::All)
    }
}

/// The devices of a page of deployments whose agents simulate workloads.
#[derive(Debug, Default)]
pub(crate) struct Simulated(HashSet<DeviceKey>);

impl Simulated {
    pub(crate) async fn among(state: &ServerState, views: &[DeploymentView]) -> AppResult<Self> {
        let mut clients: Vec<_> = views.iter().map(|view| view.deployment.client.clone()).collect();
        clients.sort_unstable();
        clients.dedup();
        Ok(Self(state.store.devices_simulated(&clients).await?))
    }

    /// `host` is the device that a gateway reports as the host.
    pub(crate) fn has(&self, deployment: &Deployment, host: Option<&str>) -> bool {
        // Most fleets have no gateways, so no key is built for them.
        if self.0.is_empty() {
            return false;
        }
        let host = host.and_then(|host| host.parse().ok());
        let device = host.or_else(|| deployment.target.device()).or_else(|| deployment.target.gateway());
        device.is_some_and(|device| self.0.contains(&DeviceKey { client: deployment.client.clone(), device }))
    }
}

fn to_wire(state: &ServerState, known: &Masks, simulated: &Simulated, view: DeploymentView) -> wire::Deployment {
    let DeploymentView { deployment, reported, last_seen_at } = view;
    let last_seen = state.heads.last_seen(&deployment.client).max(last_seen_at);
    let deployment_state = state_of(&deployment, reported.as_ref(), last_seen, state.offline_before());
    let client = state.heads.get(&deployment.client).map_or(ClientState::Decommissioned, |head| head.state);
    let explanation = explain::sentence(&deployment, reported.as_ref(), (client, last_seen), deployment_state);
    let sensitive = known.get(&deployment.application, &deployment.version);
    let status = reported.as_ref().map(status_to_wire);
    let stands = reported.as_ref().filter(|_| deployment_state == DeploymentState::Failed);
    let failing = stands.and_then(|reported| reported.failed.as_ref());
    let failing = failing.map(|failed| wire::Failing {
        since: failed.since.to_string(),
        attempts: failed.attempts,
        last_at: failed.received_at.to_string(),
    });
    let failed_with = stands.and_then(Reported::retried_failure).map(|failed| {
        let Failed { adopted_version, body, received_at, .. } = failed.clone();
        status_to_wire(&Reported { state: State::Failed, adopted_version, body, received_at, failed: None })
    });
    let simulated = simulated.has(&deployment, status.as_ref().and_then(|status| status.hosted_by.as_deref()));
    wire::Deployment {
        id: deployment.id.to_string(),
        client: deployment.client.to_string(),
        device: deployment.target.to_string(),
        application: deployment.application.to_string(),
        version: deployment.version,
        profile: deployment.profile,
        revision: deployment.revision,
        desired: match deployment.desired {
            Desired::Present => wire::Desired::Present,
            Desired::Absent => wire::Desired::Absent,
        },
        state: deployment_state.into(),
        simulated,
        explanation,
        target_version: deployment.target_version,
        reported: status,
        failing,
        failed_with,
        values: sensitive.mask_values(deployment.values),
        policy: deployment.policy.into(),
        digest: deployment.yaml_digest.to_string(),
        rollout: deployment.rollout.to_string(),
        created_at: deployment.created_at.to_string(),
        updated_at: deployment.updated_at.to_string(),
    }
}

pub(crate) fn status_to_wire(reported: &Reported) -> wire::Status {
    let document = DeploymentStatus::read(&reported.body).ok().map(|read| read.document);
    let error =
        |error: StatusError| wire::StatusError { code: error.code, source: error.source, message: error.message };
    let (status_error, components, hosted_by) = match document {
        Some(status) => (status.error, status.components, status.device_id),
        None => (None, Vec::new(), None),
    };
    wire::Status {
        state: reported.state.as_str().to_owned(),
        adopted_version: reported.adopted_version,
        received_at: reported.received_at.to_string(),
        error: status_error.map(error),
        components: components
            .into_iter()
            .map(|component| wire::ComponentStatus {
                name: component.name,
                state: component.state.as_str().to_owned(),
                error: component.error.map(error),
            })
            .collect(),
        hosted_by: hosted_by.map(|device| device.to_string()),
    }
}

pub(crate) fn kind_to_wire(kind: RolloutKind) -> WireKind {
    match kind {
        RolloutKind::Create => WireKind::Create,
        RolloutKind::Reconfigure => WireKind::Reconfigure,
        RolloutKind::Upgrade => WireKind::Upgrade,
        RolloutKind::Remove => WireKind::Remove,
    }
}
