//! Groups: devices with labels in common, under a name. Who is in one is found out when it is asked for.

use crate::app::error::{AppError, Code};
use crate::app::fleet::{self, Search};
use crate::app::groups::{self, Moved};
use crate::app::overview;
use crate::app::paging::Paging;
use crate::ui::ask::{Question, ask};
use crate::ui::errors::UiError;
use crate::ui::form::Posted;
use crate::ui::routes::devices::{Row, row};
use crate::ui::routes::query::Asked;
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use margrave_api::devices::{Group, PutGroup};

#[derive(Template)]
#[template(path = "groups/list.html", blocks = ["live", "nav"])]
struct ListPage {
    shell: Shell,
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
    /// What could be deployed to it: id and name.
    applications: Vec<(String, String)>,
    /// What saving would come to, and for which labels that was told.
    told: String,
    counted: String,
    /// It was told just now, and is to be saved once more.
    asked: bool,
    reason: String,
    wrong: Option<Wrong>,
}
pages!(EditPage);

/// Members shown on the page of a group; the list of devices has them all.
const MEMBERS_SHOWN: u32 = 20;

/// Why a group was not saved.
struct Wrong {
    title: String,
    /// Field and message.
    errors: Vec<(String, String)>,
    /// What somebody else wrote in the meantime: field, what is there now, what was typed here.
    differs: Vec<(&'static str, String, String)>,
}

impl EditPage {
    /// Whether this field is one that is wrong.
    fn is_wrong(&self, field: &str) -> bool {
        self.wrong.as_ref().is_some_and(|wrong| wrong.errors.iter().any(|(known, _)| known == field))
    }
}

pub(in crate::ui) async fn list(visit: Visit, asked: Asked) -> Answer {
    let page = groups::list(&visit.state, &asked.paging()).await?;
    let mut shown = Vec::with_capacity(page.items.len());
    for group in page.items {
        let members = members(&visit, &group.name).await?;
        shown.push((group, members));
    }
    let shell = visit.shell(Section::Devices, "Groups").await?;
    visit.show(&ListPage { shell, groups: shown, next: page.next })
}

async fn members(visit: &Visit, name: &str) -> Result<u64, UiError> {
    let search = Search { group: Some(name.to_owned()), ..Search::default() };
    Ok(fleet::counted(&visit.state, &search).await?.values().sum())
}

pub(in crate::ui) async fn new(visit: Visit) -> Answer {
    let shell = visit.shell(Section::Devices, "New group").await?;
    visit.show(&EditPage::of(shell, None, String::new()))
}

/// What saving a group with these labels would come to, in a sentence.
fn told(moved: &Moved, exists: bool) -> String {
    let in_it = format!("{} would be in it", words::count(moved.members, "device"));
    if !exists {
        return format!("{in_it}.");
    }
    let part = |count: u64, noun: &str| format!("{} {noun}", words::thousands(count));
    match (moved.come, moved.go) {
        (0, 0) => format!("{in_it}: the same as now."),
        (come, 0) => format!("{in_it}: {} and none go.", part(come, if come == 1 { "comes" } else { "come" })),
        (0, go) => format!("{in_it}: none come and {}.", part(go, if go == 1 { "goes" } else { "go" })),
        (come, go) => format!(
            "{in_it}: {} and {}.",
            part(come, if come == 1 { "comes" } else { "come" }),
            part(go, if go == 1 { "goes" } else { "go" })
        ),
    }
}

/// Says who would come and go while the labels are being written. Nothing is kept.
pub(in crate::ui) async fn check(Path(name): Path<String>, posted: Posted) -> Answer {
    let group = groups::get(posted.state(), &name).await.ok();
    let selector = posted.form.text("selector").to_owned();
    let shell = posted.visit.shell(Section::Devices, "Group").await?;
    let mut page = EditPage::of(shell, group, name);
    if !selector.is_empty() {
        page.tell(&posted, &selector).await?;
    }
    posted.visit.show(&page)
}

pub(in crate::ui) async fn edit(visit: Visit, asked: Asked, Path(name): Path<String>) -> Answer {
    let group = groups::get(&visit.state, &name).await?;
    if asked.get("ask").as_deref() == Some("delete") {
        let question = Question {
            title: format!("Delete group {name}?"),
            text: vec!["Its devices and what runs on them stay as they are.".to_owned()],
            devices: Some(0),
            action: format!("/groups/{name}"),
            fields: vec![("action", "delete".to_owned()), ("revision", group.revision.to_string())],
            button: "Delete this group".to_owned(),
            danger: true,
            back: format!("/groups/{name}"),
        };
        return ask(&visit, Section::Devices, question).await;
    }
    let shell = visit.shell(Section::Devices, format!("{name} - Group")).await?;
    let mut page = EditPage::of(shell, Some(group), name);
    page.fill(&visit).await?;
    visit.show(&page)
}

impl EditPage {
    /// A group as it is; without one, a form for a new one.
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
            told: String::new(),
            asked: false,
            reason: String::new(),
            wrong: None,
        }
    }

    /// Who is in it, and what could be deployed there.
    async fn fill(&mut self, visit: &Visit) -> Result<(), UiError> {
        let search = Search { group: Some(self.name.clone()), ..Search::default() };
        let first = Paging { limit: Some(MEMBERS_SHOWN), after: None };
        let names = &overview::get(&visit.state).await?.names;
        let found = fleet::list(&visit.state, &search, &first).await?;
        self.rows = found.items.into_iter().map(|listed| row(listed, names)).collect();
        self.members = Some(members(visit, &self.name).await?);
        self.applications = names.iter().map(|(id, name)| (id.clone(), name.clone())).collect();
        self.applications.sort_by(|one, other| one.1.cmp(&other.1));
        Ok(())
    }

    /// Says who would come and go with these labels, or what is wrong with them.
    async fn tell(&mut self, posted: &Posted, selector: &str) -> Result<(), UiError> {
        let name = self.group.as_ref().map(|group| group.name.as_str());
        match groups::moved(posted.state(), name, selector).await {
            Ok(moved) => {
                self.told = told(&moved, name.is_some());
                selector.clone_into(&mut self.counted);
            }
            // Labels that are being typed are often wrong for a moment.
            Err(AppError::Refused { detail, errors, .. }) => {
                let detail = errors.into_iter().map(|error| error.message).next().unwrap_or(detail);
                self.told = format!("Not yet: {}", detail.replace('`', ""));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

pub(in crate::ui) async fn create(posted: Posted) -> Answer {
    let name = posted.form.text("name").to_owned();
    let body = body(&posted);
    let made = posted.once(groups::put(posted.state(), posted.caller(), &name, body, None)).await;
    match made {
        Ok(_) => Ok(go(&format!("/groups/{name}"), Some(&format!("Group {name} was made.")))),
        Err(error) => again(posted, None, error).await,
    }
}

pub(in crate::ui) async fn change(Path(name): Path<String>, posted: Posted) -> Answer {
    let (state, caller, revision) = (posted.state(), posted.caller(), posted.form.number("revision"));
    if posted.form.text("action") == "delete" {
        groups::delete(state, caller, &name, posted.reason(), revision).await?;
        return Ok(go("/groups", Some(&format!("Group {name} was deleted."))));
    }
    // Labels decide who is in it: nobody changes them without having been told who comes and goes.
    let selector = posted.form.text("selector");
    let now = groups::get(state, &name).await?;
    let same = now.selector == selector || posted.form.text("counted") == selector;
    if !same && Some(now.revision) == revision && groups::moved(state, Some(&name), selector).await.is_ok() {
        let shell = posted.visit.shell(Section::Devices, format!("{name} - Save?")).await?;
        let mut page = EditPage::of(shell, Some(now), name);
        page.fill(&posted.visit).await?;
        page.tell(&posted, selector).await?;
        selector.clone_into(&mut page.selector);
        posted.form.text("description").clone_into(&mut page.description);
        posted.form.text("reason").clone_into(&mut page.reason);
        page.asked = true;
        return posted.visit.show(&page);
    }
    match groups::put(state, caller, &name, body(&posted), Some(revision.unwrap_or_default())).await {
        Ok(_) => Ok(go(&format!("/groups/{name}"), Some("The group was changed."))),
        Err(error) => again(posted, Some(name), error).await,
    }
}

fn body(posted: &Posted) -> PutGroup {
    PutGroup {
        selector: posted.form.text("selector").to_owned(),
        description: posted.form.given("description"),
        reason: posted.reason(),
    }
}

/// Every field that is another now than what was typed.
fn differs(now: &Group, selector: &str, description: &str) -> Vec<(&'static str, String, String)> {
    let described = now.description.as_deref().unwrap_or_default();
    [("Labels its devices have", now.selector.as_str(), selector), ("Description", described, description)]
        .into_iter()
        .filter(|(_, now, typed)| now != typed)
        .map(|(field, now, typed)| (field, now.to_owned(), typed.to_owned()))
        .collect()
}

/// The form once more, with what is wrong.
async fn again(posted: Posted, existing: Option<String>, error: AppError) -> Answer {
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
            "Somebody else changed this group in the meantime, to what you have written. Save again to confirm it."
                .to_owned()
        }
        Code::Conflict => "Somebody else changed this group in the meantime. Compare, then save again.".to_owned(),
        Code::Exists => "There is a group of this name already. Choose another name.".to_owned(),
        // The list below says the same, field by field.
        _ if !errors.is_empty() => "The group was not saved.".to_owned(),
        _ => words::capital(&detail),
    };
    let shell = posted.visit.shell(Section::Devices, "Group not saved").await?;
    let mut page = EditPage::of(shell, group, existing.unwrap_or_else(|| form.text("name").to_owned()));
    form.text("selector").clone_into(&mut page.selector);
    form.text("description").clone_into(&mut page.description);
    form.text("reason").clone_into(&mut page.reason);
    if page.group.is_some() {
        page.fill(&posted.visit).await?;
        // What is wrong with the labels stands above.
        if !errors.iter().any(|error| error.field == "selector") {
            page.tell(&posted, form.text("selector")).await?;
        }
    }
    page.wrong = Some(Wrong {
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
    fn who_comes_and_goes_is_told_in_a_sentence() {
        let moved = |members, come, go| Moved { members, come, go };
        assert_eq!(told(&moved(3, 3, 0), false), "3 devices would be in it.");
        assert_eq!(told(&moved(3, 0, 0), true), "3 devices would be in it: the same as now.");
        assert_eq!(told(&moved(1200, 1, 1100), true), "1,200 devices would be in it: 1 comes and 1,100 go.");
        assert_eq!(told(&moved(1, 0, 1), true), "1 device would be in it: none come and 1 goes.");
    }
}
