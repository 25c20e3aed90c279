//! Namespaces: created if missing, deleted if the agent created them and they are empty.
//!
//! Deleting a namespace deletes everything in it. So the agent lists every kind of the cluster; if one cannot be
//! listed, the namespace is kept, and the log says why (ADR 28).

use super::apply::{CLAIM, is_kept};
use super::client::{ApiError, ApplyOptions};
use super::cluster::{Cluster, Instance, from_api};
use super::names;
use super::object::{Resource, annotation, group, label, uid};
use crate::machine::io::WorkFailure;
use crate::runtimes::engine::{failed, unavailable};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// A terminating namespace is gone in seconds, unless an object in it takes longer.
const TERMINATING_MAX: Duration = Duration::from_mins(2);
/// Wait for objects that are deleted after their component: claims, tokens, objects of controllers.
const PASSING_MAX: Duration = Duration::from_secs(20);
const POLL_PERIOD: Duration = Duration::from_millis(500);
/// The account of a token, and its uid.
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The contents of a namespace.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    Nothing,
    /// Only objects that are being deleted, as text.
    Passing(String),
    /// An object that must be kept, as text.
    Theirs(String),
}

/// What one object means for the deletion of its namespace.
#[derive(Debug, PartialEq, Eq)]
enum Relevance {
    /// The cluster creates and deletes it automatically.
    None,
    Passing,
    Theirs,
}

impl Cluster {
    /// Creates the namespace if it is missing; an existing one is used as it is.
    pub(super) async fn ensure_namespace(&self, instance: &Instance) -> Result<(), WorkFailure> {
        let name = &instance.namespace;
        let path = namespaces().path(None, Some(name));
        let mut found = self.client.find(&path).await;
        let started = Instant::now();
        while matches!(&found, Ok(Some(found)) if found["status"]["phase"] == "Terminating") {
            if started.elapsed() > TERMINATING_MAX {
                return Err(unavailable(format!("namespace `{name}` is still being removed")));
            }
            tokio::time::sleep(POLL_PERIOD).await;
            found = self.client.find(&path).await;
        }
        match found {
            Ok(Some(_)) => Ok(()),
            Ok(None) if self.settings.namespace.is_some() => Err(failed(format!(
                "namespace `{name}` from the settings does not exist; create it, or configure another"
            ))),
            Ok(None) => {
                let object = json!({
                    "apiVersion": "v1", "kind": "Namespace",
                    "metadata": { "name": name, "labels": {
                        names::MANAGED_BY: names::MANAGER, names::DEPLOYMENT: instance.deployment.to_string(),
                    } },
                });
                self.client.apply(&path, &object, ApplyOptions::default()).await.map(|_| ()).map_err(from_api)
            }
            // Permissions in a namespace need not include reading it.
            Err(ApiError::Refused { status: 403, .. }) if self.settings.namespace.is_some() => Ok(()),
            Err(error) => Err(from_api(error)),
        }
    }

    /// Deletes a namespace of the agent if it is empty. An error means that the API is unavailable.
    pub(super) async fn drop_namespace(&self, instance: &Instance) -> Result<(), ApiError> {
        if self.settings.namespace.is_some() {
            return Ok(());
        }
        let name = &instance.namespace;
        let path = namespaces().path(None, Some(name));
        let found = match self.client.find(&path).await {
            Ok(Some(found)) if label(&found, names::MANAGED_BY) == Some(names::MANAGER) => found,
            Ok(_) => return Ok(()),
            Err(error) => return self.stays(name, &error).await,
        };
        let started = Instant::now();
        loop {
            match self.content(instance).await {
                Ok(Content::Nothing) => break,
                Ok(Content::Passing(_)) if started.elapsed() < PASSING_MAX => tokio::time::sleep(POLL_PERIOD).await,
                Ok(Content::Passing(what) | Content::Theirs(what)) => {
                    tracing::info!("namespace `{name}` is kept: it contains {what}");
                    return Ok(());
                }
                Err(error) => return self.stays(name, &error).await,
            }
        }
        match self.client.delete(&path, uid(&found)).await {
            Err(error) => self.stays(name, &error).await,
            Ok(()) => Ok(()),
        }
    }

    /// A kind that cannot be listed keeps the namespace; an unavailable API causes a retry.
    async fn stays(&self, name: &str, error: &ApiError) -> Result<(), ApiError> {
        self.client.version().await?;
        tracing::warn!("namespace `{name}` is kept, because it may contain objects of others: {error}");
        Ok(())
    }

    async fn content(&self, instance: &Instance) -> Result<Content, ApiError> {
        let kinds = self.client.namespaced_kinds().await?;
        let mut content = Content::Nothing;
        for kind in kinds.iter().filter(|kind| !is_derived(kind)) {
            let path = kind.path(Some(&instance.namespace), None);
            let items = match self.client.list(&path, "", true).await {
                Err(error) if error.is_missing() => continue,
                Err(error) => return Err(ApiError::Failed(format!("{} cannot be listed: {error}", kind.plural))),
                Ok(items) => items,
            };
            for item in &items {
                let words = || format!("{} `{}`", kind.kind, item["metadata"]["name"].as_str().unwrap_or_default());
                match weight(kind, item, instance, &kinds) {
                    Relevance::None => {}
                    Relevance::Passing => content = Content::Passing(words()),
                    Relevance::Theirs => return Ok(Content::Theirs(words())),
                }
            }
        }
        Ok(content)
    }
}

fn namespaces() -> Resource {
    Resource::fixed("v1", "Namespace", "namespaces", false)
}

