use super::*;
use crate::capabilities::UnknownTypes;
use crate::description::ApplicationDescription;
use serde_json::json;

const DESCRIPTION: &str = include_str!("../../tests/fixtures/description-b.yaml");
const DEVICE: &str = include_str!("../../tests/fixtures/capabilities-b.json");

fn device(change: impl FnOnce(&mut Value)) -> DeviceCapabilities {
    let mut value: Value = serde_json::from_str(DEVICE).unwrap();
    change(&mut value);
    DeviceCapabilities::read(value.to_string().as_bytes(), UnknownTypes::Refuse).unwrap().document
}

/// Reads constraints the way a description brings them.
fn constraints(value: &Value) -> Result<DeviceConstraints, String> {
    let text = json!({
        "apiVersion": "v1", "id": "a",
        "metadata": {"name": "a", "version": "1", "catalog": {"organization": []}},
        "deploymentProfiles": [{
            "type": "compose", "id": "p", "deviceConstraints": value,
            "components": [{"name": "c", "properties": {"repository": "oci://r/c", "revision": "1.0.0"}}],
        }],
    });
    match ApplicationDescription::read(text.to_string().as_bytes()) {
        Ok(mut read) => Ok(read.document.deployment_profiles.remove(0).device_constraints.unwrap()),
        Err(findings) => Err(findings.to_string()),
    }
}

fn check_of(value: &Value, capabilities: &DeviceCapabilities) -> CompatibilityCheck {
    evaluate(ProfileType::Compose, Some(&constraints(value).unwrap()), capabilities)
}

/// One expression in one rule: whether the fixture device satisfies it.
fn holds(selector: &str, expression: &Value) -> bool {
    let value = json!({"eligibilityRules": [{selector: {"matchExpressions": [expression]}}]});
    check_of(&value, &device(|_| {})).outcome == Outcome::Yes
}

fn property(expression: Value) -> bool {
    holds("propertySelector", &expression)
}

fn label(expression: Value) -> bool {
    holds("labelSelector", &expression)
}

fn refused(expression: Value, words: &str) {
    let value = json!({"eligibilityRules": [{"propertySelector": {"matchExpressions": [expression]}}]});
    let message = constraints(&value).unwrap_err();
    assert!(message.contains(words), "{message}");
    assert!(message.contains("eligibilityRules[0].propertySelector.matchExpressions[0]"), "{message}");
}

#[test]
fn evaluates_the_deployment_type_first() {
    let check_of = evaluate(ProfileType::Compose, None, &device(|_| {}));
    assert_eq!(check_of.outcome, Outcome::Yes);
    assert_eq!(check_of.reasons[0].message, "runs Compose, needs Compose");
    let check_of = evaluate(ProfileType::Helm, None, &device(|_| {}));
    assert_eq!((check_of.outcome, check_of.reasons[0].rule.as_str()), (Outcome::No, "deploymentType"));
}

#[test]
fn a_device_without_hosting_fields_hosts_nothing() {
    // CAP-06
    let gateway = device(|value| {
        let properties = value["properties"].as_object_mut().unwrap();
        properties.retain(|key, _| ["id", "vendor", "modelNumber", "serialNumber"].contains(&key.as_str()));
    });
    let check_of = evaluate(ProfileType::Compose, None, &gateway);
    assert_eq!(
        (check_of.outcome, check_of.reasons[0].message.as_str()),
        (Outcome::No, "the device does not host workloads")
    );
}

#[test]
fn a_custom_runtime_is_found_by_its_type_and_its_label() {
    // CR-01
    let rule = json!({"eligibilityRules": [{"labelSelector": {"matchExpressions": [
        {"key": "ardent.example/runtime", "operator": "In", "values": ["ladder"]},
    ]}}]});
    let rule = constraints(&rule).unwrap();
    let outcome = |lists: &Value, label: Option<&str>| {
        let device = device(|value| {
            value["properties"]["supportedRuntimes"] = lists.clone();
            value["properties"]["supportedDeploymentTypes"] = lists.clone();
            if let Some(label) = label {
                value["labels"]["ardent.example/runtime"] = json!(label);
            }
        });
        evaluate(ProfileType::Custom, Some(&rule), &device).outcome
    };
    assert_eq!(outcome(&json!(["custom"]), Some("ladder")), Outcome::Yes);
    assert_eq!(outcome(&json!(["custom"]), Some("other")), Outcome::No);
    assert_eq!(outcome(&json!(["custom"]), None), Outcome::No);
    let ordinary = device(|value| value["labels"]["ardent.example/runtime"] = json!("ladder"));
    let check_of = evaluate(ProfileType::Custom, Some(&rule), &ordinary);
    assert_eq!((check_of.outcome, check_of.reasons[0].rule.as_str()), (Outcome::No, "deploymentType"));
}

