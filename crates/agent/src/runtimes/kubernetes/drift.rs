//! Compares the applied with the live objects: only written fields, as the cluster stored them.
//!
//! After an apply the agent reads the live object and keeps the fields that the manifest names. Later observations are
//! compared with them, so that defaults and other spellings of a quantity are no differences, and fields of others are
//! ignored.

use margo::Digest;
use serde_json::{Map, Value, json};

/// Further differences of one object are only counted.
const DIFFERENCES_MAX: usize = 4;
/// Values that may be shown: other texts may be secrets.
const SHOWN: [&str; 5] = ["image", "type", "imagePullPolicy", "schedule", "storageClassName"];
/// Keys that identify items of a list.
const KEYS: [&str; 4] = ["name", "mountPath", "containerPort", "port"];

/// The fields of a live object that the manifest names.
pub(super) fn taken(manifest: &Value, live: &Value, scaled: bool) -> Value {
    let mut fields = Map::new();
    for (name, desired) in manifest.as_object().into_iter().flatten() {
        if matches!(name.as_str(), "apiVersion" | "kind" | "status") {
            continue;
        }
        let live = live.get(name).unwrap_or(&Value::Null);
        let taken = if name == "metadata" {
            let part = |part: &str| project(&desired[part], &live[part]);
            json!({ "labels": part("labels"), "annotations": part("annotations") })
        } else {
            project(desired, live)
        };
        fields.insert(name.clone(), taken);
    }
    if scaled && let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("replicas");
    }
    if manifest["kind"] == "Secret" {
        hide(fields.get_mut("data"));
    }
    Value::Object(fields)
}

/// Secret data is not stored a second time.
fn hide(data: Option<&mut Value>) {
    for value in data.and_then(Value::as_object_mut).into_iter().flat_map(|data| data.values_mut()) {
        if !value.is_null() {
            *value = json!(Digest::of(value.to_string().as_bytes()).hex());
        }
    }
}

fn project(desired: &Value, live: &Value) -> Value {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => {
            // Controllers fill in empty fields.
            let named = desired.iter().filter(|(_, value)| !is_nothing(value));
            let fields =
                named.map(|(name, value)| (name.clone(), project(value, live.get(name).unwrap_or(&Value::Null))));
            Value::Object(fields.collect())
        }
        (Value::Array(desired), Value::Array(live)) => match key_of(desired) {
            Some(key) => {
                let one = |desired: &Value| {
                    let same = live.iter().find(|live| live[key] == desired[key]).unwrap_or(&Value::Null);
                    (name_of(&desired[key]), project(desired, same))
                };
                Value::Object(desired.iter().map(one).collect())
            }
            None if desired.len() == live.len() => {
                Value::Array(desired.iter().zip(live).map(|(desired, live)| project(desired, live)).collect())
            }
            None => Value::Array(live.clone()),
        },
        (_, live) => live.clone(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn name_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The key that distinguishes the items of a list.
fn key_of(items: &[Value]) -> Option<&'static str> {
    let is_key = |key: &&&str| {
        let mut names: Vec<String> =
            items.iter().filter(|item| !item[**key].is_null()).map(|item| name_of(&item[**key])).collect();
        names.sort();
        names.dedup();
        !items.is_empty() && names.len() == items.len()
    };
    KEYS.iter().find(is_key).copied()
}

/// The differences as text: `replicas is 3, expected 1`.
pub(super) fn differences(applied: &Value, now: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(applied, now, &mut Vec::new(), &mut found);
    let more = found.len().saturating_sub(DIFFERENCES_MAX);
    found.truncate(DIFFERENCES_MAX);
    if more > 0 {
        found.push(format!("{more} more"));
    }
    found
}

fn compare<'a>(applied: &'a Value, now: &'a Value, path: &mut Vec<&'a str>, found: &mut Vec<String>) {
    if applied == now {
        return;
    }
    if let (Value::Object(applied), Value::Object(now)) = (applied, now) {
        for (name, applied) in applied {
            path.push(name);
            compare(applied, now.get(name).unwrap_or(&Value::Null), path, found);
            path.pop();
        }
        return;
    }
    found.push(words(applied, now, path));
}

fn words(applied: &Value, now: &Value, path: &[&str]) -> String {
    let at = path.join(".");
    let at = at.strip_prefix("spec.").or_else(|| at.strip_prefix("metadata.")).unwrap_or(&at);
    let in_secret_place = path.iter().any(|step| matches!(*step, "data" | "env" | "annotations" | "args" | "command"));
    let named = path.last().is_some_and(|last| SHOWN.contains(last));
    let may_show = |value: &Value| match value {
        Value::Number(_) | Value::Bool(_) => !in_secret_place,
        Value::String(text) => named && !in_secret_place && text.len() < 200,
        _ => false,
    };
    match (applied, now) {
        (_, Value::Null) => format!("{at} is missing"),
        (applied, now) if may_show(applied) && may_show(now) => {
            format!("{at} is {}, expected {}", name_of(now), name_of(applied))
        }
        _ => format!("{at} differs from the applied value"),
    }
}