/// Kinds derived from others, which are deleted with them.
fn is_derived(kind: &Resource) -> bool {
    match kind.group() {
        "" => matches!(kind.plural.as_str(), "events" | "endpoints"),
        "events.k8s.io" => kind.plural == "events",
        "metrics.k8s.io" => true,
        _ => false,
    }
}

fn weight(kind: &Resource, item: &Value, instance: &Instance, kinds: &[Resource]) -> Relevance {
    let name = item["metadata"]["name"].as_str().unwrap_or_default();
    // Exists in every namespace.
    let standard = match (kind.group(), kind.kind.as_str()) {
        ("", "ConfigMap") => name == "kube-root-ca.crt",
        ("", "ServiceAccount") => name == "default",
        // Until 1.23 every account had a token, which is deleted with its account.
        ("", "Secret") => match annotation(item, ACCOUNT) {
            Some("default") => name.starts_with("default-token-"),
            Some(_) => annotation(item, ACCOUNT_UID).is_some(),
            None => false,
        },
        _ => false,
    };
    if standard || goes_with_others(item, kinds) {
        return Relevance::None;
    }
    let leaves = !item["metadata"]["deletionTimestamp"].is_null();
    let stays = kind.kind == CLAIM || is_kept(item);
    let was_ours = label(item, names::INSTANCE) == Some(&instance.name) && !stays;
    if leaves || was_ours { Relevance::Passing } else { Relevance::Theirs }
}

/// Whether its owners are in the same namespace: they are counted themselves, and it is deleted with them.
fn goes_with_others(item: &Value, kinds: &[Resource]) -> bool {
    let Some(owners) = item["metadata"]["ownerReferences"].as_array().filter(|owners| !owners.is_empty()) else {
        return false;
    };
    owners.iter().all(|owner| {
        let of = group(owner["apiVersion"].as_str().unwrap_or_default());
        kinds.iter().any(|kind| kind.group() == of && owner["kind"] == kind.kind.as_str() && !is_derived(kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds() -> Vec<Resource> {
        vec![
            Resource::fixed("v1", "ConfigMap", "configmaps", true),
            Resource::fixed("v1", "Secret", "secrets", true),
            Resource::fixed("v1", "ServiceAccount", "serviceaccounts", true),
            Resource::fixed("v1", "PersistentVolumeClaim", "persistentvolumeclaims", true),
            Resource::fixed("apps/v1", "ReplicaSet", "replicasets", true),
            Resource::fixed("apps/v1", "Deployment", "deployments", true),
            Resource::fixed("plant.example/v1", "ConfigMap", "configmaps", true),
        ]
    }

    fn relevance_of(at: usize, metadata: Value) -> Relevance {
        let instance = Instance {
            deployment: "a3e2f5dc-912e-494f-8395-52cf3769bc06".parse().unwrap(),
            component: "web".to_owned(),
            name: "web-1".to_owned(),
            namespace: "plant".to_owned(),
        };
        weight(&kinds()[at], &json!({ "metadata": metadata }), &instance, &kinds())
    }

    #[test]
    fn default_objects_of_a_namespace_do_not_count() {
        assert_eq!(relevance_of(0, json!({ "name": "kube-root-ca.crt" })), Relevance::None);
        assert_eq!(relevance_of(2, json!({ "name": "default" })), Relevance::None);
        let token =
            |name: &str, account: &str| json!({ "name": name, "annotations": { ACCOUNT: account, ACCOUNT_UID: "u" } });
        assert_eq!(relevance_of(1, token("default-token-x7k2p", "default")), Relevance::None);
        assert_eq!(relevance_of(1, token("web-token-x7k2p", "web")), Relevance::None, "it goes with its account");
        // Objects of others with similar names.
        assert_eq!(relevance_of(1, token("my-token", "default")), Relevance::Theirs);
        assert_eq!(relevance_of(1, json!({ "name": "default-token-mine" })), Relevance::Theirs);
        assert_eq!(relevance_of(2, json!({ "name": "builder" })), Relevance::Theirs);
        assert_eq!(relevance_of(6, json!({ "name": "kube-root-ca.crt" })), Relevance::Theirs, "of another group");
    }

    #[test]
    fn owned_objects_are_counted_by_their_owners() {
        let owned = |api_version: &str, kind: &str| json!({ "name": "x", "ownerReferences": [{ "apiVersion": api_version, "kind": kind }] });
        assert_eq!(relevance_of(4, owned("apps/v1", "Deployment")), Relevance::None);
        assert_eq!(relevance_of(4, owned("v1", "Node")), Relevance::Theirs, "its owner is not in the namespace");
        assert_eq!(relevance_of(4, owned("unknown.example/v1", "Deployment")), Relevance::Theirs);
    }

    #[test]
    fn waits_for_terminating_objects_but_not_for_kept_claims() {
        let ours = json!({ "name": "x", "labels": { names::INSTANCE: "web-1" } });
        assert_eq!(relevance_of(0, ours.clone()), Relevance::Passing);
        assert_eq!(relevance_of(3, ours), Relevance::Theirs, "a claim that was kept");
        let other = json!({ "name": "x", "labels": { names::INSTANCE: "web-2" } });
        assert_eq!(relevance_of(0, other), Relevance::Theirs, "of another deployment");
        assert_eq!(
            relevance_of(3, json!({ "name": "x", "deletionTimestamp": "2026-01-01T00:00:00Z" })),
            Relevance::Passing
        );
    }
}
