//! Names in the cluster: stable, valid and unique.

use crate::runtimes::compose;
use margo::DeploymentId;
use serde_json::{Map, Value, json};

/// Label with the deployment of an object.
pub const DEPLOYMENT: &str = "org.margrave.deployment";
/// Label with its component: the name of the release.
pub const INSTANCE: &str = "org.margrave.instance";
/// The component's own name, which need not be a valid label.
pub const COMPONENT: &str = "org.margrave.component";
/// Label of namespaces that the agent created.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub const MANAGER: &str = "margrave";

/// Limit of Kubernetes.
const LABEL_CHARS_MAX: usize = 63;
/// Namespaces of the cluster itself.
const RESERVED: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// The release of a component: a readable name, and a hash that makes it unique. Services are named after it, and their
/// names begin with a letter.
pub fn instance(deployment: DeploymentId, component: &str) -> String {
    let name = compose::names::project(deployment, component);
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("c-{name}") } else { name }
}

/// The labels of all objects of a component.
pub fn labels(deployment: DeploymentId, instance: &str) -> Map<String, Value> {
    let labels = json!({ DEPLOYMENT: deployment.to_string(), INSTANCE: instance });
    labels.as_object().cloned().unwrap_or_default()
}

/// Selects all objects of a component.
pub fn selector(instance: &str) -> String {
    format!("{INSTANCE}={instance}")
}

pub fn registry_secret(instance: &str) -> String {
    format!("{instance}-registry")
}

pub fn collector(instance: &str) -> String {
    format!("{instance}-collector")
}

/// Whether workloads may use this namespace.
pub fn check_namespace(namespace: &str) -> Result<(), String> {
    let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edges = !namespace.starts_with('-') && !namespace.ends_with('-');
    if namespace.is_empty() || namespace.len() > LABEL_CHARS_MAX || !namespace.bytes().all(is_valid) || !edges {
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
    fn release_names_are_valid_service_names() {
        let one: DeploymentId = "a3e2f5dc-912e-494f-8395-52cf3769bc06".parse().unwrap();
        for component in ["web", "3d-viewer", "-x-", "a-very-long-name-of-a-component-that-a-person-has-chosen-once"] {
            let name = instance(one, component);
            assert!(name.starts_with(|first: char| first.is_ascii_lowercase()), "{name}");
            assert!(name.len() <= 53 && registry_secret(&name).len() <= 63, "{name}");
            assert_eq!(check_namespace(&name), Ok(()));
        }
        assert_ne!(instance(one, "3d"), instance(one, "c-3d"));
    }

    #[test]
    fn rejects_cluster_and_invalid_namespaces() {
        assert_eq!(check_namespace("plant-1"), Ok(()));
        for odd in ["", "Plant", "-a", "a-", "a.b", "kube-system", &"x".repeat(64)] {
            assert!(check_namespace(odd).is_err(), "{odd}");
        }
    }
}
