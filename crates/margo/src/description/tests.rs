use super::*;
use crate::constraints::Operator;
use crate::finding::Severity;
use crate::parameters::DataType;
use serde_json::json;

const B: &str = include_str!("../../tests/fixtures/description-b.yaml");
const A: &str = include_str!("../../tests/fixtures/description-a.yaml");

/// The fixture with one text replaced, which must be present.
fn changed(from: &str, to: &str) -> String {
    assert!(B.contains(from), "{from}");
    B.replacen(from, to, 1)
}

/// Rejected with a finding at this path that contains these words.
fn refused(text: &str, path: &str, words: &str) {
    let findings = ApplicationDescription::read(text.as_bytes()).unwrap_err();
    let found = findings
        .0
        .iter()
        .any(|finding| finding.severity == Severity::Error && finding.path == path && finding.message.contains(words));
    assert!(found, "{findings}");
}

/// Accepted with a warning at this path that contains these words.
fn warned(text: &str, path: &str, words: &str) {
    let read = ApplicationDescription::read(text.as_bytes()).unwrap();
    let found = read.warnings.iter().any(|finding| finding.path == path && finding.message.contains(words));
    assert!(found, "{:#?}", read.warnings);
}

#[test]
fn every_field_of_generation_b_is_read() {
    let read = ApplicationDescription::read(B.as_bytes()).unwrap();
    assert_eq!(read.warnings, []);
    let description = read.document;
    assert_eq!(description.id.as_str(), "kiln-watch");
    assert_eq!(description.metadata.version, "2.10", "text as written, not the number 2.1");
    let catalog = &description.metadata.catalog;
    assert_eq!(catalog.application.as_ref().unwrap().tags, ["ceramics", "monitoring"]);
    assert_eq!(catalog.author[0].email.as_deref(), Some("ida@kiln.example"));
    assert_eq!(catalog.organization[0].name, "Ardent Ceramics");
    let cluster = description.profile("cluster").unwrap();
    assert_eq!(cluster.profile_type, ProfileType::Helm);
    assert_eq!(cluster.extensions["x-ardent-extensions"], json!({"priority": 7}));
    assert_eq!(cluster.components[0].properties.timeout, Some(Timeout { seconds: 240 }));
    assert!(cluster.components[1].properties.waits(), "AD-02: absent means true");
    assert_eq!(cluster.components[1].extensions["x-ardent-extensions"], json!({"sidecar": "none"}));
    let constraints = cluster.device_constraints.as_ref().unwrap();
    assert_eq!(constraints.eligibility_rules.as_ref().unwrap().len(), 2);
    assert_eq!(constraints.raw["capacityRequirements"]["cpu"]["cores"], json!(1.5));
    let configuration = description.configuration.as_ref().unwrap();
    assert_eq!(configuration.schema[1].options.as_ref().unwrap().len(), 3);
    assert_eq!(configuration.schema[3].data_type, DataType::Double);
    assert!(configuration.schema[4].sensitive, "PRM-09");
    assert_eq!(description.extensions["x-ardent-extensions"], json!({"shop": "https://shop.ardent.example"}));
}

#[test]
fn components_keep_the_order_of_the_description() {
    // AD-01
    let description = ApplicationDescription::read(B.as_bytes()).unwrap().document;
    let names: Vec<_> = description.deployment_profiles[0].components.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["curve-store", "watcher"]);
}

#[test]
fn a_written_description_round_trips() {
    let description = ApplicationDescription::read(B.as_bytes()).unwrap().document;
    let yaml = description.to_yaml();
    let again = ApplicationDescription::read(yaml.as_bytes()).unwrap();
    assert_eq!((again.document.to_yaml(), again.warnings), (yaml, vec![]));
    assert_eq!(again.document, description);
}

#[test]
fn older_forms_are_mapped_with_a_warning_each() {
    // W-22
    let read = ApplicationDescription::read(A.as_bytes()).unwrap();
    let warned = |path: &str, words: &str| {
        let found = read.warnings.iter().any(|finding| finding.path == path && finding.message.contains(words));
        assert!(found, "{path}: {:#?}", read.warnings);
    };
    warned("apiVersion", "write `v1`");
    warned("kind", "remove it");
    warned("metadata.id", "top level");
    warned("deploymentProfiles[0].type", "helm.v3");
    warned("deploymentProfiles[0].components[0].properties.revision", "write `_`");
    warned("deploymentProfiles[0].components[0].properties.wait", "without quotes");
    warned("deploymentProfiles[0].components[0].properties.timeout", "5m0s");
    warned("deploymentProfiles[0].requiredResources", "deviceConstraints");
    warned("deploymentProfiles[0].requiredResources.cpu.architectures[0]", "amd64");
    warned("deploymentProfiles[1].components[0].properties.packageLocation", "OCI artifact");
    let description = read.document;
    assert_eq!(description.id.as_str(), "glaze-mixer");
    let source = &description.deployment_profiles[0].components[0].properties.source;
    assert!(matches!(source, ComponentSource::Oci { revision, .. } if revision == "0.9.0_hall3"), "AD-04");
    let single = &description.deployment_profiles[1].components[0].properties;
    assert_eq!(single.timeout, Some(Timeout { seconds: 90 }));
    assert!(matches!(&single.source, ComponentSource::Location { key_location: Some(_), .. }));
}

