//! Labels set by operators: one form adds, changes and removes them.

use super::detail::{FormErrors, page};
use crate::app::error::{AppError, Code};
use crate::app::{devices, fleet};
use crate::ui::form::Posted;
use crate::ui::routes::query::device_link;
use crate::ui::visit::{PageResult, go};
use http::StatusCode;
use indexmap::IndexMap;
use margrave_api::devices::UpdateDevice;
use margrave_api::problem::FieldProblem;

const NAME: &str = "label-name";
const VALUE: &str = "label-value";

pub(super) async fn act(client: &str, device: &str, posted: Posted) -> PageResult {
    let form = &posted.form;
    let stored = fleet::get(posted.state(), client, device).await?.device.operator_labels;
    let mut labels: IndexMap<String, Option<String>> = IndexMap::new();
    for (name, value) in &stored {
        if form.has(&format!("remove:{name}")) {
            labels.insert(name.clone(), None);
        } else if let Some(typed) = form.raw(&format!("label:{name}")).map(str::trim).filter(|typed| typed != value) {
            labels.insert(name.clone(), Some(typed.to_owned()));
        }
    }
    let (name, value) = (form.text("name").to_owned(), form.text("value").to_owned());
    if name.is_empty() && !value.is_empty() {
        let error = format!("The value `{value}` has no name: enter a name, such as `line`, or leave both empty.");
        let wrong = FormErrors {
            code: Code::Invalid.as_str(),
            title: "The labels were not changed.".to_owned(),
            errors: vec![(NAME, error)],
        };
        return again(client, device, &posted, StatusCode::UNPROCESSABLE_ENTITY, wrong).await;
    }
    if !name.is_empty() {
        labels.insert(name.clone(), Some(value));
    }
    let link = device_link(client, device);
    if labels.is_empty() {
        return Ok(go(&link, Some(("unchanged", "Nothing was changed."))));
    }
    let places: Vec<String> = stored.keys().cloned().collect();
    let body = UpdateDevice { labels, comment: posted.comment() };
    match devices::update(posted.state(), posted.caller(), client, device, body, form.number("revision")).await {
        Ok(_) => Ok(go(&link, Some(("labels-saved", "Labels saved.")))),
        Err(AppError::Refused { code: Code::Conflict, .. }) => {
            let title = "Another operator changed these labels in the meantime. Compare with the current values, then save again.";
            let wrong = FormErrors { code: Code::Conflict.as_str(), title: title.to_owned(), errors: Vec::new() };
            again(client, device, &posted, StatusCode::CONFLICT, wrong).await
        }
        Err(AppError::Refused { code: Code::Invalid, errors, .. }) => {
            let errors = errors.into_iter().map(|error| field_error(&error, &name, &places)).collect();
            let wrong =
                FormErrors { code: Code::Invalid.as_str(), title: "The labels were not changed.".to_owned(), errors };
            again(client, device, &posted, StatusCode::UNPROCESSABLE_ENTITY, wrong).await
        }
        Err(error) => Err(error.into()),
    }
}

/// A problem, with the field of the page that it belongs to.
fn field_error(error: &FieldProblem, new: &str, stored: &[String]) -> (&'static str, String) {
    let label = error.field.strip_prefix("labels.").unwrap_or(&error.field);
    if label != new || stored.iter().any(|name| name == label) {
        return ("own-labels", format!("`{label}`: {}", error.message));
    }
    let (place, what) =
        if error.message.starts_with("a value") { (VALUE, "Value") } else { (NAME, "Name of the new label") };
    (place, format!("{what}: {}", error.message))
}

/// The page again, with what was typed and what is wrong.
async fn again(client: &str, device: &str, posted: &Posted, status: StatusCode, wrong: FormErrors) -> PageResult {
    let mut page = page(&posted.visit, client, device, Some(&posted.form)).await?;
    page.wrong = Some(wrong);
    posted.visit.show_with(status, &page)
}