#[test]
fn every_rule_has_a_reason_for_yes_and_for_no() {
    // CON-02
    let description = ApplicationDescription::read(DESCRIPTION.as_bytes()).unwrap().document;
    let constraints = description.profile("cluster").unwrap().device_constraints.as_ref();
    let check_of = evaluate(ProfileType::Helm, constraints, &device(|_| {}));
    let rules: Vec<_> = check_of.reasons.iter().map(|reason| (reason.rule.as_str(), reason.outcome)).collect();
    assert_eq!(
        rules,
        [
            ("deploymentType", Outcome::No),
            ("cpu", Outcome::Yes),
            ("memory", Outcome::Yes),
            ("storage", Outcome::Yes),
            ("eligibilityRules[0].propertySelector.matchExpressions[0]", Outcome::Yes),
            ("eligibilityRules[0].labelSelector.matchExpressions[0]", Outcome::Yes),
            ("eligibilityRules[0].labelSelector.matchExpressions[1]", Outcome::Yes),
            ("eligibilityRules[1].labelSelector.matchExpressions[0]", Outcome::No),
            ("eligibilityRules", Outcome::Yes),
        ]
    );
    assert_eq!(check_of.reasons[2].message, "has 4 GiB of memory, needs 2 GiB");
    assert_eq!(check_of.outcome, Outcome::No, "the deployment type alone decides");
}

#[test]
fn one_cpu_must_satisfy_the_requirement() {
    // CON-06
    let cpu = |cpu: Value| check_of(&json!({"capacityRequirements": {"cpu": cpu}}), &device(|_| {})).outcome;
    assert_eq!(cpu(json!({"cores": 4})), Outcome::Yes);
    assert_eq!(cpu(json!({"cores": 4.5})), Outcome::No, "never 4 + 0.5");
    assert_eq!(cpu(json!({"cores": 0.5, "architectures": ["arm"]})), Outcome::Yes);
    assert_eq!(cpu(json!({"cores": 1, "architectures": ["arm"]})), Outcome::No);
    assert_eq!(cpu(json!({"cores": 1, "architectures": ["arm", "arm64"]})), Outcome::Yes);
}

#[test]
fn unreadable_values_are_unknown_and_a_definite_no_wins() {
    // W-17
    let needs = json!({"capacityRequirements": {"memory": "1Gi", "storage": "1Gi"}});
    let odd = device(|value| value["properties"]["memory"] = json!("64"));
    let fit_odd = check_of(&needs, &odd);
    assert_eq!(fit_odd.outcome, Outcome::Unknown);
    assert!(fit_odd.reasons[1].message.contains("`64`, which is not a quantity"));
    let small = device(|value| {
        value["properties"]["memory"] = json!("64");
        value["properties"]["storage"] = json!("1Mi");
    });
    assert_eq!(check_of(&needs, &small).outcome, Outcome::No);
    let silent = device(|value| {
        value["properties"].as_object_mut().unwrap().remove("memory");
    });
    assert_eq!(check_of(&needs, &silent).outcome, Outcome::Unknown);
    let nameless = device(|value| value["properties"]["cpus"] = json!([{"cores": 8}]));
    let cpu = json!({"capacityRequirements": {"cpu": {"cores": 1, "architectures": ["arm"]}}});
    assert_eq!(check_of(&cpu, &nameless).outcome, Outcome::Unknown);
}

