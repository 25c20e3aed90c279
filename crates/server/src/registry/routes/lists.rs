//! `_catalog`, `tags/list`, `referrers/<digest>`

use super::{Call, link};
use crate::registry::auth::Action;
use crate::registry::document::OCI_INDEX;
use crate::registry::error::{RegistryError, Result};
use crate::registry::listing::PAGE_MAX;
use crate::registry::names::{Digest, RepositoryName, Tag};
use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::HeaderName;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::json;

const FILTERS_APPLIED: HeaderName = HeaderName::from_static("oci-filters-applied");
const FILTER: &str = "artifactType";

pub(super) async fn catalog(call: &Call) -> Result<Response> {
    call.allow(Action::Admin, None).await?;
    let limit = limit(call)?;
    let after = call.query("last").map(|last| last.parse::<RepositoryName>()).transpose()?;
    let page = call.registry.repositories(after.as_ref(), limit);
    let names: Vec<&str> = page.items.iter().map(RepositoryName::as_str).collect();
    let next = page.more.then(|| names.last()).flatten();
    let next = next.map(|last| link("/v2/_catalog", &[("n", &limit.to_string()), ("last", last)]));
    Ok((next.into_iter().collect::<Headers>(), Json(json!({ "repositories": names }))).into_response())
}

pub(super) async fn tags(call: &Call, name: &RepositoryName) -> Result<Response> {
    call.allow(Action::Pull, Some(name)).await?;
    let limit = limit(call)?;
    let after = call.query("last").map(|last| last.parse::<Tag>()).transpose()?;
    let page = call.registry.tags(name, after.as_ref(), limit)?;
    let tags: Vec<&str> = page.items.iter().map(Tag::as_str).collect();
    let next = page.more.then(|| tags.last()).flatten();
    let path = format!("/v2/{name}/tags/list");
    let next = next.map(|last| link(&path, &[("n", &limit.to_string()), ("last", last)]));
    let body = Json(json!({ "name": name.as_str(), "tags": tags }));
    Ok((next.into_iter().collect::<Headers>(), body).into_response())
}

pub(super) async fn referrers(call: &Call, name: &RepositoryName, subject: &Digest) -> Result<Response> {
    call.allow(Action::Pull, Some(name)).await?;
    let filter = call.query(FILTER).filter(|text| !text.is_empty());
    let after = call.query("last").map(|last| last.parse::<Digest>()).transpose()?;
    let page = call.registry.referrers(name, subject, filter.as_deref(), after.as_ref()).await?;
    let mut headers = Headers::default();
    if page.more
        && let Some(last) = page.items.last().and_then(|descriptor| descriptor["digest"].as_str())
    {
        let mut parameters = vec![("last", last)];
        parameters.extend(filter.as_deref().map(|text| (FILTER, text)));
        headers.0.push(link(&format!("/v2/{name}/referrers/{subject}"), &parameters));
    }
    if filter.is_some() {
        headers.0.push((FILTERS_APPLIED, FILTER.to_owned()));
    }
    let body = json!({ "schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": page.items });
    let mut response = (headers, Json(body)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(OCI_INDEX));
    Ok(response)
}

/// `n` of a page.
fn limit(call: &Call) -> Result<usize> {
    let Some(text) = call.query("n") else { return Ok(PAGE_MAX) };
    let number = text
        .parse::<usize>()
        .map_err(|_| RegistryError::QueryInvalid(format!("`n={text}` is not a number of entries")))?;
    Ok(number.min(PAGE_MAX))
}

/// Headers that are there or not.
#[derive(Default)]
struct Headers(Vec<(HeaderName, String)>);

impl FromIterator<(HeaderName, String)> for Headers {
    fn from_iter<I: IntoIterator<Item = (HeaderName, String)>>(headers: I) -> Self {
        Self(headers.into_iter().collect())
    }
}

impl axum::response::IntoResponseParts for Headers {
    type Error = std::convert::Infallible;
    fn into_response_parts(
        self,
        mut response: axum::response::ResponseParts,
    ) -> std::result::Result<axum::response::ResponseParts, Self::Error> {
        for (name, value) in self.0 {
            if let Ok(value) = HeaderValue::try_from(value) {
                response.headers_mut().append(name, value);
            }
        }
        Ok(response)
    }
}
