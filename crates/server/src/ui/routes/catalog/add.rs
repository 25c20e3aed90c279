//! Adding an application: upload an archive, or import a package from a registry.

use crate::app::error::{AppError, AppResult, Code};
use crate::app::idempotency::Call;
use crate::app::registries;
use crate::catalog::{self, UPLOAD_BYTES_MAX, UploadNote};
use crate::copies;
use crate::ui::form::Posted;
use crate::ui::routes::query::{Params, link};
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use askama::Template;
use axum::extract::Multipart;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use margo::digest::Digest;
use margrave_api::applications::{ImportApplication, Imported};
use margrave_api::copies::CreateCopy;
use margrave_api::problem::FieldProblem;
use margrave_api::registries::{PutRegistry, RegistryUse, SavedRegistry};
use margrave_oci::Reference;
use margrave_oci::reference::canonical_host;
use std::sync::Arc;

#[expect(clippy::struct_excessive_bools, reason = "three checkboxes, and whether this server has a registry")]
#[derive(Template)]
#[template(path = "catalog/add.html", blocks = ["live", "nav"])]
struct AddPage {
    shell: Shell,
    source: String,
    username: String,
    plain_http: bool,
    images: bool,
    ca: String,
    hosts: bool,
    /// Saved registries, and the selected one.
    saved: Vec<SavedRegistry>,
    chosen: String,
    keep: bool,
    /// Maximum size of an archive.
    bytes_max: usize,
    /// The message for a larger archive, which the script shows before the upload.
    too_large: Wrong,
    wrong: Option<Wrong>,
}
pages!(AddPage);

struct Wrong {
    /// For `data-reason`.
    code: &'static str,
    title: String,
    /// What was entered is invalid, as opposed to a package or a registry that cannot be used.
    invalid: bool,
    detail: String,
    errors: Vec<FieldProblem>,
    /// Link to the page that fixes the problem, and its text.
    way: Option<(String, String)>,
}

/// Label of a field of the form, by its name in a problem.
fn label(field: &str) -> Option<&'static str> {
    Some(match field {
        "source" => "Image reference",
        "username" => "User name (optional)",
        "password" => "Password",
        "ca" => "Additional trusted CA (PEM)",
        _ => return None,
    })
}

impl AddPage {
    /// What is wrong with a field of the form for a registry.
    fn problem_of(&self, field: &str) -> Option<&str> {
        let wrong = self.wrong.as_ref().filter(|wrong| wrong.at_fields())?;
        wrong.errors.iter().find(|error| error.field == field).map(|error| error.message.as_str())
    }
}

impl Wrong {
    /// Every problem belongs to a field of the form, and is shown there.
    fn at_fields(&self) -> bool {
        self.invalid && !self.errors.is_empty() && self.errors.iter().all(|error| label(&error.field).is_some())
    }

    /// The problems with the labels of their fields, without repeating the sentence above them.
    fn listed(&self) -> Vec<(Option<&'static str>, &FieldProblem)> {
        let new = self.errors.iter().filter(|error| error.message != self.detail);
        new.map(|error| (label(&error.field), error)).collect()
    }

    fn labels(&self) -> Vec<(&str, &'static str)> {
        self.errors.iter().filter_map(|error| Some((error.field.as_str(), label(&error.field)?))).collect()
    }

    fn new(code: Code, detail: String, errors: Vec<FieldProblem>) -> Self {
        let title = match code {
            // Something that is not a package at all has not failed validation.
            Code::BrokenPackage if errors.is_empty() => "Nothing was added",
            Code::BrokenPackage => "Package validation failed",
            _ => code.title(),
        };
        Self { code: code.as_str(), title: title.to_owned(), invalid: code == Code::Invalid, detail, errors, way: None }
    }

    fn too_large() -> Self {
        Self::new(Code::TooLarge, catalog::too_large_words(), Vec::new())
    }
}

pub(in crate::ui) async fn form(visit: Visit, params: Params) -> PageResult {
    let mut page = blank(&visit, "Add an application").await?;
    page.chosen = params.text("registry");
    visit.show(&page)
}

