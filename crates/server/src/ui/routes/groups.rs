//! Groups: named label selectors. Members are computed on each request.

use crate::app::error::{AppError, Code};
use crate::app::fleet::{self, Search};
use crate::app::groups::{self, MembershipDiff};
use crate::app::overview;
use crate::app::paging::Paging;
use crate::app::sorting::Order;
use crate::ui::confirm::{Confirmation, confirm};
use crate::ui::errors::UiError;
use crate::ui::form::Posted;
use crate::ui::routes::devices::{Row, row};
use crate::ui::routes::heads::{Compare, Heads, sort_rows};
use crate::ui::routes::query::Params;
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use margrave_api::devices::{Group, PutGroup};

#[derive(Template)]
#[template(path = "groups/list.html", blocks = ["live", "nav"])]
struct ListPage {
    shell: Shell,
    heads: Heads,
    groups: Vec<(Group, u64)>,
    next: Option<String>,
}
pages!(ListPage);

#[derive(Template)]
#[template(path = "groups/edit.html", blocks = ["live", "nav"])]
struct EditPage {
    shell: Shell,
    /// None for a new one.
    group: Option<Group>,
    name: String,
    selector: String,
    description: String,
    revision: String,
    members: Option<u64>,
    /// The first of them.
    rows: Vec<Row>,
    /// Applications that can be deployed to it: id and name.
    applications: Vec<(String, String)>,
    /// The effect of saving, and the selector it was computed for.
    effect: String,
    counted: String,
    /// The effect was just shown, and the operator has to confirm it.
    needs_confirmation: bool,
    comment: String,
    wrong: Option<FormErrors>,
}
pages!(EditPage);

/// Members shown on the page of a group; the device list shows all of them.
const MEMBERS_SHOWN: u32 = 20;

/// Why a group was not saved.
struct FormErrors {
    /// For `data-reason`.
    code: &'static str,
    title: String,
    /// Field and message.
    errors: Vec<(String, String)>,
    /// What another operator saved in the meantime: field, current value, typed value.
    differs: Vec<(&'static str, String, String)>,
}

impl EditPage {
    /// Whether this field has an error.
    fn is_wrong(&self, field: &str) -> bool {
        self.wrong.as_ref().is_some_and(|wrong| wrong.errors.iter().any(|(known, _)| known == field))
    }
}

pub(in crate::ui) async fn list(visit: Visit, params: Params) -> PageResult {
    let page = groups::list(&visit.state, &params.paging()).await?;
    let mut shown = Vec::with_capacity(page.items.len());
    for group in page.items {
        let members = members(&visit, &group.name).await?;
        shown.push((group, members));
    }
    let sort = params.text("sort");
    let columns: [(&str, Compare<(Group, u64)>); 2] = [
        ("name", |(one, _), (other, _)| one.name.cmp(&other.name)),
        ("devices", |(_, one), (_, other)| one.cmp(other)),
    ];
    sort_rows(&mut shown, &sort, &columns);
    let shell = visit.shell(Section::Devices, "Groups").await?;
    visit.show(&ListPage { shell, heads: Heads::new("/groups", &[], &sort), groups: shown, next: page.next })
}

async fn members(visit: &Visit, name: &str) -> Result<u64, UiError> {
    let search = Search { group: Some(name.to_owned()), ..Search::default() };
    Ok(fleet::counted(&visit.state, &search).await?.values().sum())
}

pub(in crate::ui) async fn new(visit: Visit) -> PageResult {
    let shell = visit.shell(Section::Devices, "New group").await?;
    visit.show(&EditPage::of(shell, None, String::new()))
}

/// The effect of saving a group with this selector, as a sentence.
fn effect(moved: &MembershipDiff, exists: bool) -> String {
    let members = format!("The group will have {}", words::count(moved.members, "device"));
    match (moved.come, moved.go) {
        _ if !exists => format!("{members}."),
        (0, 0) => format!("{members}: no change."),
        (come, go) => format!("{members}: {} added, {} removed.", words::thousands(come), words::thousands(go)),
    }
}

/// Shows the effect of a selector while it is being typed. Saves nothing.
pub(in crate::ui) async fn check(Path(name): Path<String>, posted: Posted) -> PageResult {
    let group = groups::get(posted.state(), &name).await.ok();
    let selector = posted.form.text("selector").to_owned();
    let shell = posted.visit.shell(Section::Devices, "Group").await?;
    let mut page = EditPage::of(shell, group, name);
    if !selector.is_empty() {
        page.show_effect(&posted, &selector).await?;
    }
    posted.visit.show(&page)
}

pub(in crate::ui) async fn edit(visit: Visit, params: Params, Path(name): Path<String>) -> PageResult {
    let group = groups::get(&visit.state, &name).await?;
    if params.get("ask").as_deref() == Some("delete") {
        let confirmation = Confirmation {
            title: format!("Delete group {name}?"),
            text: vec!["Its devices and their deployments do not change.".to_owned()],
            devices: Some(0),
            action: format!("/groups/{name}"),
            fields: vec![("action", "delete".to_owned()), ("revision", group.revision.to_string())],
            verb: "delete",
            button: "Delete group".to_owned(),
            danger: true,
            back: format!("/groups/{name}"),
        };
        return confirm(&visit, Section::Devices, confirmation).await;
    }
    let shell = visit.shell(Section::Devices, format!("{name} - Group")).await?;
    let mut page = EditPage::of(shell, Some(group), name);
    page.fill(&visit).await?;
    visit.show(&page)
}

impl EditPage {
    /// The form for an existing group, or for a new one.
    fn of(shell: Shell, group: Option<Group>, name: String) -> Self {
        let selector = group.as_ref().map(|group| group.selector.clone()).unwrap_or_default();
        Self {
            shell,
            name,
            description: group.as_ref().and_then(|group| group.description.clone()).unwrap_or_default(),
            revision: group.as_ref().map(|group| group.revision.to_string()).unwrap_or_default(),
            counted: selector.clone(),
            selector,
            group,
            members: None,
            rows: Vec::new(),
            applications: Vec::new(),
            effect: String::new(),
            needs_confirmation: false,
            comment: String::new(),
            wrong: None,
        }
    }

