//! Groups: devices with labels in common, under a name. Who is in one is found out when it is asked for.

use crate::app::error::{AppError, Code};
use crate::app::fleet::{self, Search};
use crate::app::groups;
use crate::ui::ask::{Question, ask};
use crate::ui::errors::UiError;
use crate::ui::form::Posted;
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
    reason: String,
    wrong: Option<Wrong>,
}
pages!(EditPage);

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
    visit.show(&EditPage {
        shell,
        group: None,
        name: String::new(),
        selector: String::new(),
        description: String::new(),
        revision: String::new(),
        members: None,
        reason: String::new(),
        wrong: None,
    })
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
    let members = members(&visit, &name).await?;
    let shell = visit.shell(Section::Devices, format!("{name} - Group")).await?;
    visit.show(&EditPage {
        shell,
        name,
        selector: group.selector.clone(),
        description: group.description.clone().unwrap_or_default(),
        revision: group.revision.to_string(),
        members: Some(members),
        group: Some(group),
        reason: String::new(),
        wrong: None,
    })
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
    let page = EditPage {
        shell,
        name: existing.unwrap_or_else(|| posted.form.text("name").to_owned()),
        selector: posted.form.text("selector").to_owned(),
        description: posted.form.text("description").to_owned(),
        revision: group.as_ref().map(|group| group.revision.to_string()).unwrap_or_default(),
        group,
        members: None,
        reason: form.text("reason").to_owned(),
        wrong: Some(Wrong {
            title,
            errors: errors.into_iter().map(|error| (error.field, words::capital(&error.message))).collect(),
            differs,
        }),
    };
    let status = if code == Code::Conflict { StatusCode::CONFLICT } else { StatusCode::UNPROCESSABLE_ENTITY };
    posted.visit.show_with(status, &page)
}
