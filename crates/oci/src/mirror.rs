//! Where a copy from another registry is stored in the embedded one, so that devices find it by its original name.
//!
//! `registry.example:5000/line/press` is stored in `mirror/registry.example__5000/line/press`. A colon is not allowed
//! in the name of a repository; `__` is, and never occurs in the name of a host.

/// The first part of the name of every mirrored repository.
pub const PREFIX: &str = "mirror/";
const PORT_SEPARATOR: &str = "__";
/// Docker's own registry, under the name that references use.
pub const DOCKER_HUB: &str = "docker.io";

/// The repository for the copy of `repository` on `host`; `None` for a host that cannot be part of a name (IPv6).
pub fn repository(host: &str, repository: &str) -> Option<String> {
    let host = host.to_ascii_lowercase();
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host.as_str(), None),
    };
    let is_name = |text: &str| {
        !text.is_empty()
            && text.split('.').all(|part| {
                let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
                part.bytes().all(|byte| inner(byte) || byte == b'-')
                    && part.bytes().next().is_some_and(inner)
                    && part.bytes().last().is_some_and(inner)
            })
    };
    let port_fits = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    (is_name(name) && port_fits).then(|| match port {
        Some(port) => format!("{PREFIX}{name}{PORT_SEPARATOR}{port}/{repository}"),
        None => format!("{PREFIX}{name}/{repository}"),
    })
}

/// The original host and repository of a mirrored repository.
pub fn origin(mirrored: &str) -> Option<(String, &str)> {
    let (host, repository) = mirrored.strip_prefix(PREFIX)?.split_once('/')?;
    Some((host.replacen(PORT_SEPARATOR, ":", 1), repository))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirrored_repository_names_its_origin() {
        for (host, path, expected) in [
            ("registry.example", "line/press", "mirror/registry.example/line/press"),
            ("Registry.Example:5000", "press", "mirror/registry.example__5000/press"),
            ("127.0.0.1:5000", "a/b/c", "mirror/127.0.0.1__5000/a/b/c"),
            (DOCKER_HUB, "library/nginx", "mirror/docker.io/library/nginx"),
        ] {
            let mirrored = repository(host, path).unwrap();
            assert_eq!(mirrored, expected);
            assert_eq!(origin(&mirrored), Some((host.to_ascii_lowercase(), path)));
        }
        assert_eq!(origin("apps/press"), None);
        assert_eq!(origin("mirror/press"), None);
    }

    #[test]
    fn hosts_that_cannot_be_part_of_a_name_have_no_mirror() {
        for host in ["[::1]:5000", "", "a..b", "-a", "a:", "a:x", "a_b"] {
            assert_eq!(repository(host, "x"), None, "{host}");
        }
    }
}
