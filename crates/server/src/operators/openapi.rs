//! The OpenAPI document, generated from the attributes of the routes.

use super::routes;
use crate::app::idempotency::KEY_CHARS_MAX;
use margrave_api::problem::ApiProblem;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::Type;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, InfoBuilder, ObjectBuilder, OpenApi, Ref, Required, ResponseBuilder,
};
use utoipa::{PartialSchema as _, ToSchema as _};

/// OpenAPI 3.1 of everything under `/api`.
pub fn document() -> OpenApi {
    let (_, mut document) = routes::all().split_for_parts();
    document.info = InfoBuilder::new()
        .title("Margrave operator API")
        .version("1")
        .description(Some(
            "Everything an operator can do, for people and programs. Conventions, errors and concurrency: docs/api.md.",
        ))
        .build();
    document.servers = None;
    let mut paths = std::mem::take(&mut document.paths.paths);
    for (path, mut item) in std::mem::take(&mut paths) {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        operations.into_iter().flatten().for_each(add_problem);
        [&mut item.put, &mut item.post, &mut item.delete, &mut item.patch].into_iter().flatten().for_each(add_key);
        // The router's syntax for the rest of the path.
        document.paths.paths.insert(path.replace("{*", "{"), item);
    }
    let components = document.components.get_or_insert_with(Components::new);
    components.schemas.insert(ApiProblem::name().into_owned(), ApiProblem::schema());
    let mut nested = Vec::new();
    ApiProblem::schemas(&mut nested);
    components.schemas.extend(nested);
    components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    document.security = Some(vec![SecurityRequirement::new("token", [] as [&str; 0])]);
    document
}

/// Every operation can fail, always in the same form.
fn add_problem(operation: &mut Operation) {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(ApiProblem::name()))).build();
    let response = ResponseBuilder::new()
        .description("Error; `code` is for programs, `detail` for people (RFC 9457)")
        .content("application/problem+json", content)
        .build();
    operation.responses.responses.insert("default".to_owned(), response.into());
}

/// Every call that may change something accepts a key.
fn add_key(operation: &mut Operation) {
    let text = format!(
        "1 to {KEY_CHARS_MAX} printable characters, such as a UUID: a repeat of this request with the same \
         key gets the answer of the first one, with `Idempotent-Replay: true`, and has no further effect"
    );
    let parameter = ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(text))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String).max_length(Some(KEY_CHARS_MAX)).build()))
        .build();
    operation.parameters.get_or_insert_default().push(parameter.into());
}

#[cfg(test)]
mod tests;
