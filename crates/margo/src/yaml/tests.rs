use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(text: &str) -> Value {
    parse(text.as_bytes(), Limits::DOCUMENT).unwrap().to_value().unwrap()
}

fn refused(text: &str, line: Option<usize>, words: &str) {
    let findings = parse(text.as_bytes(), Limits::DOCUMENT).unwrap_err();
    assert_eq!(findings.0[0].line, line, "{findings}");
    assert!(findings.to_string().contains(words), "{findings}");
}

#[test]
fn scalars_keep_their_text_and_their_line() {
    let node = parse(b"a: 1.10\nb:\n  - yes\n  - '012'\n", Limits::DOCUMENT).unwrap();
    let Kind::Mapping(members) = &node.kind else { panic!("not a mapping") };
    assert_eq!(members[0].node.kind, Kind::Scalar { text: "1.10".to_owned(), style: Style::Plain });
    let Kind::Sequence(items) = &members[1].node.kind else { panic!("not a list") };
    assert_eq!(items[0].line, 3);
    assert_eq!(items[1].kind, Kind::Scalar { text: "012".to_owned(), style: Style::Quoted });
}

#[test]
fn yaml_1_1_booleans_and_numbers_are_text() {
    assert_eq!(
        read("[yes, off, 1_000, 12:30:45, 2026-11-15, 012, '1', true, ~, 0x1F]"),
        json!(["yes", "off", "1_000", "12:30:45", "2026-11-15", 12, "1", true, null, 31])
    );
}

#[test]
fn resolves_aliases() {
    assert_eq!(read("a: &x [1, two]\nb: *x\n"), json!({"a": [1, "two"], "b": [1, "two"]}));
    assert_eq!(read("&k key: 1\nother: *k\n"), json!({"key": 1, "other": "key"}));
}

#[test]
fn applies_core_tags_and_rejects_private_ones() {
    assert_eq!(read("a: !!str 12\nb: !!int \"12\"\n"), json!({"a": "12", "b": 12}));
    refused("a: !secret x\n", Some(1), "`!secret` is not supported");
    refused("a: !!binary aGk=\n", Some(1), "is not supported");
}

#[test]
fn duplicate_and_merge_and_structured_keys_are_refused() {
    refused("a: 1\nb: 2\na: 3\n", Some(3), "`a` occurs twice");
    refused("a: &x {k: 1}\nb:\n  <<: *x\n", Some(3), "merge keys");
    refused("? [a, b]\n: 1\n", Some(1), "a key must be plain text");
}

#[test]
fn more_than_one_document_or_none_is_refused() {
    refused("a: 1\n---\nb: 2\n", Some(2), "only one YAML document");
    assert!(parse(b"", Limits::DOCUMENT).map_or(true, |node| node.is_null()));
}

#[test]
fn broken_text_is_refused_with_its_line() {
    refused("a: 1\nb: [1, 2\nc: 3\n", Some(3), "not valid YAML");
    refused("a: *absent\n", Some(1), "not valid YAML");
    let findings = parse(b"a: 1\nb: \xff\n", Limits::DOCUMENT).unwrap_err();
    assert_eq!(findings.0[0].line, Some(2));
}

#[test]
fn an_alias_inside_its_own_anchor_is_refused() {
    refused("a: &a [1, *a]\n", Some(1), "alias");
}

#[test]
fn quotes_strings_that_look_like_other_types() {
    let texts = [
        "yes",
        "no",
        "on",
        "off",
        "y",
        "n",
        "Yes",
        "NO",
        "true",
        "null",
        "~",
        "",
        "1e3",
        "0x1f",
        "017",
        "1_000",
        "1.10",
        "12:30:45",
        "2026-11-15",
        "=",
        "<<",
        "- a",
        "a: b",
        "a #b",
        "#",
        "&a",
        "*a",
        "!a",
        "%a",
        "@a",
        "`a",
        "{",
        "[",
        "'",
        "\"",
        "|",
        ">",
        "?",
        " a",
        "a ",
        "a\nb",
        "\t",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "\u{0}",
        "é",
        "😀",
    ];
    let tree = Tree::list(texts);
    let written = write(&tree);
    let read = parse(written.as_bytes(), Limits::DOCUMENT).unwrap();
    assert_eq!(read.to_value().unwrap(), json!(texts.to_vec()), "{written}");
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,20}",
        "\\PC{0,12}",
        any::<String>(),
        "[-+.0-9eExXoO_:]{0,8}",
        "[\n\r\t #:'\"-]{0,6}[a-z]{0,3}[\n ]{0,3}",
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::from),
        any::<u64>().prop_map(Tree::from),
        any::<i64>().prop_map(|number| Tree::Number(number.into())),
        any::<f64>().prop_filter_map("finite", |number| serde_json::Number::from_f64(number).map(Tree::Number)),
        text().prop_map(Tree::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Tree::List),
            prop::collection::btree_map(text(), inner, 0..6)
                .prop_map(|members| Tree::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn written_yaml_reads_back(tree in tree()) {
        let written = write(&tree);
        let node = parse(written.as_bytes(), Limits::DOCUMENT);
        let value = node.map_err(|error| TestCaseError::fail(format!("{error}\n{written}")))?.to_value().unwrap();
        prop_assert_eq!(value, tree.to_value(), "{}", written);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[-a:&*{}\\[\\],?|>'\"#%!@ \n\t]{0,60}") {
        let _ = parse(text.as_bytes(), Limits::DOCUMENT);
    }
}
