use super::{LabelSelector, Requirement};
use proptest::prelude::*;

fn parse(text: &str) -> Vec<Requirement> {
    LabelSelector::parse(text).unwrap().requirements
}

fn equals(key: &str, value: &str) -> Requirement {
    Requirement::Equals(key.into(), value.into())
}

fn problem(text: &str) -> String {
    LabelSelector::parse(text).unwrap_err().problem
}

#[test]
fn reads_every_form_kubectl_knows() {
    assert_eq!(parse(""), []);
    assert_eq!(parse("  "), []);
    assert_eq!(parse("a=b"), [equals("a", "b")]);
    assert_eq!(parse("a==b"), [equals("a", "b")]);
    assert_eq!(parse(" a = b , c != d "), [equals("a", "b"), Requirement::NotEquals("c".into(), "d".into())]);
    assert_eq!(parse("a="), [equals("a", "")]);
    assert_eq!(parse("a=,b=c"), [equals("a", ""), equals("b", "c")]);
    assert_eq!(parse("line in (1, 2)"), [Requirement::In("line".into(), vec!["1".into(), "2".into()])]);
    assert_eq!(parse("line notin(1)"), [Requirement::NotIn("line".into(), vec!["1".into()])]);
    assert_eq!(parse("spare"), [Requirement::Exists("spare".into())]);
    assert_eq!(parse("! spare"), [Requirement::DoesNotExist("spare".into())]);
    assert_eq!(parse("example.org/site=x-1_y.z"), [equals("example.org/site", "x-1_y.z")]);
}

#[test]
fn accepts_in_and_notin_as_keys() {
    assert_eq!(parse("in in (in)"), [Requirement::In("in".into(), vec!["in".into()])]);
    assert_eq!(parse("notin,in=notin"), [Requirement::Exists("notin".into()), equals("in", "notin")]);
}

#[test]
fn reads_quoted_keys_and_values() {
    assert_eq!(parse(r#""hall (west)"="a, \"b\" \\""#), [equals("hall (west)", r#"a, "b" \"#)]);
}

#[test]
fn reports_the_position_of_an_error() {
    assert_eq!(problem("a=b c"), "at character 5: expected `,` or the end, found `c`");
    assert_eq!(
        problem("site=berlin,line im (1)"),
        "at character 18: expected `=`, `!=`, `in`, `notin`, `,` or the end, found `im`"
    );
    assert_eq!(problem("a,"), "at character 3: expected a key, found the end");
    assert_eq!(problem("=b"), "at character 1: expected a key, found `=`");
    assert_eq!(problem("a in 1"), "at character 6: expected `(`, found `1`");
    assert_eq!(problem("a in ()"), "at character 7: expected a value between the parentheses");
    assert_eq!(problem("a in (1"), "at character 8: expected `,` or `)`, found the end");
    assert_eq!(problem("a!b"), "at character 3: expected `=` after `!`, found `b`");
    assert_eq!(problem("a=\"b"), "at character 3: the quote is not closed");
    assert_eq!(problem(r#"a="\n""#), r#"at character 5: only `\"` and `\\` may follow `\`"#);
    assert_eq!(problem("ä=b)"), "at character 4: expected `,` or the end, found `)`");
    assert!(problem(&"a,".repeat(10_000)).contains("longer than"));
}

#[test]
fn matches_when_every_requirement_holds() {
    let labels = |key: &str| match key {
        "site" => vec!["berlin"],
        "line" => vec!["1", "2"],
        _ => vec![],
    };
    let check = |text: &str| LabelSelector::parse(text).unwrap().matches(labels);
    assert!(check(""));
    assert!(check("site=berlin,line in (2,3),!spare"));
    assert!(check("line=2"));
    assert!(!check("line!=2"));
    assert!(check("line!=3"));
    assert!(check("spare!=yes"));
    assert!(check("spare notin (yes)"));
    assert!(!check("line notin (2)"));
    assert!(!check("spare"));
    assert!(!check("site=berlin,spare"));
    assert!(!check("site=Berlin"));
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let key = || prop_oneof!["[a-z./-]{1,8}", "\\PC{1,6}", Just("in".to_owned()), Just("notin".to_owned())];
    let value = || prop_oneof!["[a-z0-9]{0,8}", "\\PC{0,6}", "[\"\\\\ ,()=!\n]{1,4}"];
    let set = move || proptest::collection::vec(value(), 1..4);
    prop_oneof![
        (key(), value()).prop_map(|(key, value)| Requirement::Equals(key, value)),
        (key(), value()).prop_map(|(key, value)| Requirement::NotEquals(key, value)),
        (key(), set()).prop_map(|(key, values)| Requirement::In(key, values)),
        (key(), set()).prop_map(|(key, values)| Requirement::NotIn(key, values)),
        key().prop_map(Requirement::Exists),
        key().prop_map(Requirement::DoesNotExist),
    ]
}

proptest! {
    #[test]
    fn reads_back_what_it_prints(requirements in proptest::collection::vec(requirement(), 0..5)) {
        let selector = LabelSelector { requirements };
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn never_panics_and_prints_what_it_reads(text in "[a-z=!,() \"\\\\innot]{0,40}") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
        }
    }
}
