//! Variables in the syntax of Compose: `$NAME`, `${NAME}`, and the operators for names that are not set.

use std::collections::BTreeMap;

/// Maximum depth of nested defaults.
const DEPTH_MAX: usize = 8;

/// Replaces every variable; `Err` names one that is unknown and has no default.
pub(super) fn interpolate(text: &str, variables: &BTreeMap<String, String>) -> Result<String, String> {
    replace(text, variables, 0)
}

fn replace(text: &str, variables: &BTreeMap<String, String>, depth: usize) -> Result<String, String> {
    if depth > DEPTH_MAX {
        return Err(text.to_owned());
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(escaped) = after.strip_prefix('$') {
            out.push('$');
            rest = escaped;
        } else if let Some(inner) = after.strip_prefix('{') {
            let end = closing(inner).ok_or_else(|| after.to_owned())?;
            out.push_str(&expression(&inner[..end], variables, depth)?);
            rest = &inner[end + 1..];
        } else {
            let length = name_length(after);
            if length == 0 {
                return Err(after.to_owned());
            }
            let name = &after[..length];
            out.push_str(variables.get(name).ok_or_else(|| name.to_owned())?);
            rest = &after[length..];
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn name_length(text: &str) -> usize {
    text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count()
}

/// The closing brace of an expression, after those of nested expressions.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '{' => open += 1,
            '}' if open == 0 => return Some(at),
            '}' => open -= 1,
            _ => {}
        }
    }
    None
}

fn expression(text: &str, variables: &BTreeMap<String, String>, depth: usize) -> Result<String, String> {
    let (name, operator) = text.split_at(name_length(text));
    let set = variables.get(name);
    let filled = set.filter(|value| !value.is_empty());
    let default = |text: &str| replace(text, variables, depth + 1);
    match operator {
        "" => set.cloned().ok_or_else(|| name.to_owned()),
        _ if operator.starts_with(":-") => filled.cloned().map_or_else(|| default(&operator[2..]), Ok),
        _ if operator.starts_with('-') => set.cloned().map_or_else(|| default(&operator[1..]), Ok),
        _ if operator.starts_with(":?") => filled.cloned().ok_or_else(|| name.to_owned()),
        _ if operator.starts_with('?') => set.cloned().ok_or_else(|| name.to_owned()),
        _ if operator.starts_with(":+") => filled.map_or_else(|| Ok(String::new()), |_| default(&operator[2..])),
        _ if operator.starts_with('+') => set.map_or_else(|| Ok(String::new()), |_| default(&operator[1..])),
        _ => Err(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_as_compose_does() {
        let variables = BTreeMap::from([("TAG".to_owned(), "2.0".to_owned()), ("EMPTY".to_owned(), String::new())]);
        for (text, expected) in [
            ("press:1.0", Ok("press:1.0")),
            ("press:$TAG", Ok("press:2.0")),
            ("press:${TAG}-x", Ok("press:2.0-x")),
            ("press:${NONE:-1.0}", Ok("press:1.0")),
            ("press:${NONE:-${TAG}}", Ok("press:2.0")),
            ("${HOST:-registry.example}/press:${EMPTY:-1}", Ok("registry.example/press:1")),
            ("press:${EMPTY-1}", Ok("press:")),
            ("press${NONE:+:x}", Ok("press")),
            ("a$$b", Ok("a$b")),
            ("press:${NONE}", Err("NONE")),
            ("press:$NONE", Err("NONE")),
            ("press:${NONE:?say}", Err("NONE")),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(interpolate(text, &variables), expected, "{text}");
        }
        assert!(interpolate("${", &variables).is_err() && interpolate("$", &variables).is_err());
        assert!(interpolate(&"${A:-".repeat(50), &variables).is_err());
    }
}
