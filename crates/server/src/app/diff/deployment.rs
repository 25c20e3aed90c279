//! Compares two revisions of a deployment, or the desired and the reported one.

use super::fields::{Fields, compare, of_deployment};
use super::{lines, unified};
use crate::app::deployments::{self, Masks, status_to_wire};
use crate::app::error::{AppError, AppResult};
use crate::app::mask::Sensitive;
use crate::state::ServerState;
use margo::deployment::ApplicationDeployment;
use margo::status::{DeploymentStatus, State};
use margrave_api::diff as wire;
use margrave_core::model::{Deployment, DeploymentRevision, Desired, Reported, RolloutKind};

/// Which two.
#[derive(Debug, Clone, Default, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DiffQuery {
    /// A revision, `desired` or `reported`; without it the revision before `to`.
    pub from: Option<String>,
    /// A revision, `desired` (the newest revision) or `reported`; `desired` unless given.
    pub to: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Revision(i64),
    Reported,
}

/// One side, loaded.
struct Side {
    wire: wire::DiffSide,
    revision: Option<DeploymentRevision>,
    /// `None`: there is no document, or it is unknown.
    document: Option<ApplicationDeployment>,
}

pub async fn deployment(state: &ServerState, id: &str, query: &DiffQuery) -> AppResult<wire::DeploymentDiff> {
    let view = deployments::existing(state, id).await?;
    let deployment = view.deployment;
    let to = which("to", query.to.as_deref(), &deployment)?.unwrap_or(Which::Revision(deployment.revision));
    let from = which("from", query.from.as_deref(), &deployment)?.unwrap_or(match to {
        Which::Revision(revision) => Which::Revision(revision - 1),
        Which::Reported => Which::Revision(deployment.revision),
    });
    let revisions = state.store.deployment_revisions(deployment.id).await?;
    let mut known = Masks::default();
    let mut sides = Vec::with_capacity(2);
    for one in [from, to] {
        let side = load(state, &deployment, &revisions, view.reported.as_ref(), one).await?;
        if let Some(revision) = &side.revision {
            known.learn(state, &deployment.application, &revision.version).await?;
        }
        sides.push(side);
    }
    // A value that is secret in one version is secret in the other, whatever its name there.
    let sensitive = sides
        .iter()
        .filter_map(|side| side.revision.as_ref())
        .map(|revision| known.get(&deployment.application, &revision.version))
        .fold(Sensitive::Some(Vec::new()), Sensitive::or);
    let (Some(to_side), Some(from_side)) = (sides.pop(), sides.pop()) else { unreachable!("two were pushed") };
    let reported = view.reported.as_ref().filter(|_| from == Which::Reported || to == Which::Reported);
    Ok(show(&deployment, from_side, to_side, &sensitive, reported))
}

fn which(field: &str, text: Option<&str>, deployment: &Deployment) -> AppResult<Option<Which>> {
    Ok(match text {
        None => None,
        Some("reported") => Some(Which::Reported),
        Some("desired") => Some(Which::Revision(deployment.revision)),
        Some(text) => match text.parse() {
            Ok(revision @ 0..) => Some(Which::Revision(revision)),
            _ => return Err(AppError::invalid(field, "write the number of a revision, `desired` or `reported`")),
        },
    })
}

async fn load(
    state: &ServerState,
    deployment: &Deployment,
    revisions: &[DeploymentRevision],
    reported: Option<&Reported>,
    which: Which,
) -> AppResult<Side> {
    let number = match which {
        // There is nothing before the first revision.
        Which::Revision(0) => return Ok(nothing(wire::DiffSideKind::Nothing, "nothing".to_owned(), None)),
        Which::Revision(number) => number,
        Which::Reported => match adopted(revisions, reported) {
            Ok(revision) => revision.revision,
            Err((kind, name)) => return Ok(nothing(kind, name, reported)),
        },
    };
    let missing = || {
        let stored: Vec<String> = revisions.iter().map(|revision| revision.revision.to_string()).collect();
        let what = format!("revision {number} of deployment {} (kept: {})", deployment.id, stored.join(", "));
        AppError::not_found(what)
    };
    let revision = revisions.iter().find(|known| known.revision == number).ok_or_else(missing)?;
    let document = if revision.action == RolloutKind::Remove {
        None
    } else {
        let bytes = state.store.deployment_document(deployment.id, number).await?.ok_or_else(missing)?;
        ApplicationDeployment::read(&bytes).ok().map(|read| read.document)
    };
    let (kind, at) = match which {
        Which::Reported => (wire::DiffSideKind::Reported, reported.map(|reported| reported.received_at)),
        Which::Revision(_) => (wire::DiffSideKind::Revision, Some(revision.at)),
    };
    let what = if revision.action == RolloutKind::Remove { "removal" } else { &revision.version };
    let reported_text = if kind == wire::DiffSideKind::Reported { "reported: " } else { "" };
    let wire = wire::DiffSide {
        kind,
        name: format!("{reported_text}revision {number} ({what})"),
        revision: Some(number),
        version: Some(revision.version.clone()),
        manifest_version: Some(revision.manifest_version),
        at: at.map(|at| at.to_string()),
    };
    Ok(Side { wire, revision: Some(revision.clone()), document })
}

