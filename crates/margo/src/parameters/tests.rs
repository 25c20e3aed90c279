use super::*;
use serde_json::json;

const B: &str = include_str!("../../tests/fixtures/description-b.yaml");

fn description() -> ApplicationDescription {
    ApplicationDescription::read(B.as_bytes()).unwrap().document
}

fn answers(pairs: &[(&str, Value)]) -> ParameterValues {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// A value for every required parameter of the fixture.
fn complete() -> ParameterValues {
    answers(&[("plant", json!("Nord")), ("token", json!("secret-token"))])
}

/// The messages for one parameter with this value.
fn problems(name: &str, value: Value) -> Vec<String> {
    let mut given = complete();
    given.insert(name.to_owned(), value);
    match resolve(&description(), "cluster", &given, None) {
        Ok(_) => Vec::new(),
        Err(errors) => {
            assert!(errors.iter().all(|error| error.field == name), "{errors:?}");
            errors.into_iter().map(|error| error.message).collect()
        }
    }
}

#[test]
fn lists_settings_of_the_profile_by_section() {
    // PRM-04, PRM-05
    let description = description();
    let asked = |profile: &str| -> Vec<(String, String)> {
        fields(&description, profile)
            .iter()
            .map(|question| (question.section.to_owned(), question.setting.parameter.clone()))
            .collect()
    };
    let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(section, name)| ((*section).to_owned(), (*name).to_owned())).collect()
    };
    assert_eq!(
        asked("cluster"),
        pairs(&[
            ("Plant", "plant"),
            ("Plant", "zones"),
            ("Measuring", "interval"),
            ("Measuring", "tolerance"),
            ("Measuring", "token")
        ])
    );
    assert_eq!(asked("single").last().unwrap().1, "alarms");
    assert!(!asked("single").iter().any(|(_, name)| name == "zones"));
    assert!(asked("absent").is_empty());
    assert_eq!(fields(&description, "cluster")[2].default, Some(&json!(30)));
}

#[test]
fn only_targets_of_the_selected_profile_go_into_the_deployment() {
    // PRM-03
    let resolved = resolve(&description(), "single", &complete(), None).unwrap();
    assert_eq!(
        resolved["interval"].targets,
        [Target { pointer: "INTERVAL_SECONDS".to_owned(), components: vec!["kiln-watch".to_owned()] }]
    );
    assert!(!resolved.contains_key("zones"), "it reaches the other profile only");
    assert!(!resolved.contains_key("curveStoreSize"));
    let resolved = resolve(&description(), "cluster", &complete(), None).unwrap();
    assert_eq!(resolved["plant"].targets[0].components, ["watcher", "curve-store"]);
    assert_eq!(resolved["curveStoreSize"].value, json!("10Gi"), "a parameter without a setting keeps its default");
    assert!(!resolved.contains_key("alarms"));
}

#[test]
fn uses_defaults_without_values() {
    let resolved = resolve(&description(), "cluster", &complete(), None).unwrap();
    assert_eq!(resolved["interval"].value, json!(30));
    let mut given = complete();
    given.insert("interval".to_owned(), json!(60));
    assert_eq!(resolve(&description(), "cluster", &given, None).unwrap()["interval"].value, json!(60));
    given.insert("interval".to_owned(), Value::Null);
    assert_eq!(resolve(&description(), "cluster", &given, None).unwrap()["interval"].value, json!(30));
}

#[test]
fn names_section_and_setting_of_a_missing_value() {
    // PRM-08: allowEmpty is false by default, which makes a value required.
    let errors = resolve(&description(), "cluster", &ParameterValues::new(), None).unwrap_err();
    let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["plant", "token"]);
    assert_eq!(errors[0].message, "Plant / Name of the plant: must not be empty");
}

#[test]
fn an_empty_value_is_accepted_where_the_schema_allows_it() {
    // PRM-08
    assert_eq!(problems("zones", json!([])), [""; 0]);
    assert_eq!(problems("plant", json!("")), ["Plant / Name of the plant: must not be empty"]);
}

