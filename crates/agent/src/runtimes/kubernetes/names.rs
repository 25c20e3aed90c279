//! How things are called in the cluster: stable, valid, and nobody else's.

use crate::runtimes::compose;
use margo::DeploymentId;
use serde_json::{Map, Value, json};

/// Which deployment an object belongs to.
pub const DEPLOYMENT: &str = "org.margrave.deployment";
/// Which component of it: the name of its release.
pub const INSTANCE: &str = "org.margrave.instance";
/// The component's own name, which need not be a valid label.
pub const COMPONENT: &str = "org.margrave.component";
/// On namespaces the agent made.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub const MANAGER: &str = "margrave";

/// Kubernetes takes no longer label.
const LABEL_CHARS_MAX: usize = 63;
/// Of the cluster itself.
const RESERVED: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// The release of a component: what a person reads, and a mark that makes it unique. Services are named after it, and
/// their names begin with a letter.
pub fn instance(deployment: DeploymentId, component: &str) -> String {
    let name = compose::names::project(deployment, component);
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("c-{name}") } else { name }
}

/// The labels of everything that belongs to a component.
pub fn labels(deployment: DeploymentId, instance: &str) -> Map<String, Value> {
    let labels = json!({ DEPLOYMENT: deployment.to_string(), INSTANCE: instance });
    labels.as_object().cloned().unwrap_or_default()
}

/// Everything that belongs to a component.
pub fn selector(instance: &str) -> String {
    format!("{INSTANCE}={instance}")
}

pub fn registry_secret(instance: &str) -> String {
    format!("{instance}-registry")
}

pub fn collector(instance: &str) -> String {
    format!("{instance}-collector")
}

/// Whether workloads may be put there.
pub fn check_namespace(namespace: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edges = !namespace.starts_with('-') && !namespace.ends_with('-');
    if namespace.is_empty() || namespace.len() > LABEL_CHARS_MAX || !namespace.bytes().all(fits) || !edges {
        return Err(format!(
            "`{namespace}` is not a namespace: use lower-case letters, digits and dashes, {LABEL_CHARS_MAX} at most"
        ));
    }
    if RESERVED.contains(&namespace) {
        return Err(format!("`{namespace}` belongs to the cluster itself; use another namespace"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_valid_names_of_services_whatever_the_component_is_called() {
        let one: DeploymentId = "a3e2f5dc-912e-494f-8395-52cf3769bc06".parse().unwrap();
        for component in ["web", "3d-viewer", "-x-", "a-very-long-name-of-a-component-that-somebody-has-chosen-once"] {
            let name = instance(one, component);
            assert!(name.starts_with(|first: char| first.is_ascii_lowercase()), "{name}");
            assert!(name.len() <= 53 && registry_secret(&name).len() <= 63, "{name}");
            assert_eq!(check_namespace(&name), Ok(()));
        }
        assert_ne!(instance(one, "3d"), instance(one, "c-3d"));
    }

    #[test]
    fn namespaces_of_the_cluster_and_odd_ones_are_refused() {
        assert_eq!(check_namespace("plant-1"), Ok(()));
        for odd in ["", "Plant", "-a", "a-", "a.b", "kube-system", &"x".repeat(64)] {
            assert!(check_namespace(odd).is_err(), "{odd}");
        }
    }
}
