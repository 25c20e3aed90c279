//! `oci://registry/repository:tag` and `oci://registry/repository@sha256:...`.

use margo::digest::Digest;
use std::fmt;
use std::net::IpAddr;
use url::{Host, Url};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// Name and port.
    pub(super) host: String,
    pub(super) repository: String,
    pub(super) tag: Tag,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tag {
    Name(String),
    Digest(Digest),
}

impl Reference {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let example = "write `oci://registry.example/suppliers/app:1.0.0`";
        let rest = text.strip_prefix("oci://").ok_or_else(|| format!("does not begin with `oci://`; {example}"))?;
        let (host, path) = rest.split_once('/').ok_or_else(|| format!("names no repository; {example}"))?;
        // Credentials would end up in the catalog.
        if host.contains('@') {
            return Err("holds credentials; give them as `username` and `password`".to_owned());
        }
        let parsed =
            Url::parse(&format!("https://{host}/")).ok().filter(|url| url.path() == "/" && url.query().is_none());
        if host.is_empty() || parsed.is_none_or(|url| url.host().is_none()) {
            return Err(format!("`{host}` is not the name of a registry; {example}"));
        }
        let (repository, tag) = match path.split_once('@') {
            Some((repository, digest)) => (
                repository,
                Tag::Digest(digest.parse().map_err(|error: margo::digest::DigestError| error.to_string())?),
            ),
            None => match path.rsplit_once(':') {
                Some((repository, tag)) if is_tag(tag) => (repository, Tag::Name(tag.to_owned())),
                _ => return Err(format!("names no version; {example}")),
            },
        };
        if !repository.split('/').all(is_component) {
            return Err(format!("`{repository}` is not the name of a repository; {example}"));
        }
        Ok(Self { host: host.to_owned(), repository: repository.to_owned(), tag })
    }

    pub(super) fn is_loopback(&self) -> bool {
        Url::parse(&format!("http://{}/", self.host)).is_ok_and(|url| is_loopback_url(&url))
    }
}

pub(super) fn is_loopback_url(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => false,
    }
}

/// OCI distribution: `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`.
fn is_tag(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=128).contains(&text.len())
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|b| word(b) || matches!(b, b'.' | b'-'))
}

/// OCI distribution: lower-case letters and digits, separated by single `.`, `_`, `__` or dashes.
fn is_component(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = text.bytes().next().is_some_and(inner) && text.bytes().last().is_some_and(inner);
    ends && text.bytes().all(|b| inner(b) || matches!(b, b'.' | b'_' | b'-'))
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(tag) => f.write_str(tag),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if matches!(self.tag, Tag::Name(_)) { ':' } else { '@' };
        write!(f, "oci://{}/{}{separator}{}", self.host, self.repository, self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_prints_as_it_was_written() {
        let digest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        for text in [
            "oci://registry.example/suppliers/app:1.0.0".to_owned(),
            "oci://127.0.0.1:5000/app:1.0.0-rc.1_build".to_owned(),
            format!("oci://[::1]:5000/app@{digest}"),
        ] {
            assert_eq!(Reference::parse(&text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_names_no_package_is_refused_with_an_example() {
        for text in [
            "https://registry.example/app:1",
            "oci://registry.example",
            "oci://registry.example/app",
            "oci:///app:1",
            "oci://registry.example/App:1",
            "oci://registry.example/../app:1",
            "oci://registry.example/app:",
            "oci://registry.example/app@md5:00",
            "oci://user:secret@registry.example/app:1",
            "oci://registry.example?x/app:1",
        ] {
            assert!(Reference::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        let is_loopback = |host: &str| Reference::parse(&format!("oci://{host}/app:1")).unwrap().is_loopback();
        assert!(is_loopback("127.0.0.1:5000") && is_loopback("localhost") && is_loopback("[::1]:5000"));
        assert!(!is_loopback("10.0.0.1") && !is_loopback("localhost.example") && !is_loopback("registry.example:5000"));
    }
}
