//! Against the published specification: its examples, and its OpenAPI schemas as an oracle for what we write.
//!
//! Runs when `MARGO_SPEC_DIR` names a folder with `examples/` and `openapi/`; then a missing file fails.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its case must fail")]

use margo::capabilities::{DeviceCapabilities, UnknownTypes};
use margo::deployment::ApplicationDeployment;
use margo::description::ApplicationDescription;
use margo::manifest::StateManifest;
use margo::node::Limits;
use margo::problem::{FieldError, Problem, ProblemType};
use margo::status::DeploymentStatus;
use margo::{Findings, Severity};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// `None` if the specification is not available, with a message.
fn spec_dir(test: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("MARGO_SPEC_DIR") else {
        eprintln!("skipped `{test}`: MARGO_SPEC_DIR is not set");
        return None;
    };
    Some(PathBuf::from(folder))
}

fn file(folder: &Path, name: &str) -> Vec<u8> {
    let path = folder.join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("list {}: {error}", folder.display()));
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(!names.is_empty(), "{} is empty", folder.display());
    names
}

/// Reads an example as what its name says, writes it, and reads that again.
fn read(name: &str, bytes: &[u8]) -> Result<(), Findings> {
    if name.starts_with("application-description") {
        let read = ApplicationDescription::read(bytes)?.document;
        let again = ApplicationDescription::read(read.to_yaml().as_bytes())?.document;
        assert_eq!(again, read, "{name}");
    } else if name.starts_with("application-deployment") {
        let read = ApplicationDeployment::read(bytes)?.document;
        let again = ApplicationDeployment::read(read.to_yaml().as_bytes())?.document;
        assert_eq!(again, read, "{name}");
    } else {
        panic!("no reader for {name}");
    }
    Ok(())
}

#[test]
fn published_valid_examples_are_accepted() {
    let Some(folder) = spec_dir("published_valid_examples_are_accepted") else { return };
    let folder = folder.join("examples/valid");
    let names = names(&folder);
    assert!(names.len() >= 7, "{names:?}");
    for name in names.iter().filter(|name| *name != "application-description-002.yaml") {
        let read = read(name, &file(&folder, name));
        assert!(read.is_ok(), "{name}: {}", read.unwrap_err());
    }
}

#[test]
fn the_broken_published_example_fails_at_its_line() {
    // §18 no. 9
    let Some(folder) = spec_dir("the_broken_published_example_fails_at_its_line") else { return };
    let bytes = file(&folder, "examples/valid/application-description-002.yaml");
    let findings = ApplicationDescription::read(&bytes).unwrap_err();
    assert_eq!(findings.0[0].line, Some(59));
    assert!(findings.to_string().contains("line 59"), "{findings}");
}

#[test]
fn published_invalid_examples_are_refused_for_their_reason() {
    let Some(folder) = spec_dir("published_invalid_examples_are_refused_for_their_reason") else { return };
    let folder = folder.join("examples/invalid");
    let reasons = [
        ("application-deployment-001.yaml", "kind", "must be an ApplicationDeployment"),
        ("application-deployment-002.yaml", "metadata.annotations.applicationId", "lower-case letters"),
        ("application-deployment-003.yaml", "metadata.annotations.applicationId", "1 to 200"),
        ("application-deployment-004.yaml", "id", "UUID"),
        ("application-description-001.yaml", "id", "lower-case letters"),
        ("application-description-002.yaml", "id", "lower-case letters"),
    ];
    assert_eq!(names(&folder), reasons.map(|(name, _, _)| name));
    for (name, path, words) in reasons {
        let findings = read(name, &file(&folder, name)).unwrap_err();
        let found = findings.0.iter().any(|finding| {
            finding.severity == Severity::Error && finding.path == path && finding.message.contains(words)
        });
        assert!(found, "{name}: {findings}");
        let errors: Vec<_> = findings.0.iter().filter(|finding| finding.severity == Severity::Error).collect();
        let allowed = if name == "application-deployment-004.yaml" { 2 } else { 1 };
        assert_eq!(errors.len(), allowed, "{name} is refused for other reasons too: {findings}");
    }
}