#[test]
fn required_resources_become_constraints_of_generation_b() {
    let description = ApplicationDescription::read(A.as_bytes()).unwrap().document;
    let constraints = description.deployment_profiles[0].device_constraints.as_ref().unwrap();
    let cpu = constraints.capacity.as_ref().unwrap().cpu.as_ref().unwrap();
    assert_eq!(cpu.architectures.as_ref().unwrap()[..], ["amd64"]);
    let rules = constraints.eligibility_rules.as_ref().unwrap();
    let expressions = &rules[0].property_selector.as_ref().unwrap().match_expressions;
    assert_eq!(expressions.len(), 3);
    assert!(expressions.iter().all(|expression| expression.operator == Operator::ContainsAll));
    // What is written is read as the same constraints, now in the form of B.
    let again = ApplicationDescription::read(description.to_yaml().as_bytes()).unwrap().document;
    assert_eq!(again.deployment_profiles[0].device_constraints.as_ref().unwrap(), constraints);
}

#[test]
fn inconsistencies_within_a_package_are_warnings() {
    // W-23, PRM-01
    let path = "parameters.port.targets[1].components[0]";
    let read = ApplicationDescription::read(A.as_bytes()).unwrap();
    let messages: Vec<_> = read.warnings.iter().map(ToString::to_string).collect();
    let all = messages.join("\n");
    assert!(
        read.warnings.iter().any(|finding| finding.path == path && finding.message.contains("is a profile")),
        "{all}"
    );
    assert!(all.contains("the default of `port` does not match its own schema: must be at least 1024, is 80"), "{all}");
    assert!(all.contains("`maxLength` has no meaning for the data type integer"), "{all}");
    assert!(all.contains("`configuration.schema[0].color`: is not a field of the standard"), "{all}");
}

#[test]
fn identifiers_follow_their_patterns() {
    refused(&changed("id: kiln-watch", "id: Kiln_Watch.1"), "id", "lower-case letters");
    refused(&changed("id: kiln-watch", &format!("id: {}", "k".repeat(201))), "id", "1 to 200");
    refused(&changed("name: curve-store", "name: Curve_Store"), "deploymentProfiles[0].components[0].name", "dashes");
    refused(&changed("id: single", "id: cluster"), "deploymentProfiles[1]", "must be unique");
    refused(
        &changed("name: curve-store\n", "name: watcher\n"),
        "deploymentProfiles[0].components[1]",
        "earlier component",
    );
    refused(&changed("ida@kiln.example", "ida at kiln"), "metadata.catalog.author[0].email", "no `@`");
}

#[test]
fn component_sources_follow_their_patterns() {
    let at = |field: &str| format!("deploymentProfiles[0].components[0].properties.{field}");
    let repository = "oci://registry.kiln.example/charts/curve-store";
    refused(&changed(repository, "https://kiln.example/charts"), &at("repository"), "`oci://`");
    refused(&changed(repository, "oci://"), &at("repository"), "`oci://`");
    refused(&changed("revision: 3.0.1", "revision: v3.0.1"), &at("revision"), "without the leading `v`");
    refused(&changed("revision: 3.0.1", "revision: 3.0"), &at("revision"), "SemVer");
    refused(&changed("revision: 3.0.1", "revision: 3.0.1_a_b"), &at("revision"), "SemVer");
    refused(&changed("revision: 3.0.1", "rev: 3.0.1"), &at("revision"), "is missing");
    refused(&changed("wait: true", "wait: maybe"), &at("wait"), "true or false");
    for time in ["soon", "4", "m4s", "4m4", "-1m0s", "1h", "99999999999999999999m0s", "4m 0s"] {
        refused(&changed("timeout: 4m0s", &format!("timeout: {time}")), &at("timeout"), "8m30s");
    }
}

