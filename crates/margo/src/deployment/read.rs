//! Reading an ApplicationDeployment of generation B, and of A where it differs in form (W-22, DEP-04).

use super::{ApplicationDeployment, DeployedProfile, DeploymentMetadata, DeploymentSpec, ParameterValue};
use crate::constraints;
use crate::description::read::{components, kind, profile_type};
use crate::ids::{ApplicationId, DeploymentId};
use crate::parameters::read::{known_components, targets};
use crate::reader::{Cursor, Object, shown};
use indexmap::IndexMap;

pub(super) fn deployment(root: &Cursor<'_>) -> Option<ApplicationDeployment> {
    let object = root.object()?;
    let api_version = object.get("apiVersion");
    let older = api_version.is_some() || object.get("kind").is_some();
    if let Some(cursor) = api_version {
        match cursor.text() {
            Some(text) if text.contains("margo.org") => {
                cursor.warning("is no longer part of this document; remove it");
            }
            Some(text) => cursor.error(format!("`{}` is not a version of this document; remove it", shown(&text))),
            None => {}
        }
    }
    kind(&object, "ApplicationDeployment");
    let metadata_object = object.required("metadata").and_then(|cursor| cursor.object());
    let annotations =
        metadata_object.as_ref().and_then(|metadata| metadata.get("annotations")).and_then(|cursor| cursor.object());
    let id = id(&object, annotations.as_ref());
    let metadata = metadata_object.as_ref().and_then(|object| metadata(object, older));
    let spec = object.required("spec").and_then(|cursor| spec(&cursor, annotations.as_ref()));
    object.warn_unread();
    Some(ApplicationDeployment { id: id?, metadata: metadata?, spec: spec? })
}

fn id(object: &Object<'_>, annotations: Option<&Object<'_>>) -> Option<DeploymentId> {
    if let Some(cursor) = object.get("id") {
        return cursor.parse();
    }
    let Some(cursor) = annotations.and_then(|annotations| annotations.get("id")) else {
        object.missing("id", "is missing");
        return None;
    };
    cursor.warning("is from an older preview; move `id` to the top level");
    cursor.parse()
}

fn metadata(object: &Object<'_>, older: bool) -> Option<DeploymentMetadata> {
    let name = object.required_text("name");
    let namespace = object.required_text("namespace");
    let device_id = match object.get("deviceId") {
        Some(cursor) => cursor.parse().map(Some),
        None if older => {
            object.cursor().warning("has no `deviceId`; as in older previews, it is for the client's only device");
            Some(None)
        }
        None => {
            object.missing("deviceId", "is missing");
            None
        }
    };
    let labels = object.optional("labels", |cursor| {
        let entries: Vec<_> =
            cursor.entries()?.into_iter().map(|(key, cursor)| Some((key.to_owned(), cursor.text()?))).collect();
        entries.into_iter().collect::<Option<IndexMap<_, _>>>()
    });
    object.warn_unread();
    Some(DeploymentMetadata {
        name: name?,
        namespace: namespace?,
        device_id: device_id?,
        labels: labels.unwrap_or_default(),
    })
}

fn spec(cursor: &Cursor<'_>, annotations: Option<&Object<'_>>) -> Option<DeploymentSpec> {
    let object = cursor.object()?;
    let application_id = application_id(&object, annotations);
    let deployment_profile = object.required("deploymentProfile").and_then(|cursor| deployed_profile(&cursor));
    let parameters = match object.get("parameters") {
        Some(cursor) => parameters(&cursor, deployment_profile.as_ref()),
        None => Some(IndexMap::new()),
    };
    let extensions = object.extensions();
    object.warn_unread();
    Some(DeploymentSpec {
        application_id: application_id?,
        deployment_profile: deployment_profile?,
        parameters: parameters?,
        extensions,
    })
}

fn application_id(object: &Object<'_>, annotations: Option<&Object<'_>>) -> Option<ApplicationId> {
    let annotated = annotations.and_then(|annotations| annotations.get("applicationId"));
    let referenced = object.optional("appPackageRef", |cursor| cursor.object()?.get("id"));
    if let Some(cursor) = object.get("applicationId") {
        return cursor.parse();
    }
    let Some(cursor) = annotated.or(referenced) else {
        object.missing("applicationId", "is missing");
        return None;
    };
    cursor.warning("is from an older preview; write `spec.applicationId`");
    cursor.parse()
}

fn deployed_profile(cursor: &Cursor<'_>) -> Option<DeployedProfile> {
    let object = cursor.object()?;
    let profile_type = object.required("type").and_then(|cursor| profile_type(&cursor));
    let components = object.required("components").and_then(|cursor| components(&cursor, profile_type));
    let device_constraints = constraints::read::of_profile(&object);
    let extensions = object.extensions();
    object.warn_unread();
    Some(DeployedProfile { profile_type: profile_type?, components: components?, device_constraints, extensions })
}

fn parameters(cursor: &Cursor<'_>, profile: Option<&DeployedProfile>) -> Option<IndexMap<String, ParameterValue>> {
    let known = profile.map(|profile| known_components(profile.components.iter()));
    let read: Vec<_> = cursor
        .entries()?
        .into_iter()
        .map(|(name, cursor)| {
            let object = cursor.object()?;
            let value = object.get_or_null("value");
            if value.is_none() {
                object.missing("value", "is missing");
            }
            let value = value.and_then(|cursor| cursor.value());
            let targets = object.required("targets").and_then(|cursor| {
                targets(&cursor, |cursor, name| {
                    if known.as_ref().is_some_and(|known| !known.contains(name)) {
                        cursor.warning(format!("`{}` is not a component of this deployment", shown(name)));
                    }
                })
            });
            Some((name.to_owned(), ParameterValue { value: value?, targets: targets? }))
        })
        .collect();
    read.into_iter().collect()
}