#[test]
fn samples_of_other_implementations_are_read_or_refused_without_trouble() {
    let Some(folder) = spec_dir("samples_of_other_implementations") else { return };
    let folder = folder.join("examples/other-implementations");
    for name in ["application-description-b-hello-world.yaml", "application-description-a1-compose-nextcloud.yaml"] {
        assert!(read(name, &file(&folder, name)).is_ok(), "{name}");
    }
    let nextcloud = file(&folder, "application-description-a1-compose-nextcloud.yaml");
    let warnings = ApplicationDescription::read(&nextcloud).unwrap().warnings;
    assert!(warnings.iter().any(|finding| finding.message.contains("must be at least 1024, is 80")), "W-23");
    let template = String::from_utf8(file(&folder, "application-description-a1-helm-otel.template.yaml")).unwrap();
    assert!(ApplicationDescription::read(template.as_bytes()).is_err(), "placeholders are not YAML");
    let filled = template.replace("{{HELM_REPOSITORY}}", "oci://r.example/c").replace("{{HELM_REVISION}}", "0.1.0");
    let warnings = ApplicationDescription::read(filled.as_bytes()).unwrap().warnings;
    assert!(warnings.iter().any(|finding| finding.message.contains("is a profile, not a component")), "W-23");
    for name in ["device-capabilities-b-with-envelope.json", "device-capabilities-a1-early.json"] {
        let read = DeviceCapabilities::read(&file(&folder, name), UnknownTypes::Refuse);
        assert!(read.is_ok(), "{name}: {}", read.unwrap_err());
    }
    // W-22: an id that is no UUID cannot be mapped; it is refused with its reason.
    let name = "application-deployment-a-compose-two-components.yaml";
    assert!(read(name, &file(&folder, name)).unwrap_err().to_string().contains("UUID"));
}

/// One correction of the published schemas: which schema, why (requirements §18), and what changes.
struct Correction {
    schema: &'static str,
    reason: &'static str,
    apply: fn(&mut Value),
}

const CORRECTIONS: [Correction; 3] = [
    Correction {
        schema: "UnsignedAppStateManifest",
        reason: "§18 no. 1: `required` holds dotted names as if they were keys",
        apply: |schema| {
            retain_required(schema, |name| !name.contains('.'));
            schema["properties"]["bundle"] = json!({"oneOf": [
                {"type": "null"},
                {"$ref": "#/components/schemas/DeploymentBundleRef", "type": "object",
                 "required": ["mediaType", "digest", "url"]},
            ]});
        },
    },
    Correction {
        schema: "appDeploymentMetadata",
        reason: "§18 no. 2: `annotations` is required although the field is gone",
        apply: |schema| retain_required(schema, |name| name != "annotations"),
    },
    Correction {
        schema: "appDeploymentProfile",
        reason: "§18 no. 3: the enumeration of types lacks `custom`",
        apply: |schema| schema["properties"]["type"]["enum"] = json!(["helm", "compose", "custom"]),
    },
];

fn retain_required(schema: &mut Value, keep: impl Fn(&str) -> bool) {
    let required = schema["required"].as_array_mut().expect("the published schema lists what is required");
    let before = required.len();
    required.retain(|name| keep(name.as_str().expect("names are text")));
    assert!(required.len() < before, "the correction is no longer needed");
}

/// The published OpenAPI document, which is plain YAML.
fn openapi(folder: &Path) -> Value {
    let bytes = file(folder, "openapi/workload-management-api-1.0.0-rc.3.yaml");
    margo::yaml::parse(&bytes, Limits::DOCUMENT).unwrap().to_value().unwrap()
}

fn validator(api: &Value, schema: &str) -> jsonschema::Validator {
    let root = json!({"$ref": format!("#/components/schemas/{schema}"), "components": api["components"]});
    jsonschema::draft202012::new(&root).unwrap()
}

fn corrected(folder: &Path) -> Value {
    let mut api = openapi(folder);
    for correction in CORRECTIONS {
        (correction.apply)(&mut api["components"]["schemas"][correction.schema]);
    }
    api
}

