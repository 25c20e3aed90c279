//! Groups: named label selectors. Members are evaluated on request.

use super::access::Caller;
use super::error::{AppError, AppResult, Code};
use super::paging::{Paging, page};
use super::{devices, error};
use crate::state::ServerState;
use margrave_api::devices as wire;
use margrave_api::page::Page;
use margrave_core::model::Group;
use margrave_core::selector::LabelSelector;
use margrave_store::{DeviceFilter, DeviceSearch, StoreError};

/// Attempts of an update without a revision while others update the same group.
const CHANGE_ROUNDS_MAX: usize = 5;
const NAME_CHARS_MAX: usize = 100;
const DESCRIPTION_CHARS_MAX: usize = 500;

pub async fn list(state: &ServerState, paging: &Paging) -> AppResult<Page<wire::Group>> {
    let limit = paging.limit()?;
    let after: Option<String> = paging.after()?;
    let rows = state.store.groups_page(after.as_deref(), limit + 1).await?;
    Ok(page(rows, limit, |group| group.name.clone(), to_wire))
}

pub async fn get(state: &ServerState, name: &str) -> AppResult<wire::Group> {
    Ok(to_wire(existing(state, name).await?))
}

pub async fn put(
    state: &ServerState,
    caller: &Caller,
    name: &str,
    body: wire::PutGroup,
    expected: Option<i64>,
) -> AppResult<wire::Group> {
    check_name(name)?;
    devices::selector(Some(&body.selector))?;
    if body.description.as_ref().is_some_and(|text| text.chars().count() > DESCRIPTION_CHARS_MAX) {
        return Err(AppError::invalid("description", format!("write at most {DESCRIPTION_CHARS_MAX} characters")));
    }
    let actor = caller.actor(body.comment);
    let (description, now) = (body.description, state.now());
    let store = match expected {
        None => {
            let (name, selector) = (name.to_owned(), body.selector.clone());
            let made = Group { name, selector, description: description.clone(), created_at: now, revision: 1 };
            caller.store(state, &to_wire(made))
        }
        // The previous state is known only after reading; repeating the same update is harmless.
        Some(_) => state.store.clone(),
    };
    let put = store.group_put(&actor, name, &body.selector, description.as_deref(), expected, now).await;
    match put {
        Err(StoreError::Exists { what }) => Err(AppError::refused(
            Code::Exists,
            format!("{what} already exists; send its revision as `If-Match` to change it"),
        )),
        other => Ok(to_wire(other?)),
    }
}

/// Updates a group regardless of its revision; fails when it does not exist.
pub async fn update(state: &ServerState, caller: &Caller, name: &str, body: wire::PutGroup) -> AppResult<wire::Group> {
    for _ in 0..CHANGE_ROUNDS_MAX {
        let revision = existing(state, name).await?.revision;
        match put(state, caller, name, body.clone(), Some(revision)).await {
            // Another update was faster.
            Err(AppError::Refused { code: Code::Conflict, .. }) => {}
            other => return other,
        }
    }
    Err(AppError::refused(Code::Conflict, format!("group `{name}` is being changed concurrently; try again")))
}

pub async fn delete(
    state: &ServerState,
    caller: &Caller,
    name: &str,
    reason: Option<String>,
    expected: Option<i64>,
) -> AppResult<()> {
    if state.store.group_delete(&caller.actor(reason), name, expected, state.now()).await? {
        Ok(())
    } else {
        Err(missing(name))
    }
}

pub async fn members(state: &ServerState, name: &str, paging: &Paging) -> AppResult<Page<wire::Device>> {
    let filter = DeviceFilter { client: None, selector: selector(state, name).await? };
    devices::list_filtered(state, &filter, paging).await
}

/// Members of a group with this selector, and the difference from its current members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MembershipDiff {
    pub members: u64,
    pub come: u64,
    pub go: u64,
}

/// The effect of another selector on a group; `name` names an existing group, if any. Three counts, no list.
pub async fn moved(state: &ServerState, name: Option<&str>, text: &str) -> AppResult<MembershipDiff> {
    let requested = devices::selector(Some(text))?;
    let count = async |selector: LabelSelector| {
        let search = DeviceSearch { selector, offline_before: state.offline_before(), ..DeviceSearch::default() };
        state.store.devices_matching(&search).await
    };
    let members = count(requested.clone()).await?;
    let present = match name {
        Some(name) => match state.store.group_get(name).await? {
            Some(_) => selector(state, name).await?,
            None => return Ok(MembershipDiff { members, come: members, go: 0 }),
        },
        None => return Ok(MembershipDiff { members, come: members, go: 0 }),
    };
    let mut both = present.clone();
    both.requirements.extend(requested.requirements);
    let (before, both) = (count(present).await?, count(both).await?);
    Ok(MembershipDiff { members, come: members.saturating_sub(both), go: before.saturating_sub(both) })
}

pub(crate) async fn selector(state: &ServerState, name: &str) -> AppResult<LabelSelector> {
    let group = existing(state, name).await?;
    LabelSelector::parse(&group.selector).map_err(|problem| {
        error::AppError::Store(StoreError::Inconsistent { table: "groups", problem: problem.to_string() })
    })
}

async fn existing(state: &ServerState, name: &str) -> AppResult<Group> {
    state.store.group_get(name).await?.ok_or_else(|| missing(name))
}

fn missing(name: &str) -> AppError {
    AppError::not_found(format_args!("group `{name}`"))
}

fn check_name(name: &str) -> AppResult<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(allowed) {
        let message = format!("a group name has 1 to {NAME_CHARS_MAX} letters, digits, `.`, `_` and `-`");
        return Err(AppError::invalid("name", message));
    }
    Ok(())
}

fn to_wire(group: Group) -> wire::Group {
    let Group { name, selector, description, created_at, revision } = group;
    wire::Group { name, selector, description, created_at: created_at.to_string(), revision }
}