#[test]
fn envelope_and_profile_types_are_checked() {
    refused(&changed("apiVersion: v1", "apiVersion: v2"), "apiVersion", "write `v1`");
    refused(&changed("apiVersion: v1\n", ""), "apiVersion", "is missing");
    refused(&changed("apiVersion: v1", "apiVersion: v1\nkind: Pod"), "kind", "ApplicationDescription");
    refused(&changed("type: helm", "type: flatpak"), "deploymentProfiles[0].type", "helm, compose or custom");
    // AP-02: custom is a type of generation B.
    let custom = changed("type: helm", "type: custom");
    let read = ApplicationDescription::read(custom.as_bytes()).unwrap();
    assert_eq!(read.document.deployment_profiles[0].profile_type, ProfileType::Custom);
    assert!(!read.warnings.iter().any(|warning| warning.message.contains("the devices that support it")));
    // CR-01: labels tell which devices support it.
    let (before, rest) = custom.split_once("    deviceConstraints:\n").unwrap();
    let (_, after) = rest.split_once("    x-ardent-extensions:\n      priority: 7\n").unwrap();
    warned(&format!("{before}{after}"), "deploymentProfiles[0].type", "the devices that support it");
}

#[test]
fn reports_all_problems_in_line_order() {
    let text = changed("id: kiln-watch", "id: Kiln")
        .replacen("  version: 2.10\n", "", 1)
        .replacen("revision: 3.0.1", "revision: x", 1)
        .replacen("operator: Exists", "operator: Exist", 1);
    let findings = ApplicationDescription::read(text.as_bytes()).unwrap_err();
    let errors: Vec<_> = findings.0.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(errors.len(), 4, "{findings}");
    let lines: Vec<_> = findings.0.iter().map(|finding| finding.line.unwrap()).collect();
    assert!(lines.is_sorted());
    let line = text.lines().position(|line| line.contains("revision: x")).unwrap() + 1;
    assert!(
        findings
            .to_string()
            .contains(&format!("line {line}: `deploymentProfiles[0].components[0].properties.revision`"))
    );
}

#[test]
fn targets_must_name_components() {
    // PRM-01
    let text = changed("components: [watcher, curve-store]", "components: [watcher, absent]");
    refused(&text, "parameters.plant.targets[0].components[1]", "not a component of any");
}

#[test]
fn settings_must_name_parameters_and_schemas() {
    let setting = "configuration.sections[0].settings[0]";
    refused(&changed("- parameter: plant", "- parameter: plan"), &format!("{setting}.parameter"), "not a parameter");
    refused(&changed("schema: plantName", "schema: plant"), &format!("{setting}.schema"), "name of a schema");
    refused(&changed("dataType: boolean", "dataType: bool"), "configuration.schema[5].dataType", "array[boolean]");
    refused(&changed("name: switch", "name: token"), "configuration.schema[5]", "earlier schema");
    refused(&changed("maxValue: 600", "maxValue: 4"), "configuration.schema[2].maxValue", "smaller than `minValue`");
    refused(
        &changed("options: [top, middle, bottom]", "options: [top, 1]"),
        "configuration.schema[1].options",
        "not of the data type",
    );
    refused(&changed("options: [top, middle, bottom]\n", "\n"), "configuration.schema[1].options", "needs choices");
    warned(&changed("regexMatch: ^[A-Z]", "regexMatch: ^(?=x)"), "configuration.schema[0]", "not checked");
}

#[test]
fn defaults_are_text_numbers_booleans_or_lists_of_these() {
    refused(&changed("value: 30", "value: {a: 1}"), "parameters.interval.value", "a list of these");
    refused(&changed("value: 30", "value: 99999999999999999999"), "parameters.interval.value", "64 bits");
    let text = changed("value: 30", "value: 18446744073709551615");
    let read = ApplicationDescription::read(text.as_bytes()).unwrap().document;
    assert_eq!(read.parameters["interval"].value, Some(json!(u64::MAX)));
}

#[test]
fn unknown_extensions_are_kept_and_odd_ones_never_fail() {
    // EXT-01, EXT-02
    let text = format!("{B}x-other-extensions: [1]\nx-Bad-extensions: {{}}\nx-third-extensions: {{a: {{b: 1}}}}\n");
    let read = ApplicationDescription::read(text.as_bytes()).unwrap();
    assert_eq!(read.warnings.len(), 2, "{:?}", read.warnings);
    let keys: Vec<_> = read.document.extensions.keys().collect();
    assert_eq!(keys, ["x-ardent-extensions", "x-third-extensions"]);
}

#[test]
fn a_missing_catalog_organization_or_profile_is_an_error() {
    refused(
        &changed("    organization:\n      - name: Ardent Ceramics\n        site: https://ardent.example\n", ""),
        "metadata.catalog.organization",
        "is missing",
    );
    refused(
        "apiVersion: v1\nid: a\nmetadata: {name: a, version: 1, catalog: {organization: []}}\ndeploymentProfiles: []\n",
        "deploymentProfiles",
        "at least one profile",
    );
    refused("[]", "", "must be an object");
}
