//! Authorization behind a small trait; the credentials of clients.

use super::error::RegistryError;
use super::names::{Digest, RepositoryName};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use secrecy::SecretString;

/// The requested operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Pull,
    Push,
    Delete,
    /// Listing every repository.
    Admin,
}

/// The credentials of a request.
#[derive(Debug)]
pub enum Credentials {
    Basic { user: String, password: SecretString },
    Bearer(SecretString),
}

/// The decision about one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Granted; the name is for the log.
    Granted(String),
    /// No credentials, or wrong ones.
    Unknown,
    /// Authenticated, but not allowed; the text says what is allowed.
    Denied(String),
    /// The check is not possible now.
    Unavailable,
}

/// Decides about access.
pub trait RegistryAuth: Send + Sync + 'static {
    /// `repository` is `None` when a client only verifies its credentials, and for lists of
    /// repositories.
    fn authorize<'a>(
        &'a self,
        credentials: Option<&'a Credentials>,
        action: Action,
        repository: Option<&'a RepositoryName>,
    ) -> BoxFuture<'a, Access>;

    /// Records a change; [`RegistryError::Unrecorded`] when that is not possible now.
    fn record(&self, rollout: Rollout) -> BoxFuture<'_, Result<(), RegistryError>> {
        let _ = rollout;
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A change.
#[derive(Debug, Clone)]
pub struct Rollout {
    /// As granted by [`Access::Granted`].
    pub who: String,
    /// `registry.push` or `registry.delete`.
    pub action: &'static str,
    pub repository: RepositoryName,
    /// Tag or digest.
    pub reference: String,
    pub digest: Option<Digest>,
}

/// The credentials of a request; unreadable ones count as none.
pub(super) fn credentials(headers: &HeaderMap) -> Option<Credentials> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, value) = header.split_once(' ')?;
    let value = value.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Credentials::Bearer(value.into()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(value).ok()?).ok()?;
    let (user, password) = decoded.split_once(':')?;
    Some(Credentials::Basic { user: user.to_owned(), password: password.into() })
}

#[cfg(test)]
mod tests {
    use super::{Credentials, credentials};
    use http::{HeaderMap, HeaderValue};
    use secrecy::ExposeSecret as _;

    fn read(value: &'static str) -> Option<Credentials> {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static(value));
        credentials(&headers)
    }

    #[test]
    fn reads_basic_credentials_with_colons_in_the_password() {
        let Some(Credentials::Basic { user, password }) = read("basic dXNlcjpwOnc=") else { panic!("not read") };
        assert_eq!((user.as_str(), password.expose_secret()), ("user", "p:w"));
    }

    #[test]
    fn reads_bearer_tokens() {
        let Some(Credentials::Bearer(token)) = read("Bearer mgv_x") else { panic!("not read") };
        assert_eq!(token.expose_secret(), "mgv_x");
    }

    #[test]
    fn treats_unreadable_credentials_as_none() {
        for bad in ["", "Basic", "Basic !!!", "Basic dXNlcg==", "Digest x", "Basic /w=="] {
            assert!(read(bad).is_none(), "{bad}");
        }
        assert!(credentials(&HeaderMap::new()).is_none());
    }
}
