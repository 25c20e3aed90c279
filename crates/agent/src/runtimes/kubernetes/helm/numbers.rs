//! Integers in values, as templates see them.
//!
//! Helm reads the numbers of a file as floats and writes large ones as `1e+06`. Only `--set` creates integers, but
//! every user of the machine can read a command line. So the chart gets one more template, executed before all others,
//! that sets the integers in the values again and writes nothing (ADR 29).

use margo::archive;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Deeper than any other template, including subcharts: Helm executes the deepest first, and subcharts use the values
/// of the outer chart.
const DEPTH: usize = 30;
const FILE: &str = "margrave-numbers.yaml";
/// Subcharts have copies of global values.
const GLOBAL: &str = "global";

/// The template, if one is required.
pub(super) fn template(values: &Value) -> Option<String> {
    let members = values.as_object().filter(|_| has_whole_numbers(values))?;
    let mut text = String::new();
    if let Some(Value::Object(global)) = members.get(GLOBAL).filter(|global| has_whole_numbers(global)) {
        text.push_str("{{ define \"margrave.global\" }}{{ with index . \"global\" }}");
        write_members(global, &mut text);
        text.push_str(
            "{{ end }}{{ range . }}{{ if kindIs \"map\" . }}{{ if hasKey . \"global\" }}\
             {{ $_ := include \"margrave.global\" . }}{{ end }}{{ end }}{{ end }}{{ end }}\
             {{ $_ := include \"margrave.global\" .Values }}",
        );
    }
    text.push_str("{{ with .Values }}");
    write_members(members, &mut text);
    text.push_str("{{ end }}\n");
    Some(text)
}

fn has_whole_numbers(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_i64(),
        Value::Array(items) => items.iter().any(has_whole_numbers),
        Value::Object(members) => members.values().any(has_whole_numbers),
        _ => false,
    }
}

/// Sets them in the mapping that is the dot. A mapping is merged with the chart's values, so only single members are
/// set; a list is replaced as a whole.
fn write_members(members: &Map<String, Value>, text: &mut String) {
    for (name, value) in members.iter().filter(|(_, value)| has_whole_numbers(value)) {
        let name = quoted(name);
        if let Value::Object(inner) = value {
            let _ = write!(text, "{{{{ with index . {name} }}}}");
            write_members(inner, text);
            text.push_str("{{ end }}");
        } else {
            let _ = write!(text, "{{{{ $_ := set . {name} {} }}}}", expression(value));
        }
    }
}

/// A value in template syntax.
fn expression(value: &Value) -> String {
    match value {
        Value::Null => "nil".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        // As text, because a literal may be read as a smaller number type.
        Value::Number(number) if number.is_i64() => format!("(int64 \"{number}\")"),
        Value::Number(number) => format!("(float64 \"{number}\")"),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items = items.iter().fold(String::new(), |text, item| text + " " + &expression(item));
            format!("(list{items})")
        }
        Value::Object(members) => {
            let one =
                |text: String, (name, value): (&String, &Value)| text + " " + &quoted(name) + " " + &expression(value);
            format!("(dict{})", members.iter().fold(String::new(), one))
        }
    }
}

/// JSON escapes are valid in templates.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// The chart with the template.
pub(super) fn with_template(chart: &[u8], template: &str) -> Result<Vec<u8>, String> {
    let entries = archive::unpack(chart, margrave_oci::images::LIMITS).map_err(|error| error.to_string())?;
    let root = entries.iter().find_map(|entry| entry.path.split_once('/')).ok_or("it is empty")?.0;
    let path = format!("{root}/templates/{}{FILE}", "z/".repeat(DEPTH));
    let mut files: Vec<(String, &[u8])> =
        entries.iter().map(|entry| (entry.path.clone(), entry.bytes.as_slice())).collect();
    files.push((path, template.as_bytes()));
    Ok(archive::pack(&files))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sets_only_integers() {
        assert_eq!(template(&json!({ "f": 2.5, "t": "007", "b": true, "none": null, "l": ["1"] })), None);
        let text = template(&json!({ "n": 12_345_678, "t": "x", "a.b": { "c": -2, "d": "y" } })).unwrap();
        let expected = "{{ with .Values }}{{ with index . \"a.b\" }}{{ $_ := set . \"c\" (int64 \"-2\") }}{{ end }}\
                        {{ $_ := set . \"n\" (int64 \"12345678\") }}{{ end }}\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn sets_a_list_with_integers_as_a_whole() {
        let text = template(&json!({ "l": [1, { "d": 2, "e": "a\"}}b", "f": null }, 2.5, true] })).unwrap();
        let list = r#"(list (int64 "1") (dict "d" (int64 "2") "e" "a\"}}b" "f" nil) (float64 "2.5") true)"#;
        assert_eq!(text, format!("{{{{ with .Values }}}}{{{{ $_ := set . \"l\" {list} }}}}{{{{ end }}}}\n"));
    }

    #[test]
    fn global_integers_reach_subcharts() {
        let text = template(&json!({ "global": { "port": 80 } })).unwrap();
        assert!(
            text.starts_with("{{ define \"margrave.global\" }}{{ with index . \"global\" }}{{ $_ := set . \"port\""),
            "{text}"
        );
        assert!(text.contains("{{ with .Values }}{{ with index . \"global\" }}{{ $_ := set . \"port\""), "{text}");
    }

    #[test]
    fn the_template_is_added_below_all_others() {
        let chart = archive::pack(&[("web/Chart.yaml".to_owned(), b"name: web".as_slice())]);
        let packed = with_template(&chart, "x").unwrap();
        let entries = archive::unpack(&packed, margrave_oci::images::LIMITS).unwrap();
        let paths: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths.len(), 2);
        let added = paths.iter().find(|path| path.ends_with(FILE)).unwrap();
        assert!(added.starts_with("web/templates/z/z/") && added.split('/').count() > 30, "{added}");
    }
}
