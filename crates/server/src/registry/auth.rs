//! Who may do what, behind a small trait; the credentials clients send.

use super::error::RegistryError;
use super::names::{Digest, RepositoryName};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use secrecy::SecretString;

/// What a request wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Pull,
    Push,
    Delete,
    /// Listing every repository.
    Admin,
}

/// What a request proves itself with.
#[derive(Debug)]
pub enum Credentials {
    Basic { user: String, password: SecretString },
    Bearer(SecretString),
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Granted; for the log, who it is.
    Granted(String),
    /// No credentials, or wrong ones.
    Unknown,
    /// Known, and not allowed; the text says what would be.
    Denied(String),
    /// It cannot be told now.
    Unavailable,
}

/// Decides about access.
pub trait RegistryAuth: Send + Sync + 'static {
    /// `repository` is `None` when a client only wants to know whether its credentials are good, and for lists of
    /// repositories.
    fn authorize<'a>(
        &'a self,
        credentials: Option<&'a Credentials>,
        action: Action,
        repository: Option<&'a RepositoryName>,
    ) -> BoxFuture<'a, Access>;

    /// Takes note of what somebody changes; [`RegistryError::Unrecorded`] when that is not possible now.
    fn record(&self, change: Change) -> BoxFuture<'_, Result<(), RegistryError>> {
        let _ = change;
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Something that is changed.
#[derive(Debug, Clone)]
pub struct Change {
    /// As granted by [`Access::Granted`].
    pub who: String,
    /// `registry.push` or `registry.delete`.
    pub action: &'static str,
    pub repository: RepositoryName,
    /// Tag or digest.
    pub reference: String,
    pub digest: Option<Digest>,
}

/// The credentials of a request; what cannot be read counts as none.
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
    fn what_cannot_be_read_counts_as_none() {
        for bad in ["", "Basic", "Basic !!!", "Basic dXNlcg==", "Digest x", "Basic /w=="] {
            assert!(read(bad).is_none(), "{bad}");
        }
        assert!(credentials(&HeaderMap::new()).is_none());
    }
}