async fn blank(visit: &Visit, title: &str) -> Result<AddPage, crate::ui::errors::UiError> {
    Ok(AddPage {
        shell: visit.shell(Section::Catalog, title).await?,
        source: String::new(),
        username: String::new(),
        plain_http: false,
        images: false,
        ca: String::new(),
        hosts: visit.state.registry.is_some(),
        saved: registries::list(&visit.state).await?.items,
        chosen: String::new(),
        keep: false,
        bytes_max: UPLOAD_BYTES_MAX,
        too_large: Wrong::too_large(),
        wrong: None,
    })
}

pub(in crate::ui) async fn upload(mut visit: Visit, mut parts: Multipart) -> PageResult {
    let (mut key, mut comment, mut name, mut archive) = (String::new(), None, String::new(), Bytes::new());
    let broken = |error: axum::extract::multipart::MultipartError| {
        if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
            return catalog::too_large();
        }
        AppError::refused(Code::Malformed, "the upload was interrupted; upload the archive again")
    };
    let read = async {
        while let Some(part) = parts.next_field().await.map_err(broken)? {
            match part.name().unwrap_or_default() {
                "key" => key = part.text().await.map_err(broken)?,
                "comment" => comment = Some(part.text().await.map_err(broken)?),
                "package" => {
                    part.file_name().unwrap_or_default().clone_into(&mut name);
                    archive = part.bytes().await.map_err(broken)?;
                }
                _ => {}
            }
        }
        Ok::<_, AppError>(())
    };
    if let Err(error) = read.await {
        return again(&visit, error, &blank(&visit, "").await?.source).await;
    }
    if archive.is_empty() && name.is_empty() {
        return again(&visit, AppError::invalid("package", "select the package archive first"), "").await;
    }
    if !key.is_empty() {
        let digest = Digest::of(&archive).to_string();
        let call = Call::new(visit.caller().id, &visit.secret.0, &key, &[b"POST upload", digest.as_bytes()]);
        visit.visitor.caller.call = Some(Arc::new(call));
    }
    let note = UploadNote { source: Some(if name.is_empty() { "upload".to_owned() } else { name }), reference: None };
    let posted = Posted { form: crate::ui::form::Form::default(), visit };
    let work = catalog::upload(posted.state(), posted.caller(), archive, note, comment);
    match posted.once(work).await {
        Ok(imported) => Ok(added(&imported)),
        Err(error) => again(&posted.visit, error, "").await,
    }
}

/// The submitted form for a registry.
struct Typed {
    source: String,
    username: Option<String>,
    password: Option<String>,
    plain_http: bool,
    ca: Option<String>,
    comment: Option<String>,
}

impl Typed {
    fn read(posted: &Posted) -> Self {
        let form = &posted.form;
        Self {
            source: whole(form.text("source"), form.text("registry")),
            username: form.given("username"),
            password: form.raw("password").filter(|text| !text.is_empty()).map(str::to_owned),
            plain_http: form.has("plainHttp"),
            ca: form.given("ca"),
            comment: posted.comment(),
        }
    }

    fn host(&self) -> Option<String> {
        Reference::parse(&self.source).ok().map(|reference| reference.host)
    }

    fn registry(&self) -> PutRegistry {
        let (username, password, ca) = (self.username.clone(), self.password.clone(), self.ca.clone());
        PutRegistry { username, password, ca, plain_http: self.plain_http, comment: self.comment.clone() }
    }

    fn import(self) -> ImportApplication {
        let Self { source, username, password, plain_http, ca, comment } = self;
        ImportApplication { source, username, password, plain_http, ca, comment }
    }

    fn copy(self) -> CreateCopy {
        let Self { source, username, password, plain_http, ca, comment } = self;
        CreateCopy { source, username, password, plain_http, ca, comment, ..CreateCopy::default() }
    }
}

/// The full image reference: the selected registry is prepended unless the reference names one.
fn whole(typed: &str, chosen: &str) -> String {
    if typed.contains("://") {
        return typed.to_owned();
    }
    let first = typed.split_once('/').map(|(first, _)| first);
    let named = first.is_some_and(|first| first.contains(['.', ':']) || first == "localhost");
    if chosen.is_empty() || named { format!("oci://{typed}") } else { format!("oci://{chosen}/{typed}") }
}