#[test]
fn checks_values_against_type_and_rules() {
    // PRM-07
    let place = "Measuring / Interval";
    assert_eq!(problems("interval", json!(4)), [format!("{place}: must be at least 5, is 4")]);
    assert_eq!(problems("interval", json!(601)), [format!("{place}: must be at most 600, is 601")]);
    assert_eq!(problems("interval", json!("30")), [format!("{place}: must be a whole number, is 30")]);
    assert_eq!(problems("interval", json!(30.0)), [format!("{place}: must be a whole number, is 30.0")]);
    assert_eq!(problems("interval", json!([30])), [format!("{place}: must be a whole number, is [30]")]);
    assert_eq!(
        problems("tolerance", json!(0.125)),
        ["Measuring / Tolerance: must have at most 2 decimal places, is 0.125"]
    );
    assert_eq!(problems("tolerance", json!(3)), [""; 0], "a whole number is a double too");
    assert_eq!(problems("plant", json!("No")), ["Plant / Name of the plant: must have at least 3 characters, is No"]);
    let plant = "Plant / Name of the plant: must match the pattern ^[A-Z], is nord";
    assert_eq!(problems("plant", json!("nord")), [plant], "there are no words for it, and no example");
    assert_eq!(problems("plant", json!("Ä".repeat(40))).len(), 1, "length counts characters, the pattern still fails");
    assert_eq!(
        problems("zones", json!(["top", "attic"])),
        ["Plant / Zones to watch: item 2: must be one of top, middle, bottom, is attic"]
    );
    assert_eq!(problems("zones", json!("top")), ["Plant / Zones to watch: must be a list of texts"]);
}

#[test]
fn reports_every_rule_that_a_value_breaks() {
    assert_eq!(problems("plant", json!("no")).len(), 2);
}

#[test]
fn a_sensitive_value_is_never_repeated() {
    // PRM-09
    let message = problems("token", json!("hunter2")).join("\n");
    assert!(message.contains("at least 8 characters") && !message.contains("hunter2"), "{message}");
    assert!(!problems("token", json!(1_234_567)).join("\n").contains("1234567"));
}

#[test]
fn an_immutable_value_does_not_change_after_the_first_installation() {
    // PRM-06
    let previous = answers(&[("plant", json!("Nord"))]);
    assert!(resolve(&description(), "cluster", &complete(), Some(&previous)).is_ok());
    let mut given = complete();
    given.insert("plant".to_owned(), json!("Sued"));
    let errors = resolve(&description(), "cluster", &given, Some(&previous)).unwrap_err();
    assert_eq!(errors[0].message, "Plant / Name of the plant: must not change after the first installation");
    given.shift_remove("plant");
    let resolved = resolve(&description(), "cluster", &given, Some(&previous)).unwrap();
    assert_eq!(resolved["plant"].value, json!("Nord"), "without an answer it keeps its value");
}

#[test]
fn rejects_unknown_parameters_and_profiles() {
    let mut given = complete();
    given.insert("intervall".to_owned(), json!(1));
    let errors = resolve(&description(), "cluster", &given, None).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].field, "intervall");
    assert_eq!(errors[0].message, "is not a parameter of this application; did you mean `interval`?");
    given.shift_remove("intervall");
    given.insert("tint".to_owned(), json!(1));
    let errors = resolve(&description(), "cluster", &given, None).unwrap_err();
    assert!(errors[0].message.contains("it has interval, plant"), "{}", errors[0].message);
    assert_eq!(resolve(&description(), "absent", &given, None).unwrap_err()[0].field, "profile");
}

#[test]
fn converts_command_line_text_to_the_schema_type() {
    let description = description();
    for (name, text, expected) in [
        ("interval", "30", json!(30)),
        ("interval", "soon", json!("soon")),
        ("interval", "18446744073709551615", json!(u64::MAX)),
        ("tolerance", "0.5", json!(0.5)),
        ("tolerance", "3", json!(3)),
        ("tolerance", "inf", json!("inf")),
        ("alarms", "true", json!(true)),
        ("alarms", "yes", json!("yes")),
        ("plant", "42", json!("42")),
        ("zones", "top, bottom", json!(["top", "bottom"])),
        ("zones", "[\"top\"]", json!(["top"])),
        ("zones", "", json!([])),
        ("curveStoreSize", "20", json!("20")),
        ("absent", "1", json!("1")),
    ] {
        assert_eq!(coerce(&description, name, text), expected, "{name}={text}");
    }
}

