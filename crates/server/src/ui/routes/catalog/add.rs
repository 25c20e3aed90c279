//! Adding an application: an archive from this machine, or a package in a registry.

use crate::app::error::{AppError, Code};
use crate::app::idempotency::Call;
use crate::catalog::{self, UploadNote};
use crate::copies;
use crate::ui::form::Posted;
use crate::ui::visit::{Answer, Section, Shell, Visit, go, pages};
use askama::Template;
use axum::extract::Multipart;
use bytes::Bytes;
use http::StatusCode;
use margo::digest::Digest;
use margrave_api::applications::{ImportApplication, Imported};
use margrave_api::copies::CreateCopy;
use margrave_api::problem::FieldProblem;
use std::sync::Arc;

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
    wrong: Option<Wrong>,
}
pages!(AddPage);

struct Wrong {
    title: String,
    detail: String,
    errors: Vec<FieldProblem>,
}

impl Wrong {
    fn new(code: Code, detail: String, errors: Vec<FieldProblem>) -> Self {
        // What is no package at all cannot be a broken one.
        let none = code == Code::BrokenPackage && errors.is_empty();
        let title = if none { "Nothing was added" } else { code.title() };
        Self { title: title.to_owned(), detail, errors }
    }
}

pub(in crate::ui) async fn form(visit: Visit) -> Answer {
    let page = blank(&visit, "Add an application").await?;
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
        wrong: None,
    })
}

pub(in crate::ui) async fn upload(mut visit: Visit, mut parts: Multipart) -> Answer {
    let (mut key, mut reason, mut name, mut archive) = (String::new(), None, String::new(), Bytes::new());
    let broken = |error: axum::extract::multipart::MultipartError| {
        if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
            return catalog::too_large();
        }
        AppError::refused(Code::Malformed, "the upload broke off; send it again")
    };
    let read = async {
        while let Some(part) = parts.next_field().await.map_err(broken)? {
            match part.name().unwrap_or_default() {
                "key" => key = part.text().await.map_err(broken)?,
                "reason" => reason = Some(part.text().await.map_err(broken)?),
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
        return again(&visit, AppError::invalid("package", "choose the archive of the package first"), "").await;
    }
    if !key.is_empty() {
        let digest = Digest::of(&archive).to_string();
        let call = Call::new(visit.caller().id, &visit.secret.0, &key, &[b"POST upload", digest.as_bytes()]);
        visit.visitor.caller.call = Some(Arc::new(call));
    }
    let note = UploadNote { source: Some(if name.is_empty() { "upload".to_owned() } else { name }), reference: None };
    let posted = Posted { form: crate::ui::form::Form::default(), visit };
    let work = catalog::upload(posted.state(), posted.caller(), archive, note, reason);
    match posted.once(work).await {
        Ok(imported) => Ok(added(&imported)),
        Err(error) => again(&posted.visit, error, "").await,
    }
}

pub(in crate::ui) async fn import(posted: Posted) -> Answer {
    let form = &posted.form;
    let (source, username) = (form.text("source").to_owned(), form.given("username"));
    let (password, ca, plain_http) = (
        form.raw("password").filter(|text| !text.is_empty()).map(str::to_owned),
        form.given("ca"),
        form.has("plainHttp"),
    );
    let full = if source.contains("://") { source.clone() } else { format!("oci://{source}") };
    let outcome = if form.has("images") {
        let body = CreateCopy {
            source: full,
            username,
            password,
            plain_http,
            ca,
            reason: posted.reason(),
            ..CreateCopy::default()
        };
        let work = copies::create(posted.state(), posted.caller(), body);
        posted.once(work).await.map(|copy| go(&format!("/catalog/copies/{}", copy.id), None))
    } else {
        let body = ImportApplication { source: full, username, password, plain_http, ca, reason: posted.reason() };
        let work = catalog::import(posted.state(), posted.caller(), body);
        posted.once(work).await.map(|imported| added(&imported))
    };
    match outcome {
        Ok(response) => Ok(response),
        Err(AppError::Refused { code, detail, errors }) => {
            let mut page = blank(&posted.visit, "Not added").await?;
            page.source = source;
            form.text("username").clone_into(&mut page.username);
            page.plain_http = plain_http;
            page.images = form.has("images");
            form.text("ca").clone_into(&mut page.ca);
            page.wrong = Some(Wrong::new(code, detail, errors));
            posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(error) => Err(error.into()),
    }
}

fn added(imported: &Imported) -> axum::response::Response {
    let application = &imported.application;
    let said = if imported.added {
        format!("{} {} is in the catalog.", application.name, application.version)
    } else {
        format!("Exactly this package of {} {} was in the catalog already.", application.name, application.version)
    };
    let query =
        crate::ui::routes::query::link(&format!("/catalog/{}", application.id), &[("version", &application.version)]);
    go(&query, Some(&said))
}

async fn again(visit: &Visit, error: AppError, source: &str) -> Answer {
    let AppError::Refused { code, detail, errors } = error else { return Err(error.into()) };
    let mut page = blank(visit, "Not added").await?;
    source.clone_into(&mut page.source);
    page.wrong = Some(Wrong::new(code, detail, errors));
    visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page)
}