    /// Loads the members, and the applications that can be deployed.
    async fn fill(&mut self, visit: &Visit) -> Result<(), UiError> {
        let search = Search { group: Some(self.name.clone()), ..Search::default() };
        let first = Paging { limit: Some(MEMBERS_SHOWN), after: None };
        let names = &overview::get(&visit.state).await?.names;
        let found = fleet::list(&visit.state, &search, Order::default(), &first).await?;
        self.rows = found.items.into_iter().map(|listed| row(listed, names)).collect();
        self.members = Some(members(visit, &self.name).await?);
        self.applications = names.iter().map(|(id, name)| (id.clone(), name.clone())).collect();
        self.applications.sort_by(|one, other| one.1.cmp(&other.1));
        Ok(())
    }

    /// Shows the effect of this selector, or what is wrong with it.
    async fn show_effect(&mut self, posted: &Posted, selector: &str) -> Result<(), UiError> {
        let name = self.group.as_ref().map(|group| group.name.as_str());
        match groups::moved(posted.state(), name, selector).await {
            Ok(moved) => {
                self.effect = effect(&moved, name.is_some());
                selector.clone_into(&mut self.counted);
            }
            // A selector is often invalid while it is being typed.
            Err(AppError::Refused { detail, errors, .. }) => {
                let detail = errors.into_iter().map(|error| error.message).next().unwrap_or(detail);
                self.effect = format!("Not valid yet: {}", detail.replace('`', ""));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

pub(in crate::ui) async fn create(posted: Posted) -> PageResult {
    let name = posted.form.text("name").to_owned();
    let body = body(&posted);
    let made = posted.once(groups::put(posted.state(), posted.caller(), &name, body, None)).await;
    match made {
        Ok(_) => Ok(go(&format!("/groups/{name}"), Some(("group-created", &format!("Group {name} created."))))),
        Err(error) => again(posted, None, error).await,
    }
}

pub(in crate::ui) async fn update(Path(name): Path<String>, posted: Posted) -> PageResult {
    let (state, caller, revision) = (posted.state(), posted.caller(), posted.form.number("revision"));
    if posted.form.text("action") == "delete" {
        groups::delete(state, caller, &name, posted.comment(), revision).await?;
        return Ok(go("/groups", Some(("group-deleted", &format!("Group {name} deleted.")))));
    }
    // The selector decides about membership, so show its effect before saving a new one.
    let selector = posted.form.text("selector");
    let now = groups::get(state, &name).await?;
    let same = now.selector == selector || posted.form.text("counted") == selector;
    if !same && Some(now.revision) == revision && groups::moved(state, Some(&name), selector).await.is_ok() {
        let shell = posted.visit.shell(Section::Devices, format!("{name} - Save?")).await?;
        let mut page = EditPage::of(shell, Some(now), name);
        page.fill(&posted.visit).await?;
        page.show_effect(&posted, selector).await?;
        selector.clone_into(&mut page.selector);
        posted.form.text("description").clone_into(&mut page.description);
        posted.form.text("comment").clone_into(&mut page.comment);
        page.needs_confirmation = true;
        return posted.visit.show(&page);
    }
    match groups::put(state, caller, &name, body(&posted), Some(revision.unwrap_or_default())).await {
        Ok(_) => Ok(go(&format!("/groups/{name}"), Some(("group-saved", "Group saved.")))),
        Err(error) => again(posted, Some(name), error).await,
    }
}

fn body(posted: &Posted) -> PutGroup {
    PutGroup {
        selector: posted.form.text("selector").to_owned(),
        description: posted.form.given("description"),
        comment: posted.comment(),
    }
}

/// Every field whose current value differs from what was typed.
fn differs(now: &Group, selector: &str, description: &str) -> Vec<(&'static str, String, String)> {
    let described = now.description.as_deref().unwrap_or_default();
    [("Label selector", now.selector.as_str(), selector), ("Description", described, description)]
        .into_iter()
        .filter(|(_, now, typed)| now != typed)
        .map(|(field, now, typed)| (field, now.to_owned(), typed.to_owned()))
        .collect()
}

/// The form again, with what is wrong.
async fn again(posted: Posted, existing: Option<String>, error: AppError) -> PageResult {
    let AppError::Refused { code, detail, errors } = error else { return Err(error.into()) };
    let group = match &existing {
        Some(name) => Some(groups::get(posted.state(), name).await?),
        None => None,
    };
    let form = &posted.form;
    let differs = match &group {
        Some(group) if code == Code::Conflict => differs(group, form.text("selector"), form.text("description")),
        _ => Vec::new(),
    };
    let title = match code {
        Code::Conflict if differs.is_empty() => {
            "Another operator changed this group in the meantime, to the same values. Save again to confirm.".to_owned()
        }
        Code::Conflict => "Another operator changed this group in the meantime. Compare, then save again.".to_owned(),
        Code::Exists => "A group with this name already exists. Enter another name.".to_owned(),
        // The list below has the details.
        _ if !errors.is_empty() => "The group was not saved.".to_owned(),
        _ => words::capital(&detail),
    };
    let shell = posted.visit.shell(Section::Devices, "Group not saved").await?;
    let mut page = EditPage::of(shell, group, existing.unwrap_or_else(|| form.text("name").to_owned()));
    form.text("selector").clone_into(&mut page.selector);
    form.text("description").clone_into(&mut page.description);
    form.text("comment").clone_into(&mut page.comment);
    if page.group.is_some() {
        page.fill(&posted.visit).await?;
        // The error above already covers the selector.
        if !errors.iter().any(|error| error.field == "selector") {
            page.show_effect(&posted, form.text("selector")).await?;
        }
    }
    page.wrong = Some(FormErrors {
        code: code.as_str(),
        title,
        errors: errors.into_iter().map(|error| (error.field, words::capital(&error.message))).collect(),
        differs,
    });
    let status = if code == Code::Conflict { StatusCode::CONFLICT } else { StatusCode::UNPROCESSABLE_ENTITY };
    posted.visit.show_with(status, &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_the_effect_of_a_selector() {
        let moved = |members, come, go| MembershipDiff { members, come, go };
        assert_eq!(effect(&moved(3, 3, 0), false), "The group will have 3 devices.");
        assert_eq!(effect(&moved(3, 0, 0), true), "The group will have 3 devices: no change.");
        assert_eq!(effect(&moved(1200, 1, 1100), true), "The group will have 1,200 devices: 1 added, 1,100 removed.");
        assert_eq!(effect(&moved(1, 0, 1), true), "The group will have 1 device: 0 added, 1 removed.");
    }
}
