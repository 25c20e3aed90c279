//! Authentication at a registry: none, by password, or with a token from a login service (REG-10).

use super::check::meaning;
use super::error::{Kind, OciError, Result, chain};
use super::{PendingRequest, Registry};
use crate::reference;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, GetAll, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use url::Url;

/// A token response is a few hundred bytes, a large signed token a few kilobytes.
const TOKEN_RESPONSE_BYTES_MAX: usize = 256 << 10;

/// A user and a password; the password is never printed.
#[derive(Debug, Clone)]
pub struct Credentials {
    username: String,
    password: SecretString,
}

impl Credentials {
    /// Rejects an incomplete login, naming the wrong field.
    pub fn new(
        username: Option<String>,
        password: Option<String>,
    ) -> std::result::Result<Option<Self>, (&'static str, &'static str)> {
        match (username, password) {
            (None, None) => Ok(None),
            (Some(username), Some(password)) if !username.contains(':') => {
                Ok(Some(Self { username, password: SecretString::from(password) }))
            }
            (Some(_), Some(_)) => Err(("username", "must not contain a colon")),
            (None, Some(_)) => Err(("username", "give the username that goes with the password")),
            (Some(_), None) => Err(("password", "give the password that goes with the username")),
        }
    }

    pub fn username(&self) -> &str {
        &self.username
    }

    fn basic(&self) -> HeaderValue {
        let text = STANDARD.encode(format!("{}:{}", self.username, self.password.expose_secret()));
        sensitive(&format!("Basic {text}")).expect("base64 is plain text")
    }
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
    Unknown,
}

impl Challenge {
    /// The first supported challenge.
    pub(super) fn of(headers: GetAll<'_, HeaderValue>) -> Self {
        let known = headers.iter().filter_map(|value| value.to_str().ok()).map(Self::parse);
        known.into_iter().find(|challenge| *challenge != Self::Unknown).unwrap_or(Self::Unknown)
    }

    fn parse(text: &str) -> Self {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Self::Basic;
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Self::Unknown;
        }
        let find = |wanted: &str| parameters(rest).into_iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
        match find("realm") {
            Some(realm) => Self::Bearer { realm, service: find("service"), scope: find("scope") },
            None => Self::Unknown,
        }
    }
}

/// `name="value", other="x,y"`: commas inside quotes belong to the value.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches(|c: char| c == ',' || c.is_whitespace()).to_ascii_lowercase();
        let after = after.trim_start();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.push((name, value.trim().to_owned()));
        rest = next;
    }
    found
}

#[derive(Deserialize)]
struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
}

impl Registry {
    /// The `Authorization` header to send from now on.
    pub(super) async fn answer(&self, challenge: Challenge, ask: &PendingRequest<'_>) -> Result<HeaderValue> {
        match (challenge, &self.credentials) {
            (Challenge::Basic, Some(credentials)) => Ok(credentials.basic()),
            (Challenge::Basic, None) => Err(OciError::new(Kind::Denied, self.denied(ask.repository))),
            (Challenge::Bearer { realm, service, scope }, _) => self.fetch_token(&realm, service, scope, ask).await,
            (Challenge::Unknown, _) => {
                let message = format!("registry `{}` uses an unsupported login method", self.host);
                Err(OciError::new(Kind::Denied, message))
            }
        }
    }

    /// The token flow: with the password if there is one, otherwise anonymous.
    async fn fetch_token(
        &self,
        realm: &str,
        service: Option<String>,
        scope: Option<String>,
        ask: &PendingRequest<'_>,
    ) -> Result<HeaderValue> {
        let odd = || {
            let message = format!(
                "registry `{}` refers to the login service `{realm}`, which is not a secure address",
                self.host
            );
            OciError::new(Kind::Refused, message)
        };
        let mut url = Url::parse(realm).map_err(|_| odd())?;
        if url.scheme() != "https" && !(self.plain_http && reference::is_loopback_url(&url)) {
            return Err(odd());
        }
        let actions = if ask.pushes { "pull,push" } else { "pull" };
        // Uses the scope of the challenge, but a request before a push must not get a token for pulling only.
        let own = (!ask.repository.is_empty()).then(|| format!("repository:{}:{actions}", ask.repository));
        if let Some(scope) = scope.filter(|scope| !ask.pushes || scope.contains("push")).or(own) {
            url.query_pairs_mut().append_pair("scope", &scope);
        }
        if let Some(service) = service {
            url.query_pairs_mut().append_pair("service", &service);
        }
        // Not the client of the registry: TLS sessions are cached by host, and one of the registry must not be offered
        // to a login service on another port.
        let mut request = super::http(self.ca.as_deref(), self.plain_http)?.get(url);
        if let Some(credentials) = &self.credentials {
            request = request.header(AUTHORIZATION, credentials.basic());
        }
        let response = request.send().await.map_err(|error| {
            let detail = chain(&error.without_url());
            let (kind, means) = meaning(&detail, self.ca.is_some());
            let means = means.map(|means| format!("{means}: ")).unwrap_or_default();
            OciError::new(kind, format!("the login service of the registry cannot be reached: {means}{detail}"))
        })?;
        match response.status().as_u16() {
            200..=299 => {}
            401 | 403 => return Err(OciError::new(Kind::Denied, self.denied(ask.repository))),
            other => {
                let message = format!("the login service of the registry responded with status {other}");
                return Err(OciError::new(Kind::Unreachable, message));
            }
        }
        let bytes = self.read(response, TOKEN_RESPONSE_BYTES_MAX, "the login response").await?;
        let token = serde_json::from_slice::<TokenResponse>(&bytes)
            .ok()
            .and_then(|answer| answer.token.or(answer.access_token));
        token
            .and_then(|token| sensitive(&format!("Bearer {token}")))
            .ok_or_else(|| OciError::new(Kind::Refused, "the login service of the registry returned no token"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_a_bearer_challenge() {
        let text =
            r#"Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull,push""#;
        let expected = Challenge::Bearer {
            realm: "https://auth.example/token".to_owned(),
            service: Some("registry.example".to_owned()),
            scope: Some("repository:a/b:pull,push".to_owned()),
        };
        assert_eq!(Challenge::parse(text), expected);
    }

    #[test]
    fn distinguishes_basic_and_unknown_challenges() {
        assert_eq!(Challenge::parse("Basic realm=\"x\""), Challenge::Basic);
        assert_eq!(Challenge::parse("basic"), Challenge::Basic);
        assert_eq!(Challenge::parse("Negotiate"), Challenge::Unknown);
        assert_eq!(Challenge::parse("Bearer service=\"x\""), Challenge::Unknown);
    }

    #[test]
    fn rejects_an_incomplete_login() {
        assert!(Credentials::new(Some("u".to_owned()), None).is_err());
        assert!(Credentials::new(None, Some("p".to_owned())).is_err());
        assert!(Credentials::new(Some("u:v".to_owned()), Some("p".to_owned())).is_err());
        assert!(Credentials::new(None, None).unwrap().is_none());
    }
}