#[test]
fn evaluates_rules_only_if_capacity_passes() {
    // CON-05
    let value = json!({
        "capacityRequirements": {"memory": "100Gi"},
        "eligibilityRules": [{"labelSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}],
    });
    let check_of = check_of(&value, &device(|_| {}));
    assert_eq!(check_of.outcome, Outcome::No);
    assert_eq!(check_of.reasons.len(), 2, "{:?}", check_of.reasons);
}

#[test]
fn selectors_are_joined_by_and_and_rules_by_or() {
    // CON-07
    let yes = json!({"matchExpressions": [{"key": "ardent.example/hall", "operator": "Exists"}]});
    let no = json!({"matchExpressions": [{"key": "nothing", "operator": "Exists"}]});
    let id = json!({"matchExpressions": [{"key": "/id", "operator": "Exists"}]});
    let outcome = |rules: Value| check_of(&json!({ "eligibilityRules": rules }), &device(|_| {})).outcome;
    assert_eq!(outcome(json!([{"labelSelector": yes, "propertySelector": id}])), Outcome::Yes);
    assert_eq!(outcome(json!([{"labelSelector": no, "propertySelector": id}])), Outcome::No);
    assert_eq!(outcome(json!([{"labelSelector": no}, {"labelSelector": yes}])), Outcome::Yes);
    assert_eq!(outcome(json!([{"labelSelector": no}, {"labelSelector": no}])), Outcome::No);
    assert_eq!(outcome(json!([])), Outcome::Yes, "no rules, no constraint");
    assert_eq!(check_of(&json!({}), &device(|_| {})).outcome, Outcome::Yes);
}

#[test]
fn property_keys_are_json_pointers_into_the_properties() {
    // CON-08
    assert!(property(json!({"key": "/vendor", "operator": "In", "values": ["Ardent Controls"]})));
    assert!(property(json!({"key": "/cpus/0/cores", "operator": "Gt", "values": [3]})));
    assert!(!property(json!({"key": "/nothing", "operator": "In", "values": ["x"]})));
    assert!(!property(json!({"key": "", "operator": "Exists"})), "an object is none of the allowed values");
    assert!(
        !property(json!({"key": "/cpus", "operator": "Exists"})),
        "lists of objects need ContainsAll or ContainsAny"
    );
    assert!(property(json!({"key": "/supportedDeploymentTypes", "operator": "In", "values": ["helm", "compose"]})));
    refused(json!({"key": "vendor", "operator": "Exists"}), "JSON Pointer");
    refused(json!({"key": "/a~2", "operator": "Exists"}), "JSON Pointer");
}

#[test]
fn label_keys_are_exact() {
    // CON-09
    assert!(label(json!({"key": "ardent.example/hall", "operator": "In", "values": ["north"]})));
    assert!(!label(json!({"key": "Ardent.example/hall", "operator": "Exists"})));
    assert!(!label(json!({"key": "/ardent.example/hall", "operator": "Exists"})));
}

#[test]
fn operators_follow_the_standard() {
    // CON-10, CON-11
    assert!(!label(json!({"key": "ardent.example/hall", "operator": "In", "values": ["North"]})), "case counts");
    assert!(label(json!({"key": "ardent.example/zones", "operator": "In", "values": ["attic", "top"]})));
    assert!(label(json!({"key": "ardent.example/slots", "operator": "In", "values": [3.0, 9]})), "numbers by value");
    assert!(label(json!({"key": "ardent.example/heated", "operator": "In", "values": [true]})));
    assert!(!label(json!({"key": "ardent.example/floor", "operator": "In", "values": ["2"]})), "2 is not \"2\"");
    assert!(label(json!({"key": "ardent.example/hall", "operator": "NotIn", "values": ["south"]})));
    assert!(!label(json!({"key": "ardent.example/zones", "operator": "NotIn", "values": ["top"]})));
    assert!(!label(json!({"key": "nothing", "operator": "NotIn", "values": ["x"]})), "NotIn needs the key");
    assert!(label(json!({"key": "nothing", "operator": "DoesNotExist"})));
    assert!(!label(json!({"key": "ardent.example/hall", "operator": "DoesNotExist"})));
    assert!(label(json!({"key": "ardent.example/floor", "operator": "Gt", "values": [1.5]})));
    assert!(label(json!({"key": "ardent.example/floor", "operator": "Lt", "values": ["3"]})), "text that is a number");
    assert!(!label(json!({"key": "ardent.example/floor", "operator": "Lt", "values": [2]})));
    assert!(!label(json!({"key": "ardent.example/hall", "operator": "Gt", "values": [1]})));
    assert!(!label(json!({"key": "ardent.example/slots", "operator": "Gt", "values": [0]})));
}

#[test]
fn contains_all_needs_one_matching_element_and_contains_any_one_matching_field() {
    // CON-10
    let items = |operator: &str, kind: &str, manufacturer: &str| {
        property(json!({"key": "/peripherals", "operator": operator, "itemSelector": {"matchExpressions": [
            {"key": "/type", "operator": "In", "values": [kind]},
            {"key": "/manufacturer", "operator": "In", "values": [manufacturer]},
        ]}}))
    };
    assert!(items("ContainsAll", "camera", "Ardent"));
    assert!(!items("ContainsAll", "display", "Ardent"), "two elements do not add up");
    assert!(items("ContainsAny", "display", "Absent"));
    assert!(!items("ContainsAny", "gpu", "Absent"));
    assert!(!property(json!({"key": "/vendor", "operator": "ContainsAny", "itemSelector": {"matchExpressions": [
        {"key": "", "operator": "Exists"}]}})));
}

#[test]
fn rejects_invalid_expressions_while_reading() {
    // CON-11
    refused(json!({"key": "/a", "operator": "In"}), "need `values`");
    refused(json!({"key": "/a", "operator": "In", "values": []}), "need `values`");
    refused(json!({"key": "/a", "operator": "NotIn", "values": ["x", 1]}), "need `values`");
    refused(json!({"key": "/a", "operator": "In", "values": [true, false]}), "exactly one boolean");
    refused(json!({"key": "/a", "operator": "Exists", "values": ["x"]}), "take no `values`");
    refused(json!({"key": "/a", "operator": "Gt", "values": [1, 2]}), "exactly one number");
    refused(json!({"key": "/a", "operator": "Lt", "values": ["many"]}), "exactly one number");
    refused(json!({"key": "/a", "operator": "ContainsAll"}), "itemSelector");
    refused(json!({"key": "/a", "operator": "ContainsAny", "itemSelector": {"matchExpressions": []}}), "at least one");
    refused(json!({"key": "/a", "operator": "Exists", "itemSelector": {"matchExpressions": []}}), "belongs to");
    refused(json!({"operator": "Exists"}), "is missing");
}

#[test]
fn rejects_the_misspelled_operator_with_a_hint() {
    // CON-12
    refused(json!({"key": "/a", "operator": "ContainersAny"}), "did you mean `ContainsAny`?");
}

#[test]
fn capacity_fields_follow_their_patterns() {
    let read = |capacity: Value| constraints(&json!({ "capacityRequirements": capacity }));
    assert!(read(json!({"memory": "512Mi", "storage": "2Ei"})).is_ok());
    assert!(read(json!({"memory": "2Ti"})).is_ok(), "readable, with a warning");
    assert!(read(json!({"memory": "lots"})).unwrap_err().contains("512Mi"));
    assert!(read(json!({"cpu": {}})).unwrap_err().contains("cores"));
    assert!(read(json!({"cpu": {"cores": -1}})).unwrap_err().contains("negative"));
    assert!(read(json!({"cpu": {"cores": 1, "architectures": ["z80"]}})).unwrap_err().contains("riscv64"));
}

/// The reason for one expression in one rule.
fn reason(selector: &str, expression: &Value) -> Reason {
    let value = json!({"eligibilityRules": [{selector: {"matchExpressions": [expression]}}]});
    check_of(&value, &device(|_| {})).reasons.pop().unwrap()
}

#[test]
fn reasons_about_labels_name_the_label_and_both_values() {
    let say = |expression: Value| reason("labelSelector", &expression).message;
    let hall = "ardent.example/hall";
    assert_eq!(
        say(json!({"key": "line", "operator": "Exists"})),
        "needs the label `line`, which the device does not report"
    );
    assert_eq!(
        say(json!({"key": "line", "operator": "In", "values": ["7", "8"]})),
        "needs the label `line` (one of `7`, `8`), which the device does not report"
    );
    assert_eq!(
        say(json!({"key": hall, "operator": "In", "values": ["south"]})),
        "label `ardent.example/hall` is `north`, needs `south`"
    );
    assert_eq!(
        say(json!({"key": hall, "operator": "NotIn", "values": ["north"]})),
        "label `ardent.example/hall` is `north`, needs anything but `north`"
    );
    assert_eq!(
        say(json!({"key": hall, "operator": "DoesNotExist"})),
        "label `ardent.example/hall` is `north`, needs a device without it"
    );
    assert_eq!(
        say(json!({"key": hall, "operator": "Gt", "values": [1]})),
        "label `ardent.example/hall` is `north`, which is not a number; needs more than `1`"
    );
    assert_eq!(
        say(json!({"key": "ardent.example/floor", "operator": "In", "values": ["2"]})),
        "label `ardent.example/floor` is `2` as a number, needs `2` as text"
    );
}

#[test]
fn reasons_use_names_for_common_properties_and_pointers_for_others() {
    let say = |expression: Value| reason("propertySelector", &expression).message;
    assert_eq!(
        say(json!({"key": "/vendor", "operator": "In", "values": ["Siemens", "ABB"]})),
        "vendor is `Ardent Controls`, needs one of `Siemens`, `ABB`"
    );
    assert_eq!(
        say(json!({"key": "/cpus/0/cores", "operator": "Gt", "values": [8]})),
        "number of cores of processor 1 is `4`, needs more than `8`"
    );
    assert_eq!(
        say(json!({"key": "/supportedDeploymentTypes", "operator": "In", "values": ["helm"]})),
        "deployment types are `compose`, needs `helm`"
    );
    assert_eq!(
        say(json!({"key": "/safety/level", "operator": "In", "values": ["SIL2"]})),
        "needs the property `/safety/level` (`SIL2`), which the device does not report"
    );
    assert_eq!(
        say(json!({"key": "/cpus", "operator": "Exists"})),
        "needs the processors, but `/cpus` is a list, which `Exists` does not support"
    );
}

#[test]
fn reasons_about_lists_name_the_elements() {
    let say = |key: &str, values: Value| {
        let items = json!({"matchExpressions": [{"key": "/type", "operator": "In", "values": values}]});
        reason("propertySelector", &json!({"key": key, "operator": "ContainsAll", "itemSelector": items})).message
    };
    let message = say("/peripherals", json!(["gpu"]));
    assert!(message.starts_with("needs a peripheral with type `gpu`, has `camera`"), "{message}");
    let message = say("/lamps", json!(["red", "green"]));
    assert_eq!(
        message,
        "needs an element of `/lamps` with type `red` or `green`, the device reports no property `/lamps`"
    );
}

#[test]
fn a_reason_names_the_label_that_would_help() {
    let label = |expression: Value| reason("labelSelector", &expression).label;
    assert_eq!(label(json!({"key": "line", "operator": "Exists"})).as_deref(), Some("line"));
    assert_eq!(label(json!({"key": "line", "operator": "DoesNotExist"})), None);
    assert_eq!(reason("propertySelector", &json!({"key": "/vendor", "operator": "Exists"})).label, None);
}

#[test]
fn capacity_reasons_show_both_numbers() {
    let say = |needs: Value, change: fn(&mut Value)| {
        check_of(&json!({ "capacityRequirements": needs }), &device(change)).reasons[1].message.clone()
    };
    let small = |value: &mut Value| value["properties"]["memory"] = json!("2047.999 Mi");
    assert_eq!(say(json!({"memory": "4Gi"}), small), "has 1.99 GiB of memory, needs 4 GiB");
    let hair = |value: &mut Value| value["properties"]["memory"] = json!("2.001Gi");
    assert_eq!(say(json!({"memory": "2.003Gi"}), hair), "has 2.001Gi of memory, needs 2.003Gi");
    let silent = |value: &mut Value| {
        value["properties"].as_object_mut().unwrap().remove("cpus");
    };
    assert_eq!(
        say(json!({"cpu": {"cores": 1, "architectures": ["arm64"]}}), silent),
        "needs 1 core of arm64, the device does not report its processors"
    );
}
