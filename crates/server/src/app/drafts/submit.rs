//! Submits a draft as rollouts, one for each distinct configuration.

use super::{Draft, Kind, sections};
use crate::app::access::Caller;
use crate::app::applications::described;
use crate::app::deployments;
use crate::app::error::{AppError, AppResult, Code};
use crate::app::rollouts::{self, Request};
use crate::state::ServerState;
use margo::deployment::ApplicationDeployment;
use margo::parameters::ParameterValues;
use margrave_api::devices::DeviceRef;
use margrave_api::policies::PolicyPatch;
use margrave_api::rollouts as wire;
use margrave_core::model::Deployment;
use margrave_core::policy::Policy;

/// The rollouts of a draft: one for each distinct configuration. Overrides come first, so that the last rollout takes the rest.
pub(in crate::app) fn requests(draft: &Draft) -> AppResult<Vec<Request>> {
    let kind = match draft.kind {
        Kind::Create => wire::RolloutKind::Create,
        Kind::Upgrade => wire::RolloutKind::Upgrade,
        Kind::Reconfigure => wire::RolloutKind::Reconfigure,
        Kind::Remove => wire::RolloutKind::Remove,
    };
    let make = |scope: wire::Scope, values: ParameterValues| {
        let body = wire::CreateRollout {
            kind,
            application: draft.application.clone(),
            version: match draft.kind {
                Kind::Create | Kind::Upgrade => Some(draft.version.clone()),
                Kind::Reconfigure => draft.is_by_device().then(|| draft.version.clone()),
                Kind::Remove => None,
            },
            profile: (kind == wire::RolloutKind::Create).then(|| draft.profile.clone()).flatten(),
            scope,
            values,
            policy: draft.policy,
            skip_incompatible: true,
            comment: None,
        };
        Request::read(body).map(|(request, _)| Request {
            only_outdated: draft.is_by_device() && draft.kind == Kind::Upgrade,
            ..request
        })
    };
    let mut requests = Vec::new();
    let mut rest = draft.devices.clone();
    let mut sets: Vec<(ParameterValues, Vec<DeviceRef>)> = Vec::new();
    for (device, own) in draft.overrides.iter().filter(|(_, own)| !own.is_empty()) {
        let Some((client, device)) = device.split_once('/') else { continue };
        let device = DeviceRef { client: client.to_owned(), device: device.to_owned() };
        rest.retain(|known| *known != device);
        let mut values = draft.values.clone();
        values.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
        match sets.iter_mut().find(|(known, _)| *known == values) {
            Some((_, devices)) => devices.push(device),
            None => sets.push((values, vec![device])),
        }
    }
    for (values, devices) in sets {
        requests.push(make(wire::Scope { devices: Some(devices), ..wire::Scope::default() }, values)?);
    }
    let all = draft.selector.as_ref().filter(|_| draft.is_by_device());
    let scope = if let Some(selector) = all {
        Some(wire::Scope { selector: Some(selector.clone()), ..wire::Scope::default() })
    } else if !draft.deployments.is_empty() {
        Some(wire::Scope { deployments: Some(draft.deployments.clone()), ..wire::Scope::default() })
    } else if let Some(selector) = &draft.selector {
        Some(wire::Scope { selector: Some(selector.clone()), ..wire::Scope::default() })
    } else {
        (!rest.is_empty()).then(|| wire::Scope { devices: Some(rest), ..wire::Scope::default() })
    };
    if let Some(scope) = scope {
        requests.push(make(scope, draft.values.clone())?);
    }
    if requests.is_empty() {
        return Err(AppError::refused(Code::Invalid, "no device is selected; select at least one"));
    }
    Ok(requests)
}

/// After earlier rollouts of the same draft, a rollout may have nothing left to do.
pub(in crate::app) fn is_nothing_left(error: &AppError) -> bool {
    matches!(error, AppError::Refused { code: Code::Unplaceable | Code::Unchanged | Code::Exists, .. })
}

/// The revision of the single deployment of a draft.
pub async fn revision(state: &ServerState, draft: &Draft) -> AppResult<Option<i64>> {
    match draft.single() {
        Some(only) => Ok(Some(deployments::existing(state, only).await?.deployment.revision)),
        None => Ok(None),
    }
}

