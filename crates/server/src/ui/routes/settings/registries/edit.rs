//! Adding and editing an external registry.

use super::{HERE, checked, reached};
use crate::app::error::{AppError, Code};
use crate::app::registries;
use crate::ui::form::Posted;
use crate::ui::routes::query::Params;
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use http::StatusCode;
use margrave_api::registries::{PutRegistry, SavedRegistry};

#[derive(Template)]
#[template(path = "settings/registry_edit.html", blocks = ["live", "nav"])]
struct EditPage {
    shell: Shell,
    /// As stored; `None` for a new one.
    registry: Option<SavedRegistry>,
    typed: Typed,
    wrong: Option<FormErrors>,
}
pages!(EditPage);

/// The form, without the password.
#[derive(Default)]
struct Typed {
    host: String,
    username: String,
    ca: String,
    plain_http: bool,
    comment: String,
}

impl Typed {
    fn saved(registry: &SavedRegistry) -> Self {
        Self {
            host: registry.host.clone(),
            username: registry.username.clone().unwrap_or_default(),
            ca: registry.ca.clone().unwrap_or_default(),
            plain_http: registry.plain_http,
            comment: String::new(),
        }
    }

    fn sent(posted: &Posted) -> Self {
        let text = |name: &str| posted.form.text(name).to_owned();
        Self {
            host: text("host"),
            username: text("username"),
            ca: text("ca"),
            plain_http: posted.form.has("plainHttp"),
            comment: text("comment"),
        }
    }
}

/// Why it was not saved.
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
    fn is_wrong(&self, field: &str) -> bool {
        self.wrong.as_ref().is_some_and(|wrong| wrong.errors.iter().any(|(known, _)| known == field))
    }
}

pub(in crate::ui) async fn new(visit: Visit, params: Params) -> PageResult {
    let typed = Typed { host: params.text("host"), ..Typed::default() };
    let shell = visit.shell(Section::Settings, "Add a registry - Settings").await?;
    visit.show(&EditPage { shell, registry: None, typed, wrong: None })
}

pub(in crate::ui) async fn edit(visit: Visit, params: Params) -> PageResult {
    let registry = registries::get(&visit.state, &params.text("host")).await?;
    let shell = visit.shell(Section::Settings, format!("{} - Registries", registry.host)).await?;
    visit.show(&EditPage { shell, typed: Typed::saved(&registry), registry: Some(registry), wrong: None })
}

pub(in crate::ui) async fn create(posted: Posted) -> PageResult {
    let host = posted.form.text("host").to_owned();
    let work = registries::put(posted.state(), posted.caller(), &host, body(&posted), None);
    match posted.once(work).await {
        Ok(saved) => show_result(&posted, &saved.host, "added").await,
        Err(error) => again(posted, None, error).await,
    }
}

pub(in crate::ui) async fn update(posted: Posted) -> PageResult {
    let host = posted.form.text("host").to_owned();
    let expected = Some(posted.form.number("revision").unwrap_or_default());
    match registries::put(posted.state(), posted.caller(), &host, body(&posted), expected).await {
        Ok(saved) => show_result(&posted, &saved.host, "saved").await,
        Err(error) => {
            let known = registries::get(posted.state(), &host).await?;
            again(posted, Some(known), error).await
        }
    }
}

fn body(posted: &Posted) -> PutRegistry {
    PutRegistry {
        username: posted.form.given("username"),
        password: posted.form.raw("password").filter(|text| !text.is_empty()).map(str::to_owned),
        ca: posted.form.given("ca"),
        plain_http: posted.form.has("plainHttp"),
        comment: posted.comment(),
    }
}

/// Checks the registry immediately after saving.
async fn show_result(posted: &Posted, host: &str, done: &str) -> PageResult {
    let check = registries::check(posted.state(), &posted.caller().again(), host, posted.comment()).await?;
    Ok(go(HERE, Some((reached(check.outcome), &format!("Registry {host} {done}. {}", checked(host, check.outcome))))))
}

/// The form again, with what is wrong.
async fn again(posted: Posted, registry: Option<SavedRegistry>, error: AppError) -> PageResult {
    let AppError::Refused { code, detail, errors } = error else { return Err(error.into()) };
    let typed = Typed::sent(&posted);
    let differs = match &registry {
        Some(now) if code == Code::Conflict => differs(&Typed::saved(now), &typed),
        _ => Vec::new(),
    };
    let title = match code {
        Code::Conflict if differs.is_empty() => {
            "Another operator changed this registry in the meantime, perhaps its password. Save again to overwrite it with these values."
                .to_owned()
        }
        Code::Conflict => "Another operator changed this registry in the meantime. Compare, then save again.".to_owned(),
        Code::Exists => "This registry already exists. Edit it in the list instead.".to_owned(),
        // The list below has the details.
        _ if !errors.is_empty() => "The registry was not saved.".to_owned(),
        _ => words::capital(&detail),
    };
    let shell = posted.visit.shell(Section::Settings, "Registry not saved").await?;
    let errors = errors.into_iter().map(|error| (error.field, words::capital(&error.message))).collect();
    let page =
        EditPage { shell, registry, typed, wrong: Some(FormErrors { code: code.as_str(), title, errors, differs }) };
    let status = if code == Code::Conflict { StatusCode::CONFLICT } else { StatusCode::UNPROCESSABLE_ENTITY };
    posted.visit.show_with(status, &page)
}

/// Every field whose current value differs from what was typed.
fn differs(now: &Typed, typed: &Typed) -> Vec<(&'static str, String, String)> {
    let ca = |text: &str| {
        if text.is_empty() { String::new() } else { format!("{} of PEM", words::bytes(text.len() as u64)) }
    };
    let http = |plain: bool| if plain { "yes" } else { "no" }.to_owned();
    let mut found = Vec::new();
    if now.username != typed.username {
        found.push(("User", now.username.clone(), typed.username.clone()));
    }
    if now.ca.trim() != typed.ca {
        found.push(("CA", ca(&now.ca), ca(&typed.ca)));
    }
    if now.plain_http != typed.plain_http {
        found.push(("Plain HTTP", http(now.plain_http), http(typed.plain_http)));
    }
    found
}
