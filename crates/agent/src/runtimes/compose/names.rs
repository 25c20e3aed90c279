//! Names: one compose project per component, with a stable and unique name.

use margo::{DeploymentId, Digest};

/// Docker prefixes every container name with it, so it is short.
const SLUG_CHARS_MAX: usize = 24;
/// 48 bits: names of components do not collide on one device.
const MARK_CHARS: usize = 12;

/// Labels compose itself sets.
pub(super) const PROJECT: &str = "com.docker.compose.project";
pub(super) const SERVICE: &str = "com.docker.compose.service";
pub(super) const NUMBER: &str = "com.docker.compose.container-number";
pub(super) const CONFIG_HASH: &str = "com.docker.compose.config-hash";
pub(super) const ONE_OFF: &str = "com.docker.compose.oneoff";

/// Our labels on every container.
pub(super) const DEPLOYMENT: &str = "org.margrave.deployment";
pub(super) const COMPONENT: &str = "org.margrave.component";
/// Digest of the archive files that a service mounts: compose does not detect their changes.
pub(super) const FILES: &str = "org.margrave.files";

/// The project of a component: a readable name, and a hash that makes it unique.
pub fn project(deployment: DeploymentId, component: &str) -> String {
    let mut slug = String::new();
    for character in component.chars().map(|character| character.to_ascii_lowercase()) {
        if character.is_ascii_alphanumeric() {
            slug.push(character);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= SLUG_CHARS_MAX {
            break;
        }
    }
    let slug = slug.trim_end_matches('-');
    let slug = if slug.is_empty() { "component" } else { slug };
    let mark = Digest::of(format!("{deployment}/{component}").as_bytes());
    format!("{slug}-{}", &mark.hex()[..MARK_CHARS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stable_readable_and_unique() {
        let one: DeploymentId = "a3e2f5dc-912e-494f-8395-52cf3769bc06".parse().unwrap();
        let other: DeploymentId = "b3e2f5dc-912e-494f-8395-52cf3769bc06".parse().unwrap();
        assert_eq!(project(one, "web"), project(one, "web"));
        assert!(project(one, "Digitron Orchestrator_v2").starts_with("digitron-orchestrator-v2-"));
        assert!(project(one, "…").starts_with("component-"));
        let names = [project(one, "web"), project(other, "web"), project(one, "Web"), project(one, "web-")];
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        for name in &names {
            let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            assert!(name.bytes().all(is_valid) && name.len() <= SLUG_CHARS_MAX + 1 + MARK_CHARS, "{name}");
        }
    }
}
