//! Differences by field.

use indexmap::IndexMap;
use margo::deployment::ApplicationDeployment;
use margo::description::{ApplicationDescription, Component, ComponentSource};
use margrave_api::diff::FieldDiff;
use serde_json::{Value, json};

/// Fields by name, in the order they are shown.
pub(super) type Fields = IndexMap<String, Value>;

/// Fields that are in one of them only, or differ.
pub(super) fn compare(before: &Fields, after: &Fields) -> Vec<FieldDiff> {
    let gone_or_other = before.iter().filter(|(name, value)| after.get(*name) != Some(value));
    let new = after.iter().filter(|(name, _)| !before.contains_key(*name));
    let names = gone_or_other.chain(new).map(|(name, _)| name);
    names
        .map(|name| FieldDiff {
            field: name.clone(),
            before: before.get(name).cloned(),
            after: after.get(name).cloned(),
        })
        .collect()
}

/// Of a document whose sensitive values are masked.
pub(super) fn of_deployment(document: &ApplicationDeployment, version: &str, profile: &str) -> Fields {
    let mut fields = Fields::new();
    fields.insert("version".to_owned(), version.into());
    fields.insert("profile".to_owned(), profile.into());
    for component in &document.spec.deployment_profile.components {
        fields.insert(format!("components.{}", component.name), of_component(component));
    }
    for (name, parameter) in &document.spec.parameters {
        fields.insert(format!("parameters.{name}"), parameter.value.clone());
    }
    fields
}

/// Of a description whose sensitive defaults are masked.
pub(super) fn of_description(description: &ApplicationDescription) -> Fields {
    let mut fields = Fields::new();
    fields.insert("version".to_owned(), description.metadata.version.as_str().into());
    fields.insert("name".to_owned(), description.metadata.name.as_str().into());
    if let Some(text) = &description.metadata.description {
        fields.insert("description".to_owned(), text.as_str().into());
    }
    for profile in &description.deployment_profiles {
        let place = format!("profiles.{}", profile.id);
        fields.insert(place.clone(), profile.profile_type.as_str().into());
        for component in &profile.components {
            fields.insert(format!("{place}.components.{}", component.name), of_component(component));
        }
        if let Some(constraints) = &profile.device_constraints {
            fields.insert(format!("{place}.deviceConstraints"), constraints.raw.clone());
        }
    }
    for (name, parameter) in &description.parameters {
        fields.insert(format!("parameters.{name}"), parameter.value.clone().unwrap_or(Value::Null));
    }
    let settings = description.configuration.iter().flat_map(|configuration| &configuration.sections);
    for setting in settings.flat_map(|section| &section.settings) {
        let shown = json!({ "name": setting.name, "schema": setting.schema, "immutable": setting.immutable });
        fields.insert(format!("settings.{}", setting.parameter), shown);
    }
    fields
}

fn of_component(component: &Component) -> Value {
    let mut shown = match &component.properties.source {
        ComponentSource::Oci { repository, revision } => json!({ "repository": repository, "revision": revision }),
        ComponentSource::Location { package_location, .. } => json!({ "packageLocation": package_location }),
    };
    if let Some(members) = shown.as_object_mut() {
        if let Some(wait) = component.properties.wait {
            members.insert("wait".to_owned(), wait.into());
        }
        if let Some(timeout) = component.properties.timeout {
            members.insert("timeout".to_owned(), timeout.to_string().into());
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_removed_new_and_changed_fields() {
        let fields = |text: Value| text.as_object().cloned().unwrap().into_iter().collect::<Fields>();
        let shown = compare(&fields(json!({ "a": 1, "b": 2, "c": 3 })), &fields(json!({ "b": 2, "c": 4, "d": null })));
        let shown: Vec<_> =
            shown.iter().map(|one| (one.field.as_str(), one.before.clone(), one.after.clone())).collect();
        assert_eq!(
            shown,
            [("a", Some(json!(1)), None), ("c", Some(json!(3)), Some(json!(4))), ("d", None, Some(Value::Null))]
        );
    }
}
