//! Namespaces: made where one is missing, deleted when the agent made it and nothing of anybody is left in it.
//!
//! With a namespace goes whatever is in it. So every kind the cluster knows is asked, and what cannot be asked counts as
//! something: the namespace stays, and the log says why (ADR 28).

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

/// A namespace that is being removed is gone in seconds, unless something in it takes its time.
const TERMINATING_MAX: Duration = Duration::from_mins(2);
/// What is on its way out when its component is gone: claims, tokens, what controllers clean up.
const PASSING_MAX: Duration = Duration::from_secs(20);
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// Which account a token belongs to, and that the cluster has taken notice of it.
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// What a look into a namespace found.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    Nothing,
    /// Only what is on its way out, in words.
    Passing(String),
    /// Something somebody would miss, in words.
    Theirs(String),
}

/// What one object means for the namespace it is in.
#[derive(Debug, PartialEq, Eq)]
enum Weight {
    /// The cluster puts it there by itself, or takes it away by itself.
    None,
    Passing,
    Theirs,
}

impl Cluster {
    /// Makes the namespace where it is missing; one that others made is used as it is.
    pub(super) async fn ensure_namespace(&self, instance: &Instance) -> Result<(), WorkFailure> {
        let name = &instance.namespace;
        let path = namespaces().path(None, Some(name));
        let mut found = self.client.find(&path).await;
        let begun = Instant::now();
        while matches!(&found, Ok(Some(found)) if found["status"]["phase"] == "Terminating") {
            if begun.elapsed() > TERMINATING_MAX {
                return Err(unavailable(format!("namespace `{name}` is still being removed")));
            }
            tokio::time::sleep(LOOK_PERIOD).await;
            found = self.client.find(&path).await;
        }
        match found {
            Ok(Some(_)) => Ok(()),
            Ok(None) if self.settings.namespace.is_some() => {
                Err(failed(format!("namespace `{name}` of the settings is not there; make it, or name another")))
            }
            Ok(None) => {
                let object = json!({
                    "apiVersion": "v1", "kind": "Namespace",
                    "metadata": { "name": name, "labels": {
                        names::MANAGED_BY: names::MANAGER, names::DEPLOYMENT: instance.deployment.to_string(),
                    } },
                });
                self.client.apply(&path, &object, ApplyOptions::default()).await.map(|_| ()).map_err(from_api)
            }
            // Rights in one namespace need not include looking at it.
            Err(ApiError::Refused { status: 403, .. }) if self.settings.namespace.is_some() => Ok(()),
            Err(error) => Err(from_api(error)),
        }
    }

    /// Deletes a namespace the agent made when nothing of anybody is left in it. An error means the API is away.
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
        let begun = Instant::now();
        loop {
            match self.content(instance).await {
                Ok(Content::Nothing) => break,
                Ok(Content::Passing(_)) if begun.elapsed() < PASSING_MAX => tokio::time::sleep(LOOK_PERIOD).await,
                Ok(Content::Passing(what) | Content::Theirs(what)) => {
                    tracing::info!("namespace `{name}` stays: {what} is in it");
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

    /// One kind that cannot be asked keeps the namespace; an API that is away altogether is come back to.
    async fn stays(&self, name: &str, error: &ApiError) -> Result<(), ApiError> {
        self.client.version().await?;
        tracing::warn!("namespace `{name}` stays, since it may hold what others made: {error}");
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
                    Weight::None => {}
                    Weight::Passing => content = Content::Passing(words()),
                    Weight::Theirs => return Ok(Content::Theirs(words())),
                }
            }
        }
        Ok(content)
    }
}

fn namespaces() -> Resource {
    Resource::fixed("v1", "Namespace", "namespaces", false)
}

/// Kinds that only tell of others: they are gone when those are, and nobody misses them.
fn is_derived(kind: &Resource) -> bool {
    match kind.group() {
        "" => matches!(kind.plural.as_str(), "events" | "endpoints"),
        "events.k8s.io" => kind.plural == "events",
        "metrics.k8s.io" => true,
        _ => false,
    }
}

