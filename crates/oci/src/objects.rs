//! Kubernetes objects from YAML, as Kubernetes tools read it: several documents in a file, lists expanded,
//! `yes` and `0644` as in YAML 1.1.

use serde_json::Value;

/// The most objects of one component; far above any real one.
pub const OBJECTS_MAX: usize = 500;

/// All objects of a text, in order.
pub fn parse(text: &[u8]) -> Result<Vec<Value>, String> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true, strict_booleans: false, with_snippet: false };
    let documents = serde_saphyr::from_slice_multiple_with_options::<Value>(text, options).map_err(|error| {
        let text = error.to_string();
        text.lines().next().unwrap_or("it cannot be read").to_owned()
    })?;
    let mut objects = Vec::new();
    for document in documents {
        flatten(document, &mut objects)?;
    }
    Ok(objects)
}

fn flatten(document: Value, objects: &mut Vec<Value>) -> Result<(), String> {
    if objects.len() >= OBJECTS_MAX {
        return Err(format!("it holds more than {OBJECTS_MAX} objects"));
    }
    match document {
        Value::Null => Ok(()),
        Value::Object(mut fields) if fields.get("kind").and_then(Value::as_str) == Some("List") => {
            let items = fields.remove("items").unwrap_or_default();
            let Value::Array(items) = items else { return Ok(()) };
            items.into_iter().try_for_each(|item| flatten(item, objects))
        }
        Value::Object(fields) => {
            objects.push(Value::Object(fields));
            Ok(())
        }
        other => Err(format!("`{}` is not an object", other.to_string().chars().take(60).collect::<String>())),
    }
}

/// What an object is missing, in words.
pub fn problem(object: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let kind = object["kind"].as_str().unwrap_or("an object");
    if !text(&object["apiVersion"]) {
        return Some(format!("{kind} has no `apiVersion`"));
    }
    if !text(&object["kind"]) {
        return Some("an object has no `kind`".to_owned());
    }
    if !text(&object["metadata"]["name"]) {
        return Some(format!("{kind} has no `metadata.name`"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn splits_documents_and_lists() {
        let text = "---\n# nothing\n---\nkind: A\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n";
        let kinds: Vec<Value> =
            parse(text.as_bytes()).unwrap().into_iter().map(|mut object| object["kind"].take()).collect();
        assert_eq!(kinds, ["A", "B", "C"]);
        assert!(parse(b"- 1").is_err());
        assert!(parse(b"a: [").is_err());
    }

    #[test]
    fn reads_numbers_and_booleans_as_kubernetes_does() {
        let read = &parse(b"mode: 0644\nquoted: '0644'\non: yes\nport: 80\ncpu: 0.5\ntext: 1.2.3\n").unwrap()[0];
        assert_eq!(
            *read,
            json!({ "mode": 420, "quoted": "0644", "on": true, "port": 80, "cpu": 0.5, "text": "1.2.3" })
        );
    }

    #[test]
    fn reports_missing_members_of_an_object() {
        assert_eq!(problem(&json!({ "kind": "A", "apiVersion": "v1", "metadata": { "name": "x" } })), None);
        assert_eq!(problem(&json!({ "kind": "A" })).unwrap(), "A has no `apiVersion`");
        assert!(problem(&json!({ "apiVersion": "v1", "kind": "A", "metadata": { "generateName": "x-" } })).is_some());
    }
}
