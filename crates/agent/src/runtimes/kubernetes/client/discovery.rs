//! Discovery: version, API groups and kinds of the cluster.

use super::super::object::Resource;
use super::{ApiError, Client, Kinds};
use serde_json::Value;
use std::sync::{Arc, PoisonError};

/// Size of the cache of API groups; a chart uses a handful.
const KNOWN_MAX: usize = 64;
/// Groups with their versions: a plain cluster has 30, one with many extensions 150.
const GROUPS_MAX: usize = 500;

impl Client {
    /// The version of the cluster, such as `v1.30.2+k3s1`.
    pub async fn version(&self) -> Result<String, ApiError> {
        let version = self.get(&["version".to_owned()]).await?;
        Ok(version["gitVersion"].as_str().unwrap_or("v1.20.0").to_owned())
    }

    /// All API groups with all their versions, preferred ones first.
    async fn groups(&self) -> Result<Vec<String>, ApiError> {
        let mut groups = vec!["v1".to_owned()];
        let listed = self.get(&["apis".to_owned()]).await?;
        for group in listed["groups"].as_array().into_iter().flatten() {
            let versions = group["versions"].as_array().into_iter().flatten();
            groups.extend(versions.filter_map(|version| version["groupVersion"].as_str().map(str::to_owned)));
        }
        if groups.len() > GROUPS_MAX {
            return Err(ApiError::Failed(format!("the cluster has more than {GROUPS_MAX} groups of kinds")));
        }
        Ok(groups)
    }

    /// Every namespaced kind that can be listed, in one of its versions. A group that does not list its kinds is an
    /// error: its objects are unknown.
    pub async fn namespaced_kinds(&self) -> Result<Vec<Resource>, ApiError> {
        let mut all: Vec<Resource> = Vec::new();
        for group in self.groups().await? {
            let kinds = self.fetch_kinds(&group).await;
            let kinds =
                kinds.map_err(|error| ApiError::Failed(format!("the kinds of `{group}` are not known: {error}")))?;
            for kind in kinds.iter().filter(|kind| kind.namespaced && kind.listable) {
                if !all.iter().any(|known| known.group() == kind.group() && known.plural == kind.plural) {
                    all.push(kind.clone());
                }
            }
        }
        Ok(all)
    }

    /// All API versions and kinds, as charts use them: `apps/v1`, `apps/v1/Deployment`.
    pub async fn api_versions(&self) -> Result<Vec<String>, ApiError> {
        let mut all = Vec::new();
        for group in self.groups().await? {
            // Charts cannot use a group whose server is unavailable.
            let Ok(kinds) = self.fetch_kinds(&group).await else { continue };
            all.extend(kinds.iter().map(|kind| format!("{group}/{}", kind.kind)));
            all.push(group);
        }
        Ok(all)
    }

    /// The path name of a kind, and whether it is namespaced.
    pub async fn resource(&self, api_version: &str, kind: &str) -> Result<Resource, ApiError> {
        let find = |kinds: &Kinds| kinds.iter().find(|known| known.kind == kind).cloned();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(api_version).and_then(&find);
        if let Some(known) = known {
            return Ok(known);
        }
        let unknown = || ApiError::Failed(format!("the cluster has no kind `{kind}` of `{api_version}`"));
        let kinds = match self.fetch_kinds(api_version).await {
            Err(error) if error.is_missing() => return Err(unknown()),
            other => other?,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(api_version.to_owned(), Arc::clone(&kinds));
        find(&kinds).ok_or_else(unknown)
    }

    async fn fetch_kinds(&self, api_version: &str) -> Result<Kinds, ApiError> {
        let listed = self.get(&Resource::group_path(api_version)).await?;
        let resources = listed["resources"].as_array().into_iter().flatten();
        // `deployments/status` is a subresource.
        let whole = resources.filter(|resource| !resource["name"].as_str().unwrap_or("/").contains('/'));
        let one = |resource: &Value| {
            Some(Resource {
                api_version: api_version.to_owned(),
                kind: resource["kind"].as_str()?.to_owned(),
                plural: resource["name"].as_str()?.to_owned(),
                namespaced: resource["namespaced"] == true,
                listable: resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "list")),
            })
        };
        Ok(Arc::new(whole.filter_map(one).collect()))
    }
}