fn check(api: &Value, schema: &str, instance: &Value) {
    let errors: Vec<_> = validator(api, schema)
        .iter_errors(instance)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{schema}: {errors:#?}\n{instance:#}");
}

fn from_yaml(text: &str) -> Value {
    margo::yaml::parse(text.as_bytes(), Limits::DOCUMENT).unwrap().to_value().unwrap()
}

fn from_json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn what_we_write_fits_the_published_schemas() {
    let Some(folder) = spec_dir("what_we_write_fits_the_published_schemas") else { return };
    let api = corrected(&folder);
    let manifest = StateManifest::read(include_bytes!("fixtures/manifest.json")).unwrap().document;
    check(&api, "UnsignedAppStateManifest", &from_json(&manifest.to_json()));
    let empty = StateManifest { manifest_version: 1, bundle: None, deployments: Vec::new() };
    check(&api, "UnsignedAppStateManifest", &from_json(&empty.to_json()));
    for fixture in [
        include_bytes!("fixtures/capabilities-b.json").as_slice(),
        include_bytes!("fixtures/capabilities-a1.json"),
        include_bytes!("fixtures/capabilities-gateway.json"),
    ] {
        let capabilities = DeviceCapabilities::read(fixture, UnknownTypes::Refuse).unwrap().document;
        check(&api, "DeviceCapabilitiesManifest", &from_json(&capabilities.to_json()));
    }
    let status = DeploymentStatus::read(include_bytes!("fixtures/status.json")).unwrap().document;
    check(&api, "DeploymentStatusManifest", &from_json(&status.to_json()));
    for problem_type in ProblemType::REGISTERED.into_iter().chain([ProblemType::Blank]) {
        let errors = vec![FieldError { field: "properties.id".to_owned(), message: "differs".to_owned() }];
        let problem = Problem::new(problem_type, 503, "later").with_errors(errors);
        check(&api, "ProblemDetail", &from_json(&problem.to_json()));
    }
}

#[test]
fn deployments_we_write_fit_the_published_schema() {
    let Some(folder) = spec_dir("deployments_we_write_fit_the_published_schema") else { return };
    let api = corrected(&folder);
    let own = include_str!("fixtures/deployment-b.yaml");
    // §18 no. 9: the published Helm example has `wait` as text; what we write is right.
    let published = file(&folder, "examples/valid/application-deployment-001.yaml");
    let custom = own.replacen("type: compose", "type: custom", 1);
    for bytes in [own.as_bytes(), &published, custom.as_bytes()] {
        let deployment = ApplicationDeployment::read(bytes).unwrap().document;
        check(&api, "appDeploymentManifest", &from_yaml(&deployment.to_yaml()));
    }
    let constraints = include_bytes!("fixtures/description-b.yaml").as_slice();
    for bytes in [constraints, include_bytes!("fixtures/description-a.yaml")] {
        for profile in ApplicationDescription::read(bytes).unwrap().document.deployment_profiles {
            if let Some(constraints) = profile.device_constraints {
                check(&api, "DeviceConstraints", &constraints.raw);
            }
        }
    }
}

#[test]
fn every_correction_is_still_needed() {
    let Some(folder) = spec_dir("every_correction_is_still_needed") else { return };
    let api = openapi(&folder);
    let manifest = StateManifest::read(include_bytes!("fixtures/manifest.json")).unwrap().document;
    let custom = include_str!("fixtures/deployment-b.yaml").replacen("type: compose", "type: custom", 1);
    let deployment = from_yaml(&ApplicationDeployment::read(custom.as_bytes()).unwrap().document.to_yaml());
    let wrongly_refused = [
        ("UnsignedAppStateManifest", from_json(&manifest.to_json())),
        ("appDeploymentMetadata", deployment["metadata"].clone()),
        ("appDeploymentProfile", deployment["spec"]["deploymentProfile"].clone()),
    ];
    for (correction, (schema, instance)) in CORRECTIONS.iter().zip(wrongly_refused) {
        assert_eq!(correction.schema, schema);
        assert!(!validator(&api, schema).is_valid(&instance), "no longer needed: {}", correction.reason);
    }
}

#[test]
fn the_oracle_refuses_what_is_wrong() {
    let Some(folder) = spec_dir("the_oracle_refuses_what_is_wrong") else { return };
    let api = corrected(&folder);
    for (schema, instance) in [
        ("UnsignedAppStateManifest", json!({"manifestVersion": 1, "deployments": []})),
        ("DeviceCapabilitiesManifest", json!({"properties": {"id": "a"}})),
        ("DeploymentStatusManifest", json!({"deploymentId": "a", "status": {"state": "done"}, "components": []})),
        ("appDeploymentManifest", json!({"metadata": {}, "spec": {}})),
        ("ProblemDetail", json!({"title": "x"})),
    ] {
        assert!(!validator(&api, schema).is_valid(&instance), "{schema}");
    }
}
