//! What was asked for, and what it comes to.

use crate::app::applications::application_id;
use crate::app::error::{AppError, AppResult, Code, field_problems};
use crate::app::mask::{MASK, Sensitive};
use margo::description::ApplicationDescription;
use margo::ids::ApplicationId;
use margo::parameters::{AnswerError, Answers};
use margrave_api::changes as wire;
use margrave_api::problem::FieldProblem;
use margrave_core::model::{ChangeKind, ChangeTarget, Deployment};
use margrave_core::policy::Wish;
use std::sync::Arc;
use uuid::Uuid;

/// Problems named one by one; a fleet that does not fit would otherwise fill the answer.
const PROBLEMS_NAMED_MAX: usize = 100;

/// A change somebody asks for, checked in form.
#[derive(Debug, Clone)]
pub struct Request {
    pub kind: ChangeKind,
    pub application: ApplicationId,
    pub version: Option<String>,
    pub profile: Option<String>,
    pub scope: wire::Scope,
    pub answers: Answers,
    pub policy: Wish,
    pub skip_unfit: bool,
    /// Of an upgrade: what is on the version already is not in scope, whatever answers are given.
    pub movers: bool,
    /// What is called off: only what this change was the last to touch, on devices that are still not heard of.
    pub called_off: Option<Uuid>,
}

impl Request {
    /// The request and the reason given with it.
    pub fn read(body: wire::CreateChange) -> AppResult<(Self, Option<String>)> {
        let wire::CreateChange { kind, application, version, profile, scope, answers, policy, skip_unfit, reason } =
            body;
        let kind = match kind {
            wire::ChangeKind::Create => ChangeKind::Create,
            wire::ChangeKind::Reconfigure => ChangeKind::Reconfigure,
            wire::ChangeKind::Upgrade => ChangeKind::Upgrade,
            wire::ChangeKind::Remove => ChangeKind::Remove,
        };
        let application = application_id(&application)?;
        let policy = policy.into();
        let request = Self {
            kind,
            application,
            version,
            profile,
            scope,
            answers,
            policy,
            skip_unfit,
            movers: false,
            called_off: None,
        };
        let errors = request.problems();
        if errors.is_empty() {
            Ok((request, reason))
        } else {
            Err(AppError::with_fields(Code::Invalid, "the change cannot be planned as it is asked for", errors))
        }
    }

    fn problems(&self) -> Vec<FieldProblem> {
        let mut errors = Vec::new();
        let mut note = |field: &str, message: &str| {
            errors.push(FieldProblem::new(field, message));
        };
        let (create, upgrade) = (self.kind == ChangeKind::Create, self.kind == ChangeKind::Upgrade);
        if (create || upgrade) && self.version.is_none() {
            note("version", "name the version to install");
        }
        if !(create || upgrade) && self.profile.is_some() {
            note("profile", "a profile can be chosen for `create` and `upgrade` only");
        }
        if self.kind == ChangeKind::Reconfigure && self.answers.is_empty() && self.policy.is_empty() {
            note("answers", "give at least one answer or policy to change");
        }
        if self.kind == ChangeKind::Remove && !self.policy.is_empty() {
            note("policy", "a removal follows the policy its deployment has; reconfigure it before");
        }
        if self.kind == ChangeKind::Remove && !self.answers.is_empty() {
            note("answers", "a removal takes no answers");
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

    /// Devices that were not named one by one may be left out.
    pub(super) fn may_leave_out(&self) -> bool {
        self.skip_unfit
    }
}

/// A change as it would be recorded.
#[derive(Debug)]
pub(super) struct Planned {
    /// The version afterwards; for a removal, what is removed.
    pub(super) version: String,
    pub(super) targets: Vec<PlannedTarget>,
    pub(super) left_out: Vec<wire::LeftOut>,
}

#[derive(Debug)]
pub(super) struct PlannedTarget {
    pub(super) target: ChangeTarget,
    /// What the deployment is now, for one that exists.
    pub(super) present: Option<Deployment>,
    /// Description of the version it is on now.
    pub(super) from: Option<Arc<ApplicationDescription>>,
    /// Description of the version it will be on; none for a removal.
    pub(super) to: Option<Arc<ApplicationDescription>>,
    pub(super) convergence: Option<margrave_core::convergence::Convergence>,
    /// The device has not been heard of for a while.
    pub(super) silent: bool,
}

impl PlannedTarget {
    /// What is asked for as sensitive before or after.
    pub(super) fn sensitive(&self) -> Sensitive {
        let described = [&self.from, &self.to].into_iter().flatten();
        let sensitive = described.map(|description| Sensitive::of(Some(description)));
        sensitive.fold(Sensitive::Some(Vec::new()), Sensitive::or)
    }
}

/// Refuses a change because of some of its devices; the first of them are named.
pub(super) fn refuse(code: Code, what: &str, next: &str, mut errors: Vec<FieldProblem>) -> AppError {
    let count = errors.len();
    let devices = if count == 1 { "1 device".to_owned() } else { format!("{count} devices") };
    let named =
        if count > PROBLEMS_NAMED_MAX { format!(" (the first {PROBLEMS_NAMED_MAX} are named)") } else { String::new() };
    errors.truncate(PROBLEMS_NAMED_MAX);
    AppError::with_fields(code, format!("{devices} {what}{named}; {next}"), errors)
}

/// Answers that are wrong, each under the name of its parameter; values of sensitive ones are not repeated.
pub(super) fn refuse_answers(errors: Vec<AnswerError>, sensitive: &Sensitive) -> AppError {
    let mut errors = field_problems(errors);
    for error in &mut errors {
        if error.field == "profile" {
            continue;
        }
        if sensitive.has(&error.field) {
            "this value is not accepted".clone_into(&mut error.message);
        }
        error.field = format!("answers.{}", error.field);
    }
    AppError::with_fields(Code::Invalid, "some answers are not accepted; correct them and try again", errors)
}

/// Somebody who reads a deployment and sends it back must not make the mask the secret.
pub(super) fn refuse_masks(answers: &Answers, sensitive: &Sensitive) -> AppResult<()> {
    let errors: Vec<FieldProblem> = answers
        .iter()
        .filter(|(name, value)| sensitive.has(name) && value.as_str() == Some(MASK))
        .map(|(name, _)| {
            let message = "this is what a hidden value is shown as; give the value itself, or leave it out to keep it";
            FieldProblem::new(format!("answers.{name}"), message)
        })
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(AppError::with_fields(Code::Invalid, "some answers are not accepted; correct them and try again", errors))
    }
}
