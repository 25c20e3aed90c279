//! Checks whether a registry is reachable, and explains why not (REG-10).

use super::error::{Kind, OciError, Result, chain};
use super::{PendingRequest, Registry};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode};
use url::Url;

/// How a registry accepted the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistryAccessResult {
    /// It accepted the user and password.
    SignedIn,
    /// It allows anonymous access, so the password was not checked.
    Open,
}

impl Registry {
    /// Requests the base of the API, which every registry has, and signs in if required.
    pub async fn check_access(&mut self) -> Result<RegistryAccessResult> {
        let base = self.base()?;
        // No repository: a token for it only proves the sign-in.
        let response = self.ask(&PendingRequest::new(Method::GET, base, "")).await?;
        let host = &self.host;
        let none = |seen: &str| {
            let message = format!("`{host}` is not a registry: {seen}; check name and port");
            OciError::new(Kind::NoRegistry, message)
        };
        let status = response.status();
        match status {
            StatusCode::NOT_FOUND => return Err(none("it has no `/v2/`")),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {}
            _ if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS => {
                return Err(none(&format!("it responded with status {status}")));
            }
            _ => {}
        }
        let response = self.check(response, "").await?;
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if media_type.starts_with("text/html") {
            return Err(none("it responded with a web page"));
        }
        let signed_in = self.credentials.is_some() && self.authorizations.contains_key(&(String::new(), false));
        Ok(if signed_in { RegistryAccessResult::SignedIn } else { RegistryAccessResult::Open })
    }

    fn base(&self) -> Result<Url> {
        let mut url = self.url("x", "y")?;
        url.set_path("/v2/");
        Ok(url)
    }

    /// Why a registry cannot be reached: the error of the operating system or TLS, and its meaning.
    pub(super) fn unreachable(&self, error: reqwest::Error) -> OciError {
        let detail = chain(&error.without_url());
        let (kind, means) = meaning(&detail, self.ca.is_some());
        let host = &self.host;
        let means = means.map(|means| format!("{means} (")).unwrap_or_default();
        let end = if means.is_empty() { "" } else { ")" };
        OciError::new(kind, format!("registry `{host}` cannot be reached: {means}{detail}{end}"))
    }
}

/// The libraries have no common error types, only texts; an unknown text stays as it is.
pub(super) fn meaning(detail: &str, has_ca: bool) -> (Kind, Option<&'static str>) {
    let has = |text: &str| detail.contains(text);
    if has("dns error") || has("failed to lookup address") {
        return (Kind::NameUnknown, Some("its host name does not resolve"));
    }
    if has("corrupt message") {
        return (Kind::Unreachable, Some("it does not use HTTPS on this port"));
    }
    if has("UnknownIssuer") || has("CaUsedAsEndEntity") || has("BadSignature") {
        let means = if has_ca {
            "its certificate is not trusted: neither the given CA nor a system CA has signed it"
        } else {
            "its certificate is not trusted: no system CA has signed it; specify the CA that has"
        };
        return (Kind::Untrusted, Some(means));
    }
    if has("NotValidForName") || has("not valid for name") {
        return (Kind::Untrusted, Some("its certificate is for another host name"));
    }
    if ["Expired", "expired", "NotValidYet", "not valid yet"].into_iter().any(has) {
        return (Kind::Untrusted, Some("its certificate has expired or is not valid yet"));
    }
    if has("invalid peer certificate") {
        return (Kind::Untrusted, Some("its certificate is invalid"));
    }
    if has("Connection refused") {
        return (Kind::Unreachable, Some("the connection was refused"));
    }
    if has("timed out") || has("deadline has elapsed") {
        return (Kind::Unreachable, Some("it did not respond in time"));
    }
    (Kind::Unreachable, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_connection_errors() {
        let check = |detail: &str, kind: Kind, words: &str| {
            let (found, means) = meaning(detail, false);
            assert_eq!(found, kind, "{detail}");
            assert!(means.unwrap_or_default().contains(words), "{detail}: {means:?}");
        };
        check("client error (Connect): dns error: failed to lookup", Kind::NameUnknown, "name does not resolve");
        check("tcp connect error: Connection refused (os error 111)", Kind::Unreachable, "refused");
        check("invalid peer certificate: UnknownIssuer", Kind::Untrusted, "not trusted");
        check("invalid peer certificate: certificate expired: Expired", Kind::Untrusted, "expired");
        check("received corrupt message of type InvalidContentType", Kind::Unreachable, "HTTPS");
        assert_eq!(meaning("connection reset by peer", false), (Kind::Unreachable, None));
    }
}
