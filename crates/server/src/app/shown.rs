//! Values as people read them. Whether they may be read at all is for [`super::mask`] to say.

use serde_json::Value;

/// `Press 7`, `7`, `fan, gearbox`; nothing for nothing.
pub fn plain(value: &Value) -> String {
    joined(value, ", ")
}

/// The same, each item of a list on a line of its own, as it is typed.
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

/// An answer: `yes`, `not set`, else as it is.
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
    fn values_read_as_people_write_them() {
        for (value, said) in [
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
            assert_eq!(answer(&value), said, "{value}");
        }
        assert_eq!((lines(&json!(["fan", 7])), plain(&Value::Null)), ("fan\n7".to_owned(), String::new()));
    }
}
