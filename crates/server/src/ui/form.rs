//! Form data: fields by name, and the idempotency key.

use super::errors::UiError;
use super::visit::Visit;
use crate::app::access::Caller;
use crate::app::error::{AppError, AppResult, Code};
use crate::app::idempotency::{self, Call, Replayable};
use crate::body::BodyError;
use crate::state::ServerState;
use axum::extract::{FromRequest, FromRequestParts as _, Request};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Enough for a form with a thousand selected devices.
const FORM_BYTES_MAX: usize = 1 << 20;
/// The longest key, as in the API.
const KEY_CHARS_MAX: usize = idempotency::KEY_CHARS_MAX;

/// Fields in the order they were sent.
#[derive(Debug, Clone, Default)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    pub(super) fn read(bytes: &[u8]) -> Self {
        Self(url::form_urlencoded::parse(bytes).map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// Trimmed; empty when it was not sent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.trim())
    }

    /// Untrimmed.
    pub(super) fn raw(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// `None` when it is empty.
    pub(super) fn given(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.text(name).parse().ok()
    }
}

/// A form sent by a signed-in operator.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) visit: Visit,
    pub(super) form: Form,
}

impl FromRequest<ServerState> for Posted {
    type Rejection = UiError;

    async fn from_request(request: Request, state: &ServerState) -> Result<Self, UiError> {
        let (mut parts, body) = request.into_parts();
        let mut visit = Visit::from_request_parts(&mut parts, state).await?;
        let bytes = crate::body::read(Request::new(body), FORM_BYTES_MAX).await.map_err(|error| match error {
            BodyError::TooLong => AppError::refused(Code::TooLarge, "the form data is too large"),
            BodyError::BrokenOff => {
                AppError::refused(Code::Malformed, "the form data is incomplete because the connection was interrupted")
            }
        })?;
        let form = Form::read(&bytes);
        let key = form.text("key");
        if !key.is_empty() && key.len() <= KEY_CHARS_MAX {
            let place = visit.place.clone();
            let call = Call::new(visit.caller().id, &visit.secret.0, key, &[b"POST", place.as_bytes(), &bytes]);
            visit.visitor.caller.call = Some(Arc::new(call));
        }
        Ok(Self { visit, form })
    }
}

impl Posted {
    pub(super) fn state(&self) -> &ServerState {
        &self.visit.state
    }

    pub(super) fn caller(&self) -> &Caller {
        self.visit.caller()
    }

    pub(super) fn comment(&self) -> Option<String> {
        self.form.given("comment")
    }

    /// The call for one of several effects of the form, each with its own key.
    pub(super) fn call(&self, index: usize) -> Option<Call> {
        let key = self.form.given("key")?;
        let place = self.visit.place.clone();
        let key = format!("{key}-{index}");
        Some(Call::new(self.caller().id, &self.visit.secret.0, &key, &[b"POST", place.as_bytes()]))
    }

    /// The caller for one of several effects of the form.
    pub(super) fn caller_of(&self, index: usize) -> Caller {
        Caller { call: self.call(index).map(Arc::new), ..self.caller().clone() }
    }

    /// Runs `work` once: returns the stored result if the same form was sent before.
    pub(super) async fn once<T: Replayable + DeserializeOwned>(
        &self,
        work: impl Future<Output = AppResult<T>>,
    ) -> AppResult<T> {
        let Some(call) = &self.caller().call else { return work.await };
        if let Some(before) = idempotency::stored(self.state(), call).await? {
            return Ok(before);
        }
        match work.await {
            // The same form was sent twice concurrently, and the other request finished first.
            Err(AppError::Refused { code: Code::Done, detail, errors }) => {
                let stored = idempotency::stored(self.state(), call).await?;
                stored.ok_or(AppError::Refused { code: Code::Done, detail, errors })
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Form;

    #[test]
    fn fields_are_found_by_name() {
        let form = Form::read(b"device=a%2Fb&device=c&text=+two+words+&empty=");
        assert_eq!(form.all("device").collect::<Vec<_>>(), ["a/b", "c"]);
        assert_eq!(form.text("text"), "two words");
        assert_eq!(form.raw("text"), Some(" two words "));
        assert_eq!((form.given("empty"), form.has("empty"), form.has("nothing")), (None, true, false));
    }
}
