//! Parameters of plain manifests: `Kind/name/json/pointer`, such as `Deployment/web/spec/replicas`.
//!
//! An item of a list is named by its index, or by its `name`: `spec/template/spec/containers/web/image`. `~1` stands
//! for a slash in a name and `~0` for a tilde, as in RFC 6901. The target must exist; only the last member of a mapping
//! may be new. Types are kept, but numbers and booleans become text where the manifest has or requires text.

use margo::deployment::ApplicationDeployment;
use serde_json::Value;

/// Mappings that contain only text.
const TEXTS: [&str; 5] = ["data", "stringData", "labels", "annotations", "matchLabels"];

/// Sets the parameters of a component in its objects.
pub(super) fn fill(objects: &mut [Value], document: &ApplicationDeployment, component: &str) -> Result<(), String> {
    for (parameter, value) in &document.spec.parameters {
        let targets = value.targets.iter().filter(|target| target.components.iter().any(|name| name == component));
        for target in targets {
            put(objects, &target.pointer, &value.value)
                .map_err(|reason| format!("parameter `{parameter}`: pointer `{}`: {reason}", target.pointer))?;
        }
    }
    Ok(())
}

fn put(objects: &mut [Value], pointer: &str, value: &Value) -> Result<(), String> {
    let steps: Vec<String> = pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    let [kind, name, path @ .., last] = steps.as_slice() else {
        return Err("write it as `Kind/name/json/pointer`, for example `Deployment/web/spec/replicas`".to_owned());
    };
    let is_it = |object: &&mut Value| object["kind"] == kind.as_str() && object["metadata"]["name"] == name.as_str();
    let object = objects.iter_mut().find(is_it).ok_or_else(|| format!("there is no {kind} `{name}`"))?;
    if path.is_empty() && matches!(last.as_str(), "apiVersion" | "kind" | "metadata")
        || path.first().is_some_and(|first| first == "metadata")
            && path.len() == 1
            && matches!(last.as_str(), "name" | "namespace")
    {
        return Err("the name of an object is not a parameter".to_owned());
    }
    let mut place = object;
    let mut texts = false;
    for step in path {
        texts = TEXTS.contains(&step.as_str());
        place = inside(place, step).ok_or_else(|| format!("there is no `{step}`"))?;
    }
    let text = |existing: Option<&Value>| match value {
        Value::Number(_) | Value::Bool(_) if texts || existing.is_some_and(Value::is_string) => {
            Value::String(value.to_string())
        }
        other => other.clone(),
    };
    match place {
        Value::Object(members) => {
            let existing = members.get(last.as_str());
            let value = text(existing);
            members.insert(last.clone(), value);
            Ok(())
        }
        other => {
            let item = inside(other, last).ok_or_else(|| format!("there is no `{last}`"))?;
            *item = text(Some(&*item));
            Ok(())
        }
    }
}

fn inside<'a>(place: &'a mut Value, step: &str) -> Option<&'a mut Value> {
    match place {
        Value::Object(members) => members.get_mut(step),
        Value::Array(items) => {
            let named = items.iter().position(|item| item["name"] == step);
            let at = named.or_else(|| step.parse::<usize>().ok())?;
            items.get_mut(at)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn objects() -> Vec<Value> {
        vec![
            json!({ "kind": "Deployment", "metadata": { "name": "web" }, "spec": { "replicas": 1, "template": { "spec": {
                "containers": [{ "name": "web", "image": "a:1", "env": [{ "name": "MODE", "value": "slow" }], "args": ["-v", "3"] }],
            } } } }),
            json!({ "kind": "ConfigMap", "metadata": { "name": "web" }, "data": { "a/b": "1" } }),
        ]
    }

    #[test]
    fn sets_values_by_index_or_name_and_keeps_types() {
        let mut objects = objects();
        for (pointer, value) in [
            ("Deployment/web/spec/replicas", json!(3)),
            ("Deployment/web/spec/template/spec/containers/web/image", json!("a:2")),
            ("Deployment/web/spec/template/spec/containers/0/env/MODE/value", json!(true)),
            ("Deployment/web/spec/template/spec/containers/web/args/1", json!(4)),
            ("Deployment/web/spec/paused", json!(false)),
            ("ConfigMap/web/data/a~1b", json!(2)),
            ("ConfigMap/web/data/new", json!(1.5)),
        ] {
            put(&mut objects, pointer, &value).unwrap();
        }
        let container = &objects[0]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(objects[0]["spec"]["replicas"], 3);
        assert_eq!(objects[0]["spec"]["paused"], false);
        assert_eq!(
            *container,
            json!({ "name": "web", "image": "a:2", "env": [{ "name": "MODE", "value": "true" }], "args": ["-v", "4"] })
        );
        assert_eq!(objects[1]["data"], json!({ "a/b": "2", "new": "1.5" }));
    }

    #[test]
    fn rejects_pointers_without_target() {
        for (pointer, reason) in [
            ("spec", "Kind/name"),
            ("Deployment/web", "Kind/name"),
            ("Deployment/none/spec/replicas", "no Deployment `none`"),
            ("Deployment/web/spec/none/x", "no `none`"),
            ("Deployment/web/spec/template/spec/containers/9/image", "no `9`"),
            ("Deployment/web/metadata/name", "not a parameter"),
            ("Deployment/web/kind", "not a parameter"),
        ] {
            let error = put(&mut objects(), pointer, &json!(1)).unwrap_err();
            assert!(error.contains(reason), "{pointer}: {error}");
        }
    }
}