pub(in crate::ui) async fn import(posted: Posted) -> PageResult {
    let typed = Typed::read(&posted);
    let (host, keep) = (typed.host(), posted.form.has("keep"));
    match outcome(&posted, typed, host.as_deref().filter(|_| keep)).await {
        Ok(response) => Ok(response),
        Err(AppError::Refused { code, detail, errors }) => {
            let form = &posted.form;
            let mut page = blank(&posted.visit, "Not added").await?;
            form.text("source").clone_into(&mut page.source);
            form.text("username").clone_into(&mut page.username);
            form.text("registry").clone_into(&mut page.chosen);
            page.plain_http = form.has("plainHttp");
            page.images = form.has("images");
            page.keep = keep;
            form.text("ca").clone_into(&mut page.ca);
            let gone = detail.contains("cannot be reached");
            let way = host.filter(|_| code == Code::Registry).and_then(|host| way(&page.saved, &host, gone, &errors));
            page.wrong = Some(Wrong { way, ..Wrong::new(code, detail, errors) });
            posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(error) => Err(error.into()),
    }
}

async fn outcome(posted: &Posted, typed: Typed, keep: Option<&str>) -> AppResult<Response> {
    // First, so that the credentials are saved even if the import fails.
    if let Some(host) = keep {
        registries::keep(posted.state(), posted.caller(), host, typed.registry()).await?;
    }
    if posted.form.has("images") {
        let work = copies::create(posted.state(), posted.caller(), typed.copy());
        posted.once(work).await.map(|copy| go(&format!("/catalog/copies/{}", copy.id), None))
    } else {
        let work = catalog::import(posted.state(), posted.caller(), typed.import());
        posted.once(work).await.map(|imported| added(&imported))
    }
}

/// The settings page for a registry that rejects the credentials or is not trusted.
fn way(saved: &[SavedRegistry], host: &str, gone: bool, errors: &[FieldProblem]) -> Option<(String, String)> {
    let host = canonical_host(host);
    let known = saved.iter().any(|registry| registry.host == host);
    let of_access = errors.iter().any(|error| matches!(error.field.as_str(), "password" | "ca"));
    let at = |page: &str| link(&format!("/settings/registries{page}"), &[("host", &host)]);
    match (known, of_access) {
        (true, true) => Some((at("/update"), format!("Edit {host} under Settings"))),
        (true, false) if gone => Some(("/settings/registries".to_owned(), format!("Check {host} under Settings"))),
        (false, true) => Some((at("/add"), format!("Save {host} with user name, password and CA under Settings"))),
        (_, false) => None,
    }
}

fn added(imported: &Imported) -> Response {
    let application = &imported.application;
    let notice = if imported.added {
        format!("{} {} is in the catalog.", application.name, application.version)
    } else {
        format!("This package of {} {} is already in the catalog.", application.name, application.version)
    };
    let used = imported.registry.as_ref().and_then(RegistryUse::sentence);
    let notice = used.map_or_else(|| notice.clone(), |used| format!("{notice} {used}"));
    let query = link(&format!("/catalog/{}", application.id), &[("version", &application.version)]);
    go(&query, Some((if imported.added { "application-added" } else { "already-added" }, &notice)))
}

async fn again(visit: &Visit, error: AppError, source: &str) -> PageResult {
    let AppError::Refused { code, detail, errors } = error else { return Err(error.into()) };
    let mut page = blank(visit, "Not added").await?;
    source.clone_into(&mut page.source);
    page.wrong = Some(Wrong::new(code, detail, errors));
    visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page)
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn prepends_the_selected_registry() {
        assert_eq!(whole("apps/press:1.0", "registry.example"), "oci://registry.example/apps/press:1.0");
        assert_eq!(whole("press:1.0", "registry.example"), "oci://registry.example/press:1.0");
        assert_eq!(whole("registry.example/press:1.0", "registry.example"), "oci://registry.example/press:1.0");
        assert_eq!(whole("other.example:5000/press:1.0", "registry.example"), "oci://other.example:5000/press:1.0");
        assert_eq!(whole("oci://other.example/press:1.0", "registry.example"), "oci://other.example/press:1.0");
        assert_eq!(whole("registry.example/press:1.0", ""), "oci://registry.example/press:1.0");
    }
}
