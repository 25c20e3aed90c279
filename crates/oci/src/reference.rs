//! `oci://registry/repository:tag`, `oci://registry/repository@sha256:...`, and images as Docker writes them.

use crate::mirror::DOCKER_HUB;
use margo::digest::Digest;
use std::fmt;
use std::net::IpAddr;
use url::{Host, Url};

/// Most clients limit host and name together to 255 characters.
const REPOSITORY_CHARS_MAX: usize = 255;
/// The longest DNS name, and a port.
const HOST_CHARS_MAX: usize = 253 + 6;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Name and port; Docker's own registry is `docker.io`.
    pub host: String,
    pub repository: String,
    pub tag: Tag,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tag {
    Name(String),
    Digest(Digest),
}

impl Reference {
    pub fn parse(text: &str) -> Result<Self, String> {
        let example = "write `oci://registry.example/suppliers/app:1.0.0`";
        let rest = text.strip_prefix("oci://").ok_or_else(|| format!("does not begin with `oci://`; {example}"))?;
        let (host, path) = rest.split_once('/').ok_or_else(|| format!("has no repository; {example}"))?;
        // Credentials would end up in the catalog.
        if host.contains('@') {
            return Err("contains credentials; pass them as `username` and `password`".to_owned());
        }
        let parsed =
            Url::parse(&format!("https://{host}/")).ok().filter(|url| url.path() == "/" && url.query().is_none());
        if host.is_empty() || parsed.is_none_or(|url| url.host().is_none()) {
            return Err(format!("`{host}` is not the name of a registry; {example}"));
        }
        let (repository, tag) = split(path)?;
        let tag = tag.ok_or_else(|| format!("has no version; {example}"))?;
        if !is_repository(repository) {
            return Err(format!("`{repository}` is not the name of a repository; {example}"));
        }
        Ok(Self { host: host.to_owned(), repository: repository.to_owned(), tag })
    }

    /// An image as Docker, Compose and Kubernetes write it: `nginx`, `example/press:1.0`,
    /// `registry.example/press@sha256:…`.
    pub fn parse_image(text: &str) -> Result<Self, String> {
        let example = "write `nginx:1.27`, `registry.example/line/press:1.0` or `…@sha256:…`";
        if let Some(rest) = text.strip_prefix("oci://").or_else(|| text.strip_prefix("docker://")) {
            return Self::parse_image(rest);
        }
        // The first part is a host if it cannot be the name of a repository.
        let is_host = |part: &str| part.contains(['.', ':']) || part == "localhost";
        let (host, path) = match text.split_once('/') {
            Some((host, path)) if is_host(host) => (host, path),
            _ => (DOCKER_HUB, text),
        };
        if host.contains('@') {
            return Err("contains credentials; give them separately".to_owned());
        }
        let host = if matches!(host, "index.docker.io" | "registry-1.docker.io") { DOCKER_HUB } else { host };
        if Url::parse(&format!("https://{host}/")).ok().is_none_or(|url| url.path() != "/" || url.host().is_none()) {
            return Err(format!("`{host}` is not the name of a registry; {example}"));
        }
        let (repository, tag) = split(path)?;
        let library = host == DOCKER_HUB && !repository.contains('/');
        let repository = if library { format!("library/{repository}") } else { repository.to_owned() };
        if !is_repository(&repository) {
            return Err(format!("`{text}` is not the name of an image; {example}"));
        }
        Ok(Self { host: host.to_owned(), repository, tag: tag.unwrap_or_else(|| Tag::Name("latest".to_owned())) })
    }

    /// A component as deployments name it: `revision` is a tag, in its stored form or not (AD-04), or a digest.
    pub fn of_component(repository: &str, revision: &str) -> Result<Self, String> {
        let odd = |reason: String| format!("`{repository}`, revision `{revision}`: {reason}");
        let path = repository.trim_start_matches("oci://").trim_end_matches('/');
        let revision = revision.replace('+', "_");
        let tag = match revision.parse::<Digest>() {
            Ok(digest) => Tag::Digest(digest),
            Err(_) if is_tag(&revision) => Tag::Name(revision),
            Err(_) => return Err(odd("the revision is neither a tag nor a digest".to_owned())),
        };
        let parsed = Self::parse(&format!("oci://{path}:x")).map_err(odd)?;
        Ok(Self { tag, ..parsed })
    }

    /// Without `oci://`, as images are written.
    pub fn image(&self) -> String {
        self.to_string().trim_start_matches("oci://").to_owned()
    }

    pub fn is_loopback(&self) -> bool {
        is_loopback_host(&self.host)
    }
}