/// Whether the manifest writes this field path (`.spec.ports[port=80,protocol="TCP"].name`).
pub(super) fn names_field(manifest: &Value, field: &str) -> bool {
    if field.is_empty() {
        return true;
    }
    if let Some(inner) = field.strip_prefix('[') {
        let Some((keys, rest)) = inner.split_once(']') else { return false };
        let is_match = |item: &&Value| {
            keys.split(',').filter_map(|pair| pair.split_once('=')).all(|(key, desired)| {
                // A set of plain values has no keys.
                let held = if key.is_empty() { *item } else { &item[key] };
                name_of(held) == desired.trim_matches('"')
            })
        };
        let item = manifest.as_array().into_iter().flatten().find(is_match);
        return item.is_some_and(|item| names_field(item, rest));
    }
    let inner = field.strip_prefix('.').unwrap_or(field);
    // Names may contain dots.
    let leads = |(name, value): (&String, &Value)| {
        let rest = inner.strip_prefix(name.as_str());
        let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        rest.is_some_and(|rest| names_field(value, rest))
    };
    manifest.as_object().into_iter().flatten().any(leads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "labels": { "a": "1" } },
            "spec": { "replicas": 1, "selector": {}, "template": { "spec": { "containers": [
                { "name": "web", "image": "a:1", "env": [{ "name": "PASSWORD", "value": "x" }], "resources": { "limits": { "cpu": "1000m" } },
                  "ports": [{ "containerPort": 80, "protocol": "TCP" }] },
            ] } } },
        })
    }

    /// As in the cluster: with defaults, other spellings, and fields of others.
    fn live() -> Value {
        let mut live = manifest();
        live["metadata"]["uid"] = json!("u");
        live["metadata"]["annotations"] = json!({ "deployment.kubernetes.io/revision": "1" });
        live["spec"]["progressDeadlineSeconds"] = json!(600);
        live["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("1");
        live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("IfNotPresent");
        live["status"] = json!({ "replicas": 1 });
        live
    }

    fn changes_after(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let applied = taken(&manifest(), &live(), false);
        let mut now = live();
        change(&mut now);
        differences(&applied, &taken(&manifest(), &now, false))
    }

    #[test]
    fn describes_edits_as_text() {
        assert_eq!(changes_after(|now| now["spec"]["replicas"] = json!(3)), ["replicas is 3, expected 1"]);
        let image = |now: &mut Value| now["spec"]["template"]["spec"]["containers"][0]["image"] = json!("a:2");
        assert_eq!(changes_after(image), ["template.spec.containers.web.image is a:2, expected a:1"]);
        // A value that may be a secret is not shown.
        let secret = |now: &mut Value| now["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = json!("y");
        assert_eq!(
            changes_after(secret),
            ["template.spec.containers.web.env.PASSWORD.value differs from the applied value"]
        );
        assert_eq!(changes_after(|now| now["metadata"]["labels"] = json!({})), ["labels.a is missing"]);
    }

    #[test]
    fn fields_of_others_and_other_spellings_are_not_drift() {
        assert!(changes_after(|_| {}).is_empty());
        let others = |now: &mut Value| {
            now["metadata"]["labels"]["b"] = json!("2");
            now["spec"]["progressDeadlineSeconds"] = json!(10);
            now["status"]["replicas"] = json!(0);
            let sidecar = json!({ "name": "sidecar", "image": "s" });
            now["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().push(sidecar);
        };
        assert!(changes_after(others).is_empty());
    }

    #[test]
    fn autoscaled_replicas_are_not_drift() {
        let mut now = live();
        now["spec"]["replicas"] = json!(5);
        assert!(differences(&taken(&manifest(), &live(), true), &taken(&manifest(), &now, true)).is_empty());
    }

    #[test]
    fn compares_secrets_without_storing_them() {
        let manifest = json!({ "kind": "Secret", "metadata": { "name": "x" }, "data": { "password": "c2VjcmV0" } });
        let applied = taken(&manifest, &manifest, false);
        assert!(!applied.to_string().contains("c2VjcmV0"));
        let mut now = manifest.clone();
        now["data"]["password"] = json!("b3RoZXI=");
        assert_eq!(
            differences(&applied, &taken(&manifest, &now, false)),
            ["data.password differs from the applied value"]
        );
    }

    #[test]
    fn many_differences_are_counted() {
        let many =
            |change: &str| json!({ "data": (0..9).map(|at| (format!("k{at}"), json!(change))).collect::<Map<_, _>>() });
        let changes_after = differences(&many("a"), &many("b"));
        assert_eq!((changes_after.len(), changes_after[4].as_str()), (5, "5 more"));
    }

    #[test]
    fn recognizes_written_fields() {
        let manifest = manifest();
        for (field, known) in [
            (".spec.replicas", true),
            (".spec.paused", false),
            (".spec.template.spec.containers[name=\"web\"].image", true),
            (".spec.template.spec.containers[name=\"web\"].ports[containerPort=80,protocol=\"TCP\"]", true),
            (".spec.template.spec.containers[name=\"other\"].image", false),
        ] {
            assert_eq!(names_field(&manifest, field), known, "{field}");
        }
    }
}