/// Creates the rollouts. `seen` is the reviewed revision of a single deployment: it must not have changed since. `caller_of` gives
/// each rollout its own idempotency key.
pub async fn submit(
    state: &ServerState,
    caller_of: impl Fn(usize) -> Caller,
    draft: &Draft,
    seen: Option<i64>,
    comment: Option<String>,
) -> AppResult<Vec<wire::Rollout>> {
    if let (Some(only), Some(seen)) = (draft.single(), seen) {
        let present = deployments::existing(state, only).await?.deployment;
        if present.revision != seen {
            let detail = format!(
                "another operator changed it in the meantime (it is now at revision {}): review the effect of your values again",
                present.revision
            );
            return Err(AppError::refused(Code::Conflict, detail));
        }
    }
    let requests = requests(draft)?;
    if requests.len() > 1 {
        // All or nothing, as far as that can be checked beforehand. A single rollout is checked when it is created.
        for (index, request) in requests.iter().enumerate() {
            match rollouts::check(state, request).await {
                Err(error) if index == 0 || !is_nothing_left(&error) => return Err(error),
                _ => {}
            }
        }
    }
    let mut made = Vec::new();
    for (index, request) in requests.into_iter().enumerate() {
        match rollouts::submit(state, &caller_of(index), request, comment.clone()).await {
            Ok(rollout) => made.push(rollout),
            Err(error) if !made.is_empty() && is_nothing_left(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(made)
}

/// A rollout that returns one deployment to an earlier revision.
pub async fn back_to(state: &ServerState, id: &str, revision: i64) -> AppResult<Request> {
    let view = deployments::existing(state, id).await?;
    let known = state.store.deployment_revisions(view.deployment.id).await?;
    let target_revision = known
        .into_iter()
        .find(|known| known.revision == revision)
        .ok_or_else(|| AppError::not_found(format_args!("revision {revision} of deployment `{id}`")))?;
    let upgrade = target_revision.version != view.deployment.version;
    let policy = policy_at(state, &view.deployment, revision).await?.map(PolicyPatch::from).unwrap_or_default();
    // Unset values that were first set after that revision.
    let mut values = target_revision.values;
    let (_, description) = described(state, &view.deployment.application, &target_revision.version).await?;
    let sections = sections(&description, None);
    let is_parameter =
        |name: &str| sections.iter().flat_map(|section| &section.fields).any(|one| one.parameter == name);
    for name in view.deployment.values.keys().filter(|name| is_parameter(name)) {
        values.entry(name.clone()).or_insert(serde_json::Value::Null);
    }
    let body = wire::CreateRollout {
        kind: if upgrade { wire::RolloutKind::Upgrade } else { wire::RolloutKind::Reconfigure },
        application: view.deployment.application.to_string(),
        version: upgrade.then(|| target_revision.version.clone()),
        profile: upgrade.then(|| target_revision.profile.clone()),
        scope: wire::Scope { deployments: Some(vec![id.to_owned()]), ..wire::Scope::default() },
        values,
        policy,
        skip_incompatible: false,
        comment: None,
    };
    Ok(Request { rollback_to: Some(revision), ..Request::read(body)?.0 })
}

/// The policies of an earlier revision, read from its document.
pub(in crate::app) async fn policy_at(
    state: &ServerState,
    deployment: &Deployment,
    revision: i64,
) -> AppResult<Option<Policy>> {
    let document = state.store.deployment_document(deployment.id, revision).await?;
    let document = document.and_then(|bytes| ApplicationDeployment::read(&bytes).ok());
    Ok(document.map(|read| Policy::of(&read.document)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use indexmap::IndexMap;
    use margrave_api::policies::OnFailure;
    use serde_json::json;

    #[test]
    fn each_distinct_configuration_is_a_rollout_and_the_rest_comes_last() {
        let device = |name: &str| DeviceRef { client: name.to_owned(), device: name.to_owned() };
        let own = |value: i64| ParameterValues::from([("retentionDays".to_owned(), json!(value))]);
        let draft = Draft {
            kind: Kind::Create,
            application: "vibration-analytics".to_owned(),
            version: "2.3.0".to_owned(),
            profile: None,
            devices: ["a", "b", "c", "d"].map(device).to_vec(),
            selector: None,
            deployments: Vec::new(),
            values: ParameterValues::from([("machineClass".to_owned(), json!("class-1"))]),
            overrides: IndexMap::from([
                ("a/a".to_owned(), own(5)),
                ("b/b".to_owned(), own(5)),
                ("c/c".to_owned(), own(7)),
            ]),
            policy: PolicyPatch { on_failure: Some(OnFailure::Stop), ..PolicyPatch::default() },
            configured: true,
            comment: String::new(),
            by_device: false,
        };
        let requests = requests(&draft).unwrap();
        let devices: Vec<Vec<String>> = requests
            .iter()
            .map(|request| request.scope.devices.iter().flatten().map(|device| device.client.clone()).collect())
            .collect();
        assert_eq!(devices, [vec!["a", "b"], vec!["c"], vec!["d"]]);
        assert_eq!(requests[0].values["retentionDays"], json!(5));
        assert_eq!(requests[2].values.len(), 1);
        assert!(requests.iter().all(|request| request.policy.to_text() == "onFailure=stop"), "one policy for all");
    }
}