/// Name and port of a registry as people write it: `registry.example`, `10.0.0.7:5000`, also with `https://`.
pub fn parse_host(text: &str) -> Result<String, String> {
    let example = "write its name and port, such as `registry.example` or `registry.example:5000`";
    let text = text.trim();
    let bare = text.strip_prefix("oci://").or_else(|| text.strip_prefix("https://")).unwrap_or(text);
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    let bare = bare.strip_suffix("/v2").unwrap_or(bare);
    if bare.is_empty() {
        return Err(format!("contains no registry; {example}"));
    }
    if bare.contains('@') {
        return Err(format!("contains credentials; give them separately, and {example}"));
    }
    if bare.contains("://") {
        return Err(format!("`{text}` is not the name of a registry; {example}"));
    }
    if bare.contains('/') {
        return Err(format!("`{text}` contains more than a registry; {example}"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    let parsed = Url::parse(&format!("https://{bare}/")).ok().filter(|url| url.path() == "/" && url.query().is_none());
    if bare.len() > HOST_CHARS_MAX || !bare.chars().all(plain) || parsed.is_none_or(|url| url.host().is_none()) {
        return Err(format!("`{text}` is not the name of a registry; {example}"));
    }
    Ok(canonical_host(bare))
}

/// The canonical name of a registry: host names are case-insensitive, and Docker's own has several.
pub fn canonical_host(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    if matches!(host.as_str(), "index.docker.io" | "registry-1.docker.io") { DOCKER_HUB.to_owned() } else { host }
}

/// Whether a host, with or without port, is this machine.
pub fn is_loopback_host(host: &str) -> bool {
    Url::parse(&format!("http://{host}/")).is_ok_and(|url| is_loopback_url(&url))
}

pub fn is_loopback_url(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => false,
    }
}

/// Repository, and tag or digest; if there are both, the digest counts.
fn split(path: &str) -> Result<(&str, Option<Tag>), String> {
    let (name, digest) = match path.split_once('@') {
        Some((name, digest)) => {
            let digest = digest.parse().map_err(|error: margo::digest::DigestError| error.to_string())?;
            (name, Some(Tag::Digest(digest)))
        }
        None => (path, None),
    };
    match name.rsplit_once(':') {
        Some((repository, tag)) if is_tag(tag) => {
            Ok((repository, Some(digest.unwrap_or_else(|| Tag::Name(tag.to_owned())))))
        }
        _ => Ok((name, digest)),
    }
}

/// Lower-case parts separated by slashes.
pub fn is_repository(text: &str) -> bool {
    text.len() <= REPOSITORY_CHARS_MAX && text.split('/').all(is_component)
}

/// OCI distribution: `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`.
pub fn is_tag(text: &str) -> bool {
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
    fn rejects_invalid_references_with_an_example() {
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
    fn images_are_read_as_docker_reads_them() {
        let digest = format!("sha256:{}", "0".repeat(64));
        for (text, host, repository, tag) in [
            ("nginx", "docker.io", "library/nginx", "latest"),
            ("nginx:1.27-alpine", "docker.io", "library/nginx", "1.27-alpine"),
            ("example/press:1", "docker.io", "example/press", "1"),
            ("docker.io/nginx:1", "docker.io", "library/nginx", "1"),
            ("registry-1.docker.io/example/press:1", "docker.io", "example/press", "1"),
            ("registry.example/press", "registry.example", "press", "latest"),
            ("127.0.0.1:5000/line/press:1.0", "127.0.0.1:5000", "line/press", "1.0"),
            ("localhost/press:1", "localhost", "press", "1"),
            (&format!("registry.example/press:1.0@{digest}"), "registry.example", "press", &digest),
        ] {
            let read = Reference::parse_image(text).unwrap();
            assert_eq!((read.host.as_str(), read.repository.as_str(), &*read.tag.to_string()), (host, repository, tag));
        }
        for text in ["", "Nginx", "a:b:c", "registry.example/", "user:pass@registry.example/x", "x@sha256:0", "a b"] {
            assert!(Reference::parse_image(text).is_err(), "{text}");
        }
        assert_eq!(Reference::parse_image("nginx").unwrap().image(), "docker.io/library/nginx:latest");
    }

    #[test]
    fn a_registry_is_named_by_host_and_port() {
        for (text, host) in [
            ("registry.example", "registry.example"),
            (" Registry.Example:5000 ", "registry.example:5000"),
            ("https://registry.example/", "registry.example"),
            ("oci://registry.example/v2/", "registry.example"),
            ("[::1]:5000", "[::1]:5000"),
            ("index.docker.io", "docker.io"),
        ] {
            assert_eq!(parse_host(text).unwrap(), host);
        }
        for text in ["", " ", "http://registry.example", "registry.example/apps", "me:pass@registry.example", "a b"] {
            assert!(parse_host(text).is_err(), "{text}");
        }
        assert!(!parse_host("me:pass@registry.example").unwrap_err().contains("pass"));
    }

    #[test]
    fn recognizes_loopback_hosts() {
        let is_loopback = |host: &str| Reference::parse(&format!("oci://{host}/app:1")).unwrap().is_loopback();
        assert!(is_loopback("127.0.0.1:5000") && is_loopback("localhost") && is_loopback("[::1]:5000"));
        assert!(!is_loopback("10.0.0.1") && !is_loopback("localhost.example") && !is_loopback("registry.example:5000"));
    }
}
