//! References to objects, and helpers for all kinds.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// A kind and its path name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub api_version: String,
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
    /// Whether the kind can be listed.
    pub listable: bool,
}

impl Resource {
    pub(super) fn fixed(api_version: &str, kind: &str, plural: &str, namespaced: bool) -> Self {
        let (api_version, kind, plural) = (api_version.to_owned(), kind.to_owned(), plural.to_owned());
        Self { api_version, kind, plural, namespaced, listable: true }
    }

    /// Empty for the core group.
    pub fn group(&self) -> &str {
        group(&self.api_version)
    }

    /// The path of a group version.
    pub fn group_path(api_version: &str) -> Vec<String> {
        match api_version.split_once('/') {
            Some((group, version)) => ["apis", group, version].map(str::to_owned).to_vec(),
            None => ["api", api_version].map(str::to_owned).to_vec(),
        }
    }

    /// The path of an object, or of all objects of a kind; without a namespace, in all namespaces.
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>) -> Vec<String> {
        let mut path = Self::group_path(&self.api_version);
        if let Some(namespace) = namespace.filter(|_| self.namespaced) {
            path.extend(["namespaces".to_owned(), namespace.to_owned()]);
        }
        path.push(self.plural.clone());
        path.extend(name.map(str::to_owned));
        path
    }
}

/// `apps` of `apps/v1`.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// One object by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    pub api_version: String,
    pub kind: String,
    /// `None` for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectRef {
    /// The name of an object that has one.
    pub fn of(object: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        Some(Self {
            api_version: text(&object["apiVersion"])?,
            kind: text(&object["kind"])?,
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"])?,
        })
    }

    fn group(&self) -> &str {
        group(&self.api_version)
    }

    /// The same object, possibly in another version of its group.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.group(), &self.kind, &self.namespace, &self.name)
            == (other.group(), &other.kind, &other.namespace, &other.name)
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind, self.name)
    }
}

/// The path of the pod template of a kind.
pub fn pod_template_path(kind: &str) -> Option<&'static str> {
    match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" | "Job" => {
            Some("/spec/template")
        }
        "CronJob" => Some("/spec/jobTemplate/spec/template"),
        "Pod" => Some(""),
        _ => None,
    }
}

/// Containers of a pod template, including init containers.
pub fn containers(template: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainers", "containers"].into_iter().map(|list| &template["spec"][list]);
    lists.filter_map(Value::as_array).flatten()
}

pub fn label<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["labels"][name].as_str()
}

pub fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][name].as_str()
}

pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn builds_api_paths_of_objects() {
        let deployments = Resource::fixed("apps/v1", "Deployment", "deployments", true);
        assert_eq!(deployments.path(Some("n"), Some("web")).join("/"), "apis/apps/v1/namespaces/n/deployments/web");
        assert_eq!(deployments.path(None, None).join("/"), "apis/apps/v1/deployments");
        let namespaces = Resource::fixed("v1", "Namespace", "namespaces", false);
        assert_eq!(namespaces.path(Some("n"), Some("n")).join("/"), "api/v1/namespaces/n");
    }

    #[test]
    fn an_object_stays_the_same_in_another_version_of_its_group() {
        let one = |version: &str, name: &str| {
            ObjectRef::of(&json!({ "apiVersion": version, "kind": "Ingress", "metadata": { "name": name } })).unwrap()
        };
        assert!(one("networking.k8s.io/v1beta1", "a").is_same(&one("networking.k8s.io/v1", "a")));
        assert!(!one("networking.k8s.io/v1", "b").is_same(&one("networking.k8s.io/v1", "a")));
        assert!(!one("extensions/v1beta1", "a").is_same(&one("networking.k8s.io/v1", "a")));
        assert_eq!(ObjectRef::of(&json!({ "kind": "Pod", "metadata": { "name": "x" } })), None);
    }
}
