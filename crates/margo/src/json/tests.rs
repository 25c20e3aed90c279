use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn refused(text: &str, words: &str) {
    let findings = parse(text.as_bytes(), Limits::DOCUMENT).unwrap_err();
    assert!(findings.to_string().contains(words), "{text}: {findings}");
}

#[test]
fn broken_json_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "[",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\" 1}",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "nul",
        "True",
        "\"",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"\u{1}\"",
        "1 2",
        "[1 2]",
        "{\"a\":}",
        "NaN",
        "'a'",
        "// x\n1",
    ] {
        refused(text, "not valid JSON");
    }
    assert!(parse(b"\xff", Limits::DOCUMENT).is_err());
}

#[test]
fn duplicate_keys_are_refused_with_their_line() {
    let findings = parse(b"{\"a\": 1,\n\"\\u0061\": 2}", Limits::DOCUMENT).unwrap_err();
    assert_eq!((findings.0[0].line, findings.0[0].message.contains("`a` occurs twice")), (Some(2), true));
}

#[test]
fn nesting_and_nodes_are_bounded() {
    refused(&"[".repeat(100_000), "nested deeper than 64");
    refused(&format!("[{}1]", "1,".repeat(30_000)), "more than 20000 nodes");
    let small = Limits { bytes_max: 4, ..Limits::DOCUMENT };
    assert!(parse(b"12345", small).is_err());
}

#[test]
fn integers_stay_exact() {
    let node = parse(b"[18446744073709551615, 9007199254740993, -9223372036854775808]", Limits::DOCUMENT).unwrap();
    assert_eq!(node.to_value().unwrap(), json!([u64::MAX, 9_007_199_254_740_993_u64, i64::MIN]));
    assert!(parse(b"[18446744073709551616]", Limits::DOCUMENT).unwrap().to_value().is_err());
}

#[test]
fn canonical_json_sorts_by_utf_16_and_keeps_integers_exact() {
    // DS-14: the example order of RFC 8785.
    let tree = Tree::Object(
        ["\u{20ac}", "\r", "\u{fb33}", "1", "😀", "\u{80}", "ö"].map(|key| (key.to_owned(), Tree::Null)).into(),
    );
    let text = String::from_utf8(canonical(&tree)).unwrap();
    let keys = ["\"\\r\"", "\"1\"", "\"\u{80}\"", "\"ö\"", "\"\u{20ac}\"", "\"😀\"", "\"\u{fb33}\""];
    let places: Vec<_> = keys.iter().map(|key| text.find(key).unwrap()).collect();
    assert!(places.is_sorted(), "{text}");
    assert_eq!(canonical(&Tree::from(u64::MAX)), b"18446744073709551615");
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn reads_json_of_other_writers(value in value(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap();
        prop_assert_eq!(parse(&text, Limits::DOCUMENT).unwrap().to_value().unwrap(), value);
    }

    #[test]
    fn canonical_json_agrees_with_rfc_8785(
        members in prop::collection::hash_map(any::<String>(), any::<u32>(), 0..8)
    ) {
        let value = json!(members);
        let expected = serde_json_canonicalizer::to_vec(&value).unwrap();
        prop_assert_eq!(canonical(&Tree::from(&value)), expected);
    }

    #[test]
    fn acceptance_agrees_with_serde_json(text in "[-0-9a-e{}\\[\\],:\" .+tru\\\\]{0,24}") {
        let ours = parse(text.as_bytes(), Limits::DOCUMENT);
        match serde_json::from_str::<Value>(&text) {
            // Duplicate keys are the only additional rejection.
            Ok(_) => prop_assert!(ours.is_ok() || ours.unwrap_err().to_string().contains("twice")),
            // Numbers out of range are rejected later, where a number is expected.
            Err(error) => prop_assert!(ours.is_err() || error.to_string().contains("out of range")),
        }
    }
}