fn weight(kind: &Resource, item: &Value, instance: &Instance, kinds: &[Resource]) -> Weight {
    let name = item["metadata"]["name"].as_str().unwrap_or_default();
    // In every namespace.
    let standard = match (kind.group(), kind.kind.as_str()) {
        ("", "ConfigMap") => name == "kube-root-ca.crt",
        ("", "ServiceAccount") => name == "default",
        // Until 1.23 every account had a token; that of another account goes with it.
        ("", "Secret") => match annotation(item, ACCOUNT) {
            Some("default") => name.starts_with("default-token-"),
            Some(_) => annotation(item, ACCOUNT_UID).is_some(),
            None => false,
        },
        _ => false,
    };
    if standard || goes_with_others(item, kinds) {
        return Weight::None;
    }
    let leaves = !item["metadata"]["deletionTimestamp"].is_null();
    let stays = kind.kind == CLAIM || is_kept(item);
    let was_ours = label(item, names::INSTANCE) == Some(&instance.name) && !stays;
    if leaves || was_ours { Weight::Passing } else { Weight::Theirs }
}

/// What belongs to objects of the same namespace: they are counted themselves, or gone, and it follows them.
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

    fn judge(at: usize, metadata: Value) -> Weight {
        let instance = Instance {
            deployment: "a3e2f5dc-912e-494f-8395-52cf3769bc06".parse().unwrap(),
            component: "web".to_owned(),
            name: "web-1".to_owned(),
            namespace: "plant".to_owned(),
        };
        weight(&kinds()[at], &json!({ "metadata": metadata }), &instance, &kinds())
    }

    #[test]
    fn what_the_cluster_puts_into_every_namespace_does_not_count() {
        assert_eq!(judge(0, json!({ "name": "kube-root-ca.crt" })), Weight::None);
        assert_eq!(judge(2, json!({ "name": "default" })), Weight::None);
        let token =
            |name: &str, account: &str| json!({ "name": name, "annotations": { ACCOUNT: account, ACCOUNT_UID: "u" } });
        assert_eq!(judge(1, token("default-token-x7k2p", "default")), Weight::None);
        assert_eq!(judge(1, token("web-token-x7k2p", "web")), Weight::None, "it goes with its account");
        // Somebody's own, under names much like them.
        assert_eq!(judge(1, token("my-token", "default")), Weight::Theirs);
        assert_eq!(judge(1, json!({ "name": "default-token-mine" })), Weight::Theirs);
        assert_eq!(judge(2, json!({ "name": "builder" })), Weight::Theirs);
        assert_eq!(judge(6, json!({ "name": "kube-root-ca.crt" })), Weight::Theirs, "of another group");
    }

    #[test]
    fn what_belongs_to_others_is_counted_by_them() {
        let owned = |api_version: &str, kind: &str| json!({ "name": "x", "ownerReferences": [{ "apiVersion": api_version, "kind": kind }] });
        assert_eq!(judge(4, owned("apps/v1", "Deployment")), Weight::None);
        assert_eq!(judge(4, owned("v1", "Node")), Weight::Theirs, "its owner is not in the namespace");
        assert_eq!(judge(4, owned("unknown.example/v1", "Deployment")), Weight::Theirs);
    }

    #[test]
    fn what_leaves_is_waited_for_and_kept_data_is_not() {
        let ours = json!({ "name": "x", "labels": { names::INSTANCE: "web-1" } });
        assert_eq!(judge(0, ours.clone()), Weight::Passing);
        assert_eq!(judge(3, ours), Weight::Theirs, "a claim that was kept");
        let other = json!({ "name": "x", "labels": { names::INSTANCE: "web-2" } });
        assert_eq!(judge(0, other), Weight::Theirs, "of another deployment");
        assert_eq!(judge(3, json!({ "name": "x", "deletionTimestamp": "2026-01-01T00:00:00Z" })), Weight::Passing);
    }
}
