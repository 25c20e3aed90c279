//! Values of a chart from parameters: pointers as in `helm --set` (PRM-02), types are kept.
//!
//! `a.b` is a nested member, `a[0]` an item of a list, `\.` a dot in a name. Setting items replaces the whole list of
//! the chart; items that are not set are null. `null` removes a value of the chart.
//!
//! All values go in a file, so that no value is visible in the process list; `numbers` handles integers.

use margo::deployment::ApplicationDeployment;
use serde_json::{Map, Value};

/// Longer lists are not set item by item; Helm has the same bound.
const INDEX_MAX: usize = 65_536;
/// How deep values may be nested; Helm's own bound is the same.
const DEPTH_MAX: usize = 30;

/// One step of a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Member(String),
    Item(usize),
}

/// The values of a component.
pub(super) fn values(document: &ApplicationDeployment, component: &str) -> Result<Value, String> {
    let mut values = Value::Object(Map::new());
    for (parameter, value) in &document.spec.parameters {
        let targets = value.targets.iter().filter(|target| target.components.iter().any(|name| name == component));
        for target in targets {
            let odd = |reason: String| format!("parameter `{parameter}`: pointer `{}`: {reason}", target.pointer);
            let steps = steps(&target.pointer).map_err(odd)?;
            put(&mut values, &steps, value.value.clone()).map_err(odd)?;
        }
    }
    Ok(values)
}

fn steps(pointer: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut name = String::new();
    let mut characters = pointer.chars().peekable();
    // An item is followed by a dot or another item, a name by anything.
    let mut after_item = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' => name.push(characters.next().ok_or("it ends with a backslash")?),
            '.' => {
                if name.is_empty() && !after_item {
                    return Err("a name is empty".to_owned());
                }
                if !name.is_empty() {
                    steps.push(Step::Member(std::mem::take(&mut name)));
                }
                if characters.peek().is_none() {
                    return Err("it ends with a dot".to_owned());
                }
                after_item = false;
            }
            '[' => {
                if !name.is_empty() {
                    steps.push(Step::Member(std::mem::take(&mut name)));
                } else if !after_item {
                    return Err("a list has no name".to_owned());
                }
                let digits: String = characters.by_ref().take_while(|character| *character != ']').collect();
                let at = digits.parse::<usize>().ok().filter(|at| *at <= INDEX_MAX);
                steps.push(Step::Item(at.ok_or_else(|| format!("`[{digits}]` is not an item of a list"))?));
                after_item = true;
            }
            _ if after_item => return Err("an item must be followed by a dot".to_owned()),
            other => name.push(other),
        }
    }
    if !name.is_empty() {
        steps.push(Step::Member(name));
    }
    match steps.len() {
        0 => Err("it is empty".to_owned()),
        length if length > DEPTH_MAX => Err(format!("it is deeper than {DEPTH_MAX}")),
        _ => Ok(steps),
    }
}

fn put(root: &mut Value, steps: &[Step], value: Value) -> Result<(), String> {
    let mut place = root;
    for step in steps {
        place = match step {
            Step::Member(name) => {
                if place.is_null() {
                    *place = Value::Object(Map::new());
                }
                let members =
                    place.as_object_mut().ok_or_else(|| format!("the parent of `{name}` is not a mapping"))?;
                members.entry(name.clone()).or_insert(Value::Null)
            }
            Step::Item(at) => {
                if place.is_null() {
                    *place = Value::Array(Vec::new());
                }
                let items = place.as_array_mut().ok_or_else(|| format!("the parent of item {at} is not a list"))?;
                if items.len() <= *at {
                    items.resize(at + 1, Value::Null);
                }
                &mut items[*at]
            }
        };
    }
    *place = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(pairs: &[(&str, Value)]) -> Result<Value, String> {
        let mut values = Value::Object(Map::new());
        for (pointer, value) in pairs {
            put(&mut values, &steps(pointer)?, value.clone())?;
        }
        Ok(values)
    }

    #[test]
    fn pointers_nest_as_helm_set_does() {
        // PRM-02
        let values = set(&[
            ("replicas", json!(3)),
            ("image.tag", json!("1.10")),
            ("image.pull", json!(true)),
            ("hosts[1].name", json!("b")),
            ("hosts[0].name", json!("a")),
            ("matrix[0][1]", json!(7)),
            (r"nodeSelector.kubernetes\.io/role", json!("edge")),
            ("list", json!([1, "two"])),
        ]);
        let expected = json!({
            "replicas": 3, "image": { "tag": "1.10", "pull": true }, "hosts": [{ "name": "a" }, { "name": "b" }],
            "matrix": [[null, 7]], "nodeSelector": { "kubernetes.io/role": "edge" }, "list": [1, "two"],
        });
        assert_eq!(values.unwrap(), expected);
    }

    #[test]
    fn rejects_invalid_pointers() {
        for (pointer, reason) in [
            ("", "empty"),
            ("a..b", "empty"),
            (".a", "empty"),
            ("a.", "ends with a dot"),
            ("[0]", "no name"),
            ("a[x]", "not an item"),
            ("a[99999999]", "not an item"),
            ("a[0]b", "followed by a dot"),
            ("a\\", "backslash"),
        ] {
            let error = steps(pointer).unwrap_err();
            assert!(error.contains(reason), "{pointer}: {error}");
        }
        assert!(set(&[("a", json!(1)), ("a.b", json!(2))]).unwrap_err().contains("not a mapping"));
        assert!(set(&[("a.b", json!(1)), ("a[0]", json!(2))]).unwrap_err().contains("not a list"));
    }
}