/// The reported revision: the newest that was published with the adopted manifest, or before.
fn adopted<'a>(
    revisions: &'a [DeploymentRevision],
    reported: Option<&Reported>,
) -> Result<&'a DeploymentRevision, (wire::DiffSideKind, String)> {
    let Some(reported) = reported else {
        return Err((wire::DiffSideKind::Nothing, "reported: nothing yet".to_owned()));
    };
    if reported.state == State::Removed {
        return Err((wire::DiffSideKind::Nothing, "reported: removed".to_owned()));
    }
    if reported.adopted_version == 0 {
        let name = "reported: a manifest without a version".to_owned();
        return Err((wire::DiffSideKind::Unknown, name));
    }
    let known = revisions.iter().find(|revision| revision.manifest_version <= reported.adopted_version);
    let lost = format!("reported: manifest {}, whose revision is no longer kept", reported.adopted_version);
    known.ok_or((wire::DiffSideKind::Unknown, lost))
}

fn nothing(kind: wire::DiffSideKind, name: String, reported: Option<&Reported>) -> Side {
    let adopted = reported.map(|reported| reported.adopted_version).filter(|version| *version != 0);
    let at = reported.map(|reported| reported.received_at.to_string());
    let wire = wire::DiffSide { kind, name, revision: None, version: None, manifest_version: adopted, at };
    Side { wire, revision: None, document: None }
}

fn show(
    deployment: &Deployment,
    from: Side,
    to: Side,
    sensitive: &Sensitive,
    reported: Option<&Reported>,
) -> wire::DeploymentDiff {
    let masked = |side: &Side, previous: Option<&ApplicationDeployment>| {
        let mut document = side.document.clone()?;
        sensitive.mask_document(&mut document, previous);
        Some(document)
    };
    let (before, after) = (masked(&from, None), masked(&to, from.document.as_ref()));
    let unknown = [&from, &to].iter().any(|side| side.wire.kind == wire::DiffSideKind::Unknown);
    let text =
        |document: Option<&ApplicationDeployment>| document.map(ApplicationDeployment::to_yaml).unwrap_or_default();
    // Compared with an unknown document every line would be new, which would be misleading.
    let lines = if unknown { Vec::new() } else { lines(&text(before.as_ref()), &text(after.as_ref())) };
    let fields = |document: Option<&ApplicationDeployment>, side: &Side| match (document, &side.revision) {
        (Some(document), Some(revision)) => of_deployment(document, &revision.version, &revision.profile),
        _ => Fields::new(),
    };
    let fields =
        if unknown { Vec::new() } else { compare(&fields(before.as_ref(), &from), &fields(after.as_ref(), &to)) };
    let unified = unified(&from.wire.name, &to.wire.name, &lines);
    let components = reported.map(|reported| components(deployment, reported, &from, &to)).unwrap_or_default();
    wire::DeploymentDiff {
        deployment: deployment.id.to_string(),
        same: !unknown && fields.is_empty() && unified.is_empty() && components.is_empty(),
        from: from.wire,
        to: to.wire,
        fields,
        lines,
        unified,
        status: reported.map(status_to_wire),
        components,
    }
}

/// Components that are not in their desired state.
fn components(deployment: &Deployment, reported: &Reported, from: &Side, to: &Side) -> Vec<wire::ComponentDiff> {
    let desired = match deployment.desired {
        Desired::Present => State::Installed,
        Desired::Absent => State::Removed,
    };
    let status = DeploymentStatus::read(&reported.body).ok().map(|read| read.document);
    let reported_text = |name: &str| {
        let components = &status.as_ref()?.components;
        components.iter().find(|component| component.name == name).map(|component| component.state)
    };
    let documents = [from, to].into_iter().filter_map(|side| side.document.as_ref());
    let mut names: Vec<String> = Vec::new();
    let requested = documents.flat_map(|document| &document.spec.deployment_profile.components).map(|one| &one.name);
    for name in requested.chain(status.iter().flat_map(|status| &status.components).map(|component| &component.name)) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
        .into_iter()
        .filter(|name| reported_text(name) != Some(desired))
        .map(|name| wire::ComponentDiff {
            desired: desired.as_str().to_owned(),
            reported: reported_text(&name).map(|state| state.as_str().to_owned()),
            name,
        })
        .collect()
}
