//! Parses paths under `/v2`.

use crate::registry::error::{RegistryError, Result};
use crate::registry::names::{Digest, Reference, RepositoryName};
use std::borrow::Cow;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    Base,
    Catalog,
    Tags(RepositoryName),
    Referrers(RepositoryName, Digest),
    Blob(RepositoryName, Digest),
    Uploads(RepositoryName),
    Upload(RepositoryName, String),
    Manifest(RepositoryName, Reference),
}

/// Parses a path from its end, because the name at its beginning may contain any of the keywords.
pub(super) fn parse(path: &str) -> Result<Route> {
    let path = decoded(path)?;
    let rest = path.strip_prefix("/v2").unwrap_or(&path);
    let segments: Vec<&str> = rest.strip_prefix('/').unwrap_or(rest).split('/').collect();
    let name = |segments: &[&str]| segments.join("/").parse::<RepositoryName>();
    Ok(match segments.as_slice() {
        [""] => Route::Base,
        ["_catalog"] => Route::Catalog,
        [repository @ .., "tags", "list"] => Route::Tags(name(repository)?),
        [repository @ .., "blobs", "uploads"] | [repository @ .., "blobs", "uploads", ""] => {
            Route::Uploads(name(repository)?)
        }
        [repository @ .., "blobs", "uploads", id] => Route::Upload(name(repository)?, (*id).to_owned()),
        [repository @ .., "blobs", digest] => Route::Blob(name(repository)?, digest.parse()?),
        [repository @ .., "referrers", digest] => Route::Referrers(name(repository)?, digest.parse()?),
        [repository @ .., "manifests", reference] => Route::Manifest(name(repository)?, reference.parse()?),
        _ => return Err(RegistryError::NoSuchPath),
    })
}

/// Some clients encode the colon of a digest.
fn decoded(path: &str) -> Result<Cow<'_, str>> {
    if !path.contains('%') {
        return Ok(Cow::Borrowed(path));
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes().iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
            return Err(RegistryError::NoSuchPath);
        };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| RegistryError::NoSuchPath)
}

#[cfg(test)]
mod tests {
    use super::{Route, parse};
    use crate::registry::names::Digest;

    #[test]
    fn names_may_contain_the_words_of_the_paths() {
        let digest = Digest::sha256(b"");
        let name = |text: &str| text.parse().unwrap();
        assert_eq!(parse("/v2").unwrap(), Route::Base);
        assert_eq!(parse("/v2/").unwrap(), Route::Base);
        assert_eq!(parse("/v2/_catalog").unwrap(), Route::Catalog);
        assert_eq!(parse("/v2/tags/list/tags/list").unwrap(), Route::Tags(name("tags/list")));
        assert_eq!(parse("/v2/a/blobs/uploads/").unwrap(), Route::Uploads(name("a")));
        assert_eq!(parse("/v2/a/blobs/uploads").unwrap(), Route::Uploads(name("a")));
        assert_eq!(parse("/v2/a/blobs/uploads/x").unwrap(), Route::Upload(name("a"), "x".to_owned()));
        assert_eq!(
            parse(&format!("/v2/a/blobs/blobs/{digest}")).unwrap(),
            Route::Blob(name("a/blobs"), digest.clone())
        );
        assert_eq!(
            parse(&format!("/v2/a/referrers/{}", digest.to_string().replace(':', "%3A"))).unwrap(),
            Route::Referrers(name("a"), digest)
        );
        assert_eq!(
            parse("/v2/manifests/manifests/latest").unwrap(),
            Route::Manifest(name("manifests"), "latest".parse().unwrap())
        );
    }

    #[test]
    fn rejects_other_paths() {
        for bad in ["/v2/a", "/v2/a/tags", "/v2/a/b/c", "/v2/a%2", "/v2/%ff/tags/list", "/v2/a/../b/tags/list"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for bad in ["/v2/A/tags/list", "/v2/a%2F..%2Fb/tags/list", "/v2//tags/list", "/v2/tags/list"] {
            assert!(parse(bad).unwrap_err().to_string().contains("repository name"), "{bad}");
        }
    }
}
