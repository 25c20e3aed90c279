use super::{AssembleInput, NAME_CHARS_MAX, assemble, kubernetes_name};
use crate::policy::Policy;
use indexmap::IndexMap;
use margo::constraints::DeviceConstraints;
use margo::deployment::ParameterValue;
use margo::description::{
    ApplicationDescription, Catalog, Component, ComponentProperties, ComponentSource, DeploymentProfile, Extensions,
    Metadata, ProfileType,
};
use margo::ids::{ApplicationId, DeploymentId, DeviceTarget};
use margo::parameters::Target;
use proptest::prelude::*;
use serde_json::json;

const ID: &str = "a3e2f5dc-912e-494f-8395-52cf3769bc06";

fn extensions(key: &str) -> Extensions {
    Extensions::from([(key.to_owned(), json!({ "from": key }))])
}

fn component(name: &str) -> Component {
    Component {
        name: name.into(),
        properties: ComponentProperties {
            source: ComponentSource::Oci {
                repository: format!("oci://registry.example/{name}"),
                revision: "1.0.0".into(),
            },
            wait: None,
            timeout: None,
        },
        extensions: extensions(&format!("x-{name}-extensions")),
    }
}

fn profile() -> DeploymentProfile {
    DeploymentProfile {
        profile_type: ProfileType::Helm,
        id: "helm".into(),
        description: None,
        components: vec![component("database"), component("application")],
        device_constraints: Some(DeviceConstraints {
            capacity: None,
            eligibility_rules: None,
            raw: json!({ "capacityRequirements": { "memory": "1Gi" }, "later": [1, 2] }),
        }),
        extensions: extensions("x-profile-extensions"),
    }
}

fn description() -> ApplicationDescription {
    ApplicationDescription {
        id: "digitron".parse().unwrap(),
        metadata: Metadata {
            name: "Digitron".into(),
            description: None,
            version: "1.2.3".into(),
            catalog: Catalog::default(),
        },
        deployment_profiles: vec![profile()],
        parameters: IndexMap::new(),
        configuration: None,
        extensions: extensions("x-root-extensions"),
    }
}

fn parameter(targets: &[(&str, &[&str])]) -> ParameterValue {
    let target = |(pointer, components): &(&str, &[&str])| Target {
        pointer: (*pointer).to_owned(),
        components: components.iter().map(|name| (*name).to_owned()).collect(),
    };
    ParameterValue { value: json!(7), targets: targets.iter().map(target).collect() }
}

fn assembled(parameters: IndexMap<String, ParameterValue>) -> margo::deployment::ApplicationDeployment {
    let (description, profile) = (description(), profile());
    let target: DeviceTarget = "gateway/press-07".parse().unwrap();
    let id: DeploymentId = ID.parse().unwrap();
    assemble(AssembleInput {
        id,
        target: &target,
        description: &description,
        profile: &profile,
        parameters,
        policy: Policy::default(),
    })
}

// AD-01
#[test]
fn keeps_the_components_of_the_profile_in_their_order() {
    assert_eq!(assembled(IndexMap::new()).spec.deployment_profile.components, profile().components);
}

// CON-03
#[test]
fn copies_constraints_unmodified() {
    assert_eq!(assembled(IndexMap::new()).spec.deployment_profile.device_constraints, profile().device_constraints);
}

// EXT-03
#[test]
fn copies_profile_and_component_extensions_but_not_root_extensions() {
    let deployment = assembled(IndexMap::new());
    assert_eq!(deployment.spec.deployment_profile.extensions, extensions("x-profile-extensions"));
    assert_eq!(deployment.spec.deployment_profile.components[0].extensions, extensions("x-database-extensions"));
    assert_eq!(deployment.spec.extensions, Extensions::new());
}

// PRM-03
#[test]
fn keeps_only_targets_of_components_in_the_profile() {
    let parameters = IndexMap::from([
        ("both".to_owned(), parameter(&[("a.b", &["database", "elsewhere"]), ("ENV", &["elsewhere"])])),
        ("foreign".to_owned(), parameter(&[("X", &["elsewhere"])])),
        ("plain".to_owned(), parameter(&[("c", &["application", "database"])])),
    ]);
    let expected = IndexMap::from([
        ("both".to_owned(), parameter(&[("a.b", &["database"])])),
        ("plain".to_owned(), parameter(&[("c", &["application", "database"])])),
    ]);
    assert_eq!(assembled(parameters).spec.parameters, expected);
}

// DEP-01, DS-04
#[test]
fn uses_the_given_ids() {
    let deployment = assembled(IndexMap::new());
    assert_eq!(deployment.id.to_string(), ID);
    assert_eq!(deployment.metadata.device_id.map(|target| target.to_string()), Some("gateway/press-07".to_owned()));
    assert_eq!(deployment.spec.application_id.as_str(), "digitron");
    assert_eq!(deployment.metadata.name, "digitron-a3e2f5dc");
    assert_eq!(deployment.metadata.namespace, "digitron-a3e2f5dc");
}

#[test]
fn names_an_application_id_of_only_dashes() {
    let name = |application: &str| kubernetes_name(&application.parse().unwrap(), ID.parse().unwrap());
    assert_eq!(name("---"), "application-a3e2f5dc");
    assert_eq!(name("-a-"), "a-a3e2f5dc");
}

proptest! {
    #[test]
    fn makes_valid_kubernetes_names(application in "[a-z0-9-]{1,200}", id: u128) {
        let application: ApplicationId = application.parse().unwrap();
        let id = DeploymentId(uuid::Uuid::from_u128(id));
        let name = kubernetes_name(&application, id);
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        prop_assert!(name.len() <= NAME_CHARS_MAX);
        prop_assert!(name.bytes().all(|b| inner(b) || b == b'-'));
        prop_assert!(name.bytes().next().is_some_and(inner));
        prop_assert!(name.bytes().last().is_some_and(inner));
        prop_assert_eq!(&name, &kubernetes_name(&application, id));
    }
}