fn judged(schema: &Schema, value: &Value) -> Vec<String> {
    let found = check::value(schema, None, value, &mut check::Patterns::unbounded());
    found.into_iter().map(|clause| clause.words).collect()
}

#[test]
fn options_compare_numbers_by_value() {
    let schema = Schema {
        name: "s".to_owned(),
        data_type: DataType::Double,
        allow_empty: false,
        min_length: None,
        max_length: None,
        regex_match: None,
        min_value: None,
        max_value: None,
        min_precision: Some(1),
        max_precision: None,
        multiselect: false,
        options: Some(vec![json!(1), json!(2.5)]),
        sensitive: false,
    };
    assert_eq!(judged(&schema, &json!(2.5)), [""; 0]);
    assert_eq!(judged(&schema, &json!(1.0)), ["must have at least 1 decimal places, is 1.0"]);
    assert_eq!(judged(&schema, &json!(2.25)), ["must be one of 1, 2.5, is 2.25"]);
    let arrays = Schema { data_type: DataType::ArrayBoolean, options: None, ..schema };
    assert_eq!(judged(&arrays, &json!([true, 1])), ["item 2: must be true or false, is 1"]);
}

#[test]
fn describes_the_required_format_in_words() {
    let text = |pattern: &str, sensitive| Schema {
        name: "s".to_owned(),
        data_type: DataType::String,
        allow_empty: false,
        min_length: None,
        max_length: None,
        regex_match: Some(pattern.to_owned()),
        min_value: None,
        max_value: None,
        min_precision: None,
        max_precision: None,
        multiselect: false,
        options: None,
        sensitive,
    };
    let expected_words = |schema: &Schema, default: Option<Value>| {
        let found = check::value(schema, default.as_ref(), &json!("?"), &mut check::Patterns::unbounded());
        let [check::Clause { words, pattern }] = <[_; 1]>::try_from(found).unwrap();
        assert_eq!(pattern, schema.regex_match, "programs get the pattern");
        words
    };
    let (device, odd) = (text("^/dev/[a-z]+$", false), text("(a|b)+[^c]{3}", false));
    let form = "must have this format: `/dev/`, then lower-case letters, is ?";
    assert_eq!(expected_words(&device, None), form);
    assert_eq!(expected_words(&device, Some(json!("/dev/usb"))), format!("{form}; for example `/dev/usb`"));
    let example = "must have the format defined by the supplier, is ?; for example `aabc`";
    assert_eq!(expected_words(&odd, Some(json!("aabc"))), example);
    assert_eq!(expected_words(&odd, None), "must match the pattern (a|b)+[^c]{3}, is ?", "nothing else would help");
    let begins = text("^opc://[a-z]+(:[0-9]+)?(/.*)?$", false);
    let both = "must have this format: begins with `opc://` (pattern ^opc://[a-z]+(:[0-9]+)?(/.*)?$), is ?";
    assert_eq!(expected_words(&begins, None), both);
    let secret = text("^/dev/[a-z]+$", true);
    assert_eq!(
        expected_words(&secret, Some(json!("/dev/usb"))),
        "must have this format: `/dev/`, then lower-case letters"
    );
}

#[test]
fn rejects_patterns_that_are_too_large() {
    let mut patterns = check::Patterns::bounded();
    assert!(!patterns.can_use("(a{1000}){1000}"));
    assert!(!patterns.can_use("(?<!x)y"));
    assert!(patterns.can_use("^a+$"));
    let address = r"^(http(s):\/\/.)[-a-zA-Z0-9@:%._\+~#=]{2,256}\.[a-z]{2,6}\b([-a-zA-Z0-9@:%_\+.~#?&//=]*)$";
    assert!(patterns.can_use(address), "the largest pattern published examples have");
}
