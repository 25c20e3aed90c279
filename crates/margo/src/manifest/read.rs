//! Reading a State Manifest. Unknown members are ignored (W-08).

use super::{BUNDLE_MEDIA_TYPE, BundleRef, DeploymentRef, StateManifest};
use crate::digest::Digest;
use crate::reader::{Cursor, Object, shown};
use std::collections::HashSet;

pub(super) fn manifest(root: &Cursor<'_>) -> Option<StateManifest> {
    let object = root.object()?;
    let manifest_version = object.required("manifestVersion").and_then(|cursor| {
        let version = cursor.unsigned()?;
        if version == 0 {
            cursor.error("must be at least 1");
        }
        Some(version)
    });
    let deployments = object.required("deployments").and_then(|cursor| deployments(&cursor));
    let bundle = bundle(&object, deployments.as_deref());
    Some(StateManifest { manifest_version: manifest_version?, bundle: bundle?, deployments: deployments? })
}

#[expect(clippy::option_option, reason = "null is a valid bundle, unlike one that cannot be read")]
fn bundle(object: &Object<'_>, deployments: Option<&[DeploymentRef]>) -> Option<Option<BundleRef>> {
    let Some(cursor) = object.get_or_null("bundle") else {
        // DS-02: present, never omitted.
        object.missing("bundle", "is missing; without deployments it must be null");
        return None;
    };
    if cursor.node().is_null() {
        if deployments.is_some_and(|deployments| !deployments.is_empty()) {
            cursor.warning("is null although there are deployments; they have to be fetched one by one");
        }
        return Some(None);
    }
    if deployments.is_some_and(<[DeploymentRef]>::is_empty) {
        cursor.warning("should be null, because there are no deployments");
    }
    let object = cursor.object()?;
    let media_type = object.required("mediaType").and_then(|cursor| {
        let text = cursor.text()?;
        if text != BUNDLE_MEDIA_TYPE {
            // DS-03
            cursor.error(format!("is `{}`, but must be `{BUNDLE_MEDIA_TYPE}`", shown(&text)));
        }
        Some(text)
    });
    let digest = object.required("digest").and_then(|cursor| cursor.parse());
    let size_bytes = size_bytes(&object);
    let url = url(&object, digest.as_ref());
    Some(Some(BundleRef { media_type: media_type?, digest: digest?, size_bytes, url: url? }))
}

fn deployments(cursor: &Cursor<'_>) -> Option<Vec<DeploymentRef>> {
    let mut ids = HashSet::new();
    let read: Vec<Option<DeploymentRef>> = cursor
        .list()?
        .iter()
        .map(|cursor| {
            let object = cursor.object()?;
            let deployment_id = object.required("deploymentId").and_then(|cursor| cursor.parse());
            let digest = object.required("digest").and_then(|cursor| cursor.parse());
            let size_bytes = size_bytes(&object);
            let url = url(&object, digest.as_ref());
            if deployment_id.is_some_and(|id| !ids.insert(id)) {
                cursor.error("names a deployment that an earlier entry already names");
            }
            Some(DeploymentRef { deployment_id: deployment_id?, digest: digest?, size_bytes, url: url? })
        })
        .collect();
    read.into_iter().collect()
}

/// Advisory, so an invalid one is no reason to reject the manifest (DS-06).
fn size_bytes(object: &Object<'_>) -> Option<u64> {
    let cursor = object.get("sizeBytes")?;
    let size = match cursor.scalar() {
        Some(crate::node::Scalar::Number(number)) => number.as_u64(),
        _ => None,
    };
    if size.is_none() {
        cursor.warning("is ignored: it is not a whole number of bytes");
    }
    size
}

/// The digest in the URL equals the field (DS-05); clients build the path from the field anyway (W-03).
fn url(object: &Object<'_>, digest: Option<&Digest>) -> Option<String> {
    let cursor = object.required("url")?;
    let text = cursor.text()?;
    if digest.is_some_and(|digest| !text.ends_with(digest.as_str())) {
        cursor.warning("does not end in the digest of its target");
    }
    Some(text)
}
