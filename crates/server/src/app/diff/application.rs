//! Two versions of an application.

use super::fields::{compare, of_description};
use super::{lines, unified};
use crate::app::applications::{application_id, described};
use crate::app::error::AppResult;
use crate::app::mask::{MASK, Sensitive};
use crate::state::ServerState;
use margo::description::ApplicationDescription;
use margrave_api::diff as wire;

/// Which two versions.
#[derive(Debug, Clone, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct VersionsQuery {
    /// The version to start from.
    pub from: String,
    /// The version to compare it with.
    pub to: String,
}

pub async fn application(state: &ServerState, id: &str, query: &VersionsQuery) -> AppResult<wire::ApplicationDiff> {
    let id = application_id(id)?;
    let (_, before) = described(state, &id, &query.from).await?;
    let (_, after) = described(state, &id, &query.to).await?;
    let sensitive = Sensitive::of(Some(&before)).or(Sensitive::of(Some(&after)));
    let (before, after) = (masked(&before, &sensitive), masked(&after, &sensitive));
    let lines = lines(&before.to_yaml(), &after.to_yaml());
    let unified = unified(&format!("{id} {}", query.from), &format!("{id} {}", query.to), &lines);
    let fields = compare(&of_description(&before), &of_description(&after));
    Ok(wire::ApplicationDiff {
        application: id.to_string(),
        from: query.from.clone(),
        to: query.to.clone(),
        same: fields.is_empty() && unified.is_empty(),
        fields,
        lines,
        unified,
    })
}

/// PRM-09: a sensitive default is used, not shown.
fn masked(description: &ApplicationDescription, sensitive: &Sensitive) -> ApplicationDescription {
    let mut description = description.clone();
    for (name, parameter) in &mut description.parameters {
        if parameter.value.is_some() && sensitive.has(name) {
            parameter.value = Some(MASK.into());
        }
    }
    description
}
