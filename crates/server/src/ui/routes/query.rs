//! Query strings: parsed leniently, and written back into links.

use crate::app::paging::Paging;
use crate::ui::form::Form;
use axum::extract::FromRequestParts;
use http::request::Parts;
use std::convert::Infallible;

/// Rows on one page.
pub(super) const ROWS: u32 = 100;

/// The query of an address, by name. Empty values count as absent.
#[derive(Debug, Clone, Default)]
pub(super) struct Params(Form);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(Form::read(parts.uri.query().unwrap_or_default().as_bytes())))
    }
}

impl Params {
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.0.given(name)
    }

    /// The text, or nothing.
    pub(super) fn text(&self, name: &str) -> String {
        self.0.text(name).to_owned()
    }

    /// Every value of this name.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.all(name)
    }

    pub(super) fn paging(&self) -> Paging {
        Paging { limit: Some(ROWS), after: self.get("after") }
    }
}

/// An address with those of these parameters that are not empty.
pub(in crate::ui) fn link(path: &str, members: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in members.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// The address of a device; slashes of its id stay slashes.
pub(super) fn device_link(client: &str, device: &str) -> String {
    let part =
        |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    let device: Vec<String> = device.split('/').map(part).collect();
    format!("/devices/{}/{}", part(client), device.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_contain_only_given_parameters() {
        assert_eq!(link("/devices", &[("q", ""), ("site", "")]), "/devices");
        assert_eq!(
            link("/devices", &[("q", "press 7"), ("site", "Graz & Linz")]),
            "/devices?q=press+7&site=Graz+%26+Linz"
        );
        assert_eq!(device_link("hall-3", "hall-3/camera 1"), "/devices/hall-3/hall-3/camera%201");
    }
}
