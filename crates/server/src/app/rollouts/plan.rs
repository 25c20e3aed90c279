//! The request and its plan.

use crate::app::applications::application_id;
use crate::app::compose::ExistingDeployment;
use crate::app::error::{AppError, AppResult, Code, field_problems};
use crate::app::mask::{MASK, Sensitive};
use margo::description::ApplicationDescription;
use margo::ids::ApplicationId;
use margo::parameters::{ParameterValues, ValueError};
use margrave_api::devices::DeviceRef;
use margrave_api::problem::FieldProblem;
use margrave_api::rollouts as wire;
use margrave_core::model::{Deployment, RolloutKind, RolloutTarget};
use margrave_core::policy::PolicyUpdate;
use margrave_core::skips::SkipReason;
use std::sync::Arc;
use uuid::Uuid;

/// Problems named one by one; an incompatible fleet would otherwise fill the answer.
const PROBLEMS_NAMED_MAX: usize = 100;

/// A requested rollout, checked in form.
#[derive(Debug, Clone)]
pub struct Request {
    pub kind: RolloutKind,
    pub application: ApplicationId,
    pub version: Option<String>,
    pub profile: Option<String>,
    pub scope: wire::Scope,
    pub values: ParameterValues,
    pub policy: PolicyUpdate,
    pub skip_incompatible: bool,
    /// For an upgrade: deployments that already run the version are out of scope, whatever values are given.
    pub only_outdated: bool,
    /// For a withdrawal: only deployments whose last rollout is this one, on devices that are still offline.
    pub withdrawn: Option<Uuid>,
    /// For a rollback of one deployment: the earlier revision.
    pub rollback_to: Option<i64>,
}

impl Request {
    /// The request and its comment.
    pub fn read(body: wire::CreateRollout) -> AppResult<(Self, Option<String>)> {
        let wire::CreateRollout {
            kind,
            application,
            version,
            profile,
            scope,
            values,
            policy,
            skip_incompatible,
            comment: reason,
        } = body;
        let kind = match kind {
            wire::RolloutKind::Create => RolloutKind::Create,
            wire::RolloutKind::Reconfigure => RolloutKind::Reconfigure,
            wire::RolloutKind::Upgrade => RolloutKind::Upgrade,
            wire::RolloutKind::Remove => RolloutKind::Remove,
        };
        let application = application_id(&application)?;
        let policy = policy.into();
        let request = Self {
            kind,
            application,
            version,
            profile,
            scope,
            values,
            policy,
            skip_incompatible,
            only_outdated: false,
            withdrawn: None,
            rollback_to: None,
        };
        let errors = request.problems();
        if errors.is_empty() {
            Ok((request, reason))
        } else {
            Err(AppError::with_fields(Code::Invalid, "the rollout cannot be planned", errors))
        }
    }

    fn problems(&self) -> Vec<FieldProblem> {
        let mut errors = Vec::new();
        let mut note = |field: &str, message: &str| {
            errors.push(FieldProblem::new(field, message));
        };
        let (create, upgrade) = (self.kind == RolloutKind::Create, self.kind == RolloutKind::Upgrade);
        if (create || upgrade) && self.version.is_none() {
            note("version", "name the version to install");
        }
        if !(create || upgrade) && self.profile.is_some() {
            note("profile", "a profile can be set for `create` and `upgrade` only");
        }
        if self.kind == RolloutKind::Reconfigure && self.values.is_empty() && self.policy.is_empty() {
            note("values", "give at least one value or policy to change");
        }
        if self.kind == RolloutKind::Remove && !self.policy.is_empty() {
            note("policy", "a removal follows the policy of its deployment; reconfigure the deployment first");
        }
        if self.kind == RolloutKind::Remove && !self.values.is_empty() {
            note("values", "a removal has no values");
        }
        let wire::Scope { devices, selector, group, deployments } = &self.scope;
        let given = [devices.is_some(), selector.is_some(), group.is_some(), deployments.is_some()];
        if given.into_iter().filter(|given| *given).count() != 1 {
            note("scope", "give exactly one of `devices`, `selector`, `group` and `deployments`");
        }
        if create && deployments.is_some() {
            note("scope.deployments", "`create` makes new deployments; name devices, a selector or a group");
        }
        errors
    }

