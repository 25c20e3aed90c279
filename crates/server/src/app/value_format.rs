//! Formats values for people. [`super::mask`] decides whether they may be shown.

use serde_json::Value;

/// `Press 7`, `7`, `fan, gearbox`; empty for no value.
pub fn plain(value: &Value) -> String {
    joined(value, ", ")
}

/// The same, each list item on its own line, as typed.
pub fn lines(value: &Value) -> String {
    joined(value, "\n")
}

fn joined(value: &Value, separator: &str) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(separator),
        other => other.to_string(),
    }
}

/// A value: `yes`, `not set`, or unchanged.
pub fn answer(value: &Value) -> String {
    match plain(value) {
        text if text.is_empty() => "not set".to_owned(),
        _ if value.is_boolean() => if value == true { "yes" } else { "no" }.to_owned(),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn formats_values_for_people() {
        for (value, expected_text) in [
            (json!("Press 7"), "Press 7"),
            (json!(7), "7"),
            (json!(1.5), "1.5"),
            (json!(true), "yes"),
            (json!(false), "no"),
            (json!(["fan", "gearbox"]), "fan, gearbox"),
            (json!(""), "not set"),
            (json!([]), "not set"),
            (Value::Null, "not set"),
        ] {
            assert_eq!(answer(&value), expected_text, "{value}");
        }
        assert_eq!((lines(&json!(["fan", 7])), plain(&Value::Null)), ("fan\n7".to_owned(), String::new()));
    }
}