    /// Devices that were not named one by one may be skipped.
    pub(super) fn may_skip(&self) -> bool {
        self.skip_incompatible
    }
}

/// A rollout as it would be recorded.
#[derive(Debug)]
pub(super) struct Planned {
    /// The version afterwards; for a removal, the removed one.
    pub(super) version: String,
    pub(super) targets: Vec<PlannedTarget>,
    pub(super) skipped: Vec<PlannedSkip>,
}

/// A device in scope that the rollout does not change.
#[derive(Debug)]
pub(super) struct PlannedSkip {
    pub(super) device: DeviceRef,
    pub(super) reason: SkipReason,
}

impl PlannedSkip {
    pub(super) fn problem(&self) -> FieldProblem {
        FieldProblem::new(super::show::device_name(&self.device), self.reason.to_string())
    }
}

#[derive(Debug)]
pub(super) struct PlannedTarget {
    pub(super) target: RolloutTarget,
    /// The deployment before the rollout, if it exists.
    pub(super) present: Option<Deployment>,
    /// Description of its current version.
    pub(super) from: Option<Arc<ApplicationDescription>>,
    /// Description of its future version; none for a removal.
    pub(super) to: Option<Arc<ApplicationDescription>>,
    pub(super) deployment_state: Option<margrave_core::deployment_state::DeploymentState>,
    /// The device is offline.
    pub(super) offline: bool,
}

impl PlannedTarget {
    /// What carries over from the deployment before the rollout.
    pub(super) fn before(&self) -> Option<ExistingDeployment<'_>> {
        let (deployment, description) = (self.present.as_ref()?, self.from.as_deref()?);
        Some(ExistingDeployment { values: &deployment.values, description, policy: deployment.policy })
    }

    /// Parameters that are sensitive before or after.
    pub(super) fn sensitive(&self) -> Sensitive {
        let described = [&self.from, &self.to].into_iter().flatten();
        let sensitive = described.map(|description| Sensitive::of(Some(description)));
        sensitive.fold(Sensitive::Some(Vec::new()), Sensitive::or)
    }
}

/// Rejects a rollout because of some of its devices; the first of them are named.
/// `verb` is the singular and the plural.
pub(super) fn refuse(code: Code, verb: [&str; 2], next: &str, mut errors: Vec<FieldProblem>) -> AppError {
    let count = errors.len();
    let [has, have] = verb;
    let devices = if count == 1 { format!("1 device {has}") } else { format!("{count} devices {have}") };
    let named =
        if count > PROBLEMS_NAMED_MAX { format!(" (the first {PROBLEMS_NAMED_MAX} are named)") } else { String::new() };
    errors.truncate(PROBLEMS_NAMED_MAX);
    AppError::with_fields(code, format!("{devices}{named}; {next}"), errors)
}

/// Invalid values, each under the name of its parameter; sensitive values are not repeated.
pub(super) fn refuse_values(errors: Vec<ValueError>, sensitive: &Sensitive) -> AppError {
    let mut errors = field_problems(errors);
    for error in &mut errors {
        if error.field == "profile" {
            continue;
        }
        if sensitive.has(&error.field) {
            "this value is not accepted".clone_into(&mut error.message);
        }
        error.field = format!("values.{}", error.field);
    }
    AppError::with_fields(Code::Invalid, "invalid values; fix them and try again", errors)
}

/// A client that reads a deployment and sends it back must not replace the secret by its mask.
pub(super) fn refuse_masks(values: &ParameterValues, sensitive: &Sensitive) -> AppResult<()> {
    let errors: Vec<FieldProblem> = values
        .iter()
        .filter(|(name, value)| sensitive.has(name) && value.as_str() == Some(MASK))
        .map(|(name, _)| {
            let message =
                "this is the mask of a hidden value; give the value itself, or omit it to keep the current one";
            FieldProblem::new(format!("values.{name}"), message)
        })
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(AppError::with_fields(Code::Invalid, "invalid values; fix them and try again", errors))
    }
}
