//! Every document that is written reads back as the same value, and is written as the same bytes again.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its case must fail")]

use indexmap::IndexMap;
use margo::capabilities::{Cpu, DeviceCapabilities, DeviceProperties, Interface, Peripheral, UnknownTypes};
use margo::constraints::DeviceConstraints;
use margo::deployment::{ApplicationDeployment, DeployedProfile, DeploymentMetadata, DeploymentSpec, ParameterValue};
use margo::description::{
    ApplicationDescription, ApplicationMetadata, Author, Catalog, Component, ComponentProperties, ComponentSource,
    DeploymentProfile, Extensions, Metadata, Organization, ProfileType, Timeout,
};
use margo::manifest::{BUNDLE_MEDIA_TYPE, BundleRef, DeploymentRef, StateManifest, bundle_url, deployment_url};
use margo::parameters::{Configuration, DataType, Parameter, Schema, Section, Setting, Target};
use margo::problem::{BackoffStrategy, FieldError, Problem};
use margo::status::{ComponentStatus, DeploymentStatus, State, StatusError};
use margo::{DeploymentId, Digest};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// Text with everything that breaks printers, including `\0` and similar.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{1,20}",
        "\\PC{1,10}",
        any::<String>(),
        select(vec![
            "yes", "null", "~", "1.10", "012", "0x1f", "- a", "a: b", "#", "", " ", "\n", "'", "\"", "<<", "true"
        ])
        .prop_map(str::to_owned),
    ]
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9-]{1,12}"
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
    ]
}

fn extensions() -> impl Strategy<Value = Extensions> {
    let object = prop::collection::hash_map(text(), prop_oneof![scalar(), Just(Value::Null)], 0..3)
        .prop_map(|members| Value::Object(members.into_iter().collect()));
    vec(("x-[a-z][a-z0-9-]{0,6}-extensions", object), 0..3).prop_map(IndexMap::from_iter)
}

fn profile_type() -> impl Strategy<Value = ProfileType> {
    select(vec![ProfileType::Helm, ProfileType::Compose, ProfileType::Custom])
}

fn revision() -> impl Strategy<Value = String> {
    (0_u64..99, 0_u64..99, any::<u64>(), of("[a-z][a-z0-9]{0,5}"), of("[a-z0-9]{1,5}")).prop_map(
        |(major, minor, patch, pre, build)| {
            let pre = pre.map(|pre| format!("-{pre}")).unwrap_or_default();
            let build = build.map(|build| format!("_{build}")).unwrap_or_default();
            format!("{major}.{minor}.{patch}{pre}{build}")
        },
    )
}

fn component(name: String) -> impl Strategy<Value = Component> {
    let seconds = 0_u64..100_000;
    (revision(), "oci://[a-z.:/0-9]{1,20}", any::<Option<bool>>(), of(seconds), extensions()).prop_map(
        move |(revision, repository, wait, seconds, extensions)| Component {
            name: name.clone(),
            properties: ComponentProperties {
                source: ComponentSource::Oci { repository, revision },
                wait,
                timeout: seconds.map(|seconds| Timeout { seconds }),
            },
            extensions,
        },
    )
}

fn components() -> impl Strategy<Value = Vec<Component>> {
    prop::collection::btree_set(name(), 1..4)
        .prop_flat_map(|names| names.into_iter().map(component).collect::<Vec<_>>())
        .prop_shuffle()
}

/// Constraints come from documents, so they are created by reading one.
fn constraints() -> impl Strategy<Value = Option<DeviceConstraints>> {
    let expression = prop_oneof![
        ("/[a-z]{1,5}", vec("[ -~]{1,6}", 1..3))
            .prop_map(|(key, values)| json!({"key": key, "operator": "In", "values": values})),
        ("/[a-z]{1,5}", any::<f64>())
            .prop_filter("finite", |(_, number)| number.is_finite())
            .prop_map(|(key, number)| json!({"key": key, "operator": "Gt", "values": [number]})),
        "/[a-z]{1,5}".prop_map(|key| json!({"key": key, "operator": "ContainsAny", "itemSelector": {
            "matchExpressions": [{"key": "/type", "operator": "Exists"}]}})),
    ];
    let value = (0.1_f64..64.0, 1_u32..99, vec(expression, 1..3)).prop_map(|(cores, memory, expressions)| {
        json!({
            "capacityRequirements": {"cpu": {"cores": cores, "architectures": ["arm64"]}, "memory": format!("{memory}Mi")},
            "eligibilityRules": [{"propertySelector": {"matchExpressions": expressions}}],
        })
    });
    of(value.prop_map(|value| {
        let description = json!({
            "apiVersion": "v1", "id": "a", "metadata": {"name": "a", "version": "1", "catalog": {"organization": []}},
            "deploymentProfiles": [{"type": "helm", "id": "p", "deviceConstraints": value, "components": [
                {"name": "c", "properties": {"repository": "oci://r/c", "revision": "1.0.0"}}]}],
        });
        let mut read = ApplicationDescription::read(description.to_string().as_bytes()).unwrap();
        read.document.deployment_profiles.remove(0).device_constraints.unwrap()
    }))
}

fn targets(components: &[String]) -> impl Strategy<Value = Vec<Target>> + use<> {
    let components = components.to_vec();
    vec((text(), vec(select(components), 0..3)), 0..3)
        .prop_map(|targets| targets.into_iter().map(|(pointer, components)| Target { pointer, components }).collect())
}

fn catalog() -> impl Strategy<Value = Catalog> {
    let application = (vec(of(text()), 6), vec(text(), 0..3)).prop_map(|(mut fields, tags)| {
        let mut next = || fields.pop().flatten();
        ApplicationMetadata {
            description_file: next(),
            icon: next(),
            license_file: next(),
            release_notes: next(),
            site: next(),
            tagline: next(),
            tags,
        }
    });
    let author = (of(text()), of("[a-z]{1,5}@[a-z.]{0,5}")).prop_map(|(name, email)| Author { name, email });
    let organization = (text(), of(text())).prop_map(|(name, site)| Organization { name, site });
    (of(application), vec(author, 0..3), vec(organization, 0..3))
        .prop_map(|(application, author, organization)| Catalog { application, author, organization })
}

fn schema(name: String) -> impl Strategy<Value = Schema> {
    let bounds = || of((0.0_f64..10.0, 10.0_f64..1e6));
    let lengths = || of((0_u64..10, 10_u64..99));
    (
        select(DataType::ALL.to_vec()),
        any::<[bool; 2]>(),
        lengths(),
        bounds(),
        lengths(),
        of("[a-z]{1,5}"),
        any::<bool>(),
    )
        .prop_map(
            move |(data_type, [allow_empty, sensitive], length, value, precision, regex_match, multiselect)| Schema {
                name: name.clone(),
                data_type,
                allow_empty,
                min_length: length.map(|(min, _)| min),
                max_length: length.map(|(_, max)| max),
                regex_match,
                min_value: value.map(|(min, _)| min),
                max_value: value.map(|(_, max)| max),
                min_precision: precision.map(|(min, _)| min),
                max_precision: precision.map(|(_, max)| max),
                multiselect,
                options: multiselect.then(|| match data_type.element() {
                    DataType::Integer => vec![json!(1), json!(u64::MAX)],
                    DataType::Double => vec![json!(0.5)],
                    DataType::Boolean => vec![json!(true)],
                    _ => vec![json!("a"), json!("yes")],
                }),
                sensitive,
            },
        )
}

fn configuration(parameters: Vec<String>) -> impl Strategy<Value = Configuration> {
    prop::collection::btree_set(text(), 1..3)
        .prop_flat_map(move |names| {
            let names: Vec<String> = names.into_iter().collect();
            let setting = (select(parameters.clone()), text(), of(text()), any::<bool>(), select(names.clone()))
                .prop_map(|(parameter, name, description, immutable, schema)| Setting {
                    parameter,
                    name,
                    description,
                    immutable,
                    schema,
                });
            let section = (text(), vec(setting, 0..3)).prop_map(|(name, settings)| Section { name, settings });
            (vec(section, 0..3), names.into_iter().map(schema).collect::<Vec<_>>())
        })
        .prop_map(|(sections, schema)| Configuration { sections, schema })
}

fn description() -> impl Strategy<Value = ApplicationDescription> {
    let profile = (profile_type(), of(text()), components(), constraints(), extensions());
    (name(), text(), of(text()), "[0-9.]{1,6}", catalog(), vec(profile, 1..3), extensions())
        .prop_flat_map(|(id, name, description, version, catalog, profiles, extensions)| {
            let profiles: Vec<DeploymentProfile> = profiles
                .into_iter()
                .enumerate()
                .map(|(index, (profile_type, description, components, device_constraints, extensions))| {
                    DeploymentProfile {
                        profile_type,
                        id: format!("profile {index}"),
                        description,
                        components,
                        device_constraints,
                        extensions,
                    }
                })
                .collect();
            let names: Vec<String> = profiles
                .iter()
                .flat_map(|profile| profile.components.iter().map(|component| component.name.clone()))
                .collect();
            let value = of(prop_oneof![scalar(), vec(scalar(), 0..3).prop_map(Value::from)]);
            let parameter = (value, targets(&names)).prop_map(|(value, targets)| Parameter { value, targets });
            let parameters = prop::collection::hash_map(text(), parameter, 1..4);
            let rest =
                (Just(id), Just(Metadata { name, description, version, catalog }), Just(profiles), Just(extensions));
            (rest, parameters)
        })
        .prop_flat_map(|(rest, parameters)| {
            let names: Vec<String> = parameters.keys().cloned().collect();
            (Just(rest), Just(parameters), of(configuration(names)))
        })
        .prop_map(|((id, metadata, deployment_profiles, extensions), parameters, configuration)| {
            ApplicationDescription {
                id: id.parse().unwrap(),
                metadata,
                deployment_profiles,
                parameters: parameters.into_iter().collect(),
                configuration,
                extensions,
            }
        })
}

fn deployment_id() -> impl Strategy<Value = DeploymentId> {
    any::<u128>().prop_map(|number| DeploymentId(uuid::Uuid::from_u128(number)))
}

fn device_id() -> impl Strategy<Value = String> {
    "[A-Za-z0-9._~-]{1,8}(/[A-Za-z0-9._~-]{1,8}){0,2}"
}

fn deployment() -> impl Strategy<Value = ApplicationDeployment> {
    let metadata = (text(), text(), device_id(), any::<bool>(), prop::collection::hash_map(text(), text(), 0..3))
        .prop_map(|(name, namespace, device, autonomous, labels)| DeploymentMetadata {
            name,
            namespace,
            device_id: Some(format!("{device}{}", if autonomous { "/*" } else { "" }).parse().unwrap()),
            labels: labels.into_iter().collect(),
        });
    let profile = (profile_type(), components(), constraints(), extensions()).prop_map(
        |(profile_type, components, device_constraints, extensions)| DeployedProfile {
            profile_type,
            components,
            device_constraints,
            extensions,
        },
    );
    (deployment_id(), metadata, name(), profile, extensions())
        .prop_flat_map(|(id, metadata, application, profile, extensions)| {
            let names: Vec<String> = profile.components.iter().map(|component| component.name.clone()).collect();
            let parameter = (scalar(), targets(&names)).prop_map(|(value, targets)| ParameterValue { value, targets });
            let parameters = prop::collection::hash_map(text(), parameter, 0..4);
            (Just((id, metadata, application, profile, extensions)), parameters)
        })
        .prop_map(|((id, metadata, application, deployment_profile, extensions), parameters)| ApplicationDeployment {
            id,
            metadata,
            spec: DeploymentSpec {
                application_id: application.parse().unwrap(),
                deployment_profile,
                parameters: parameters.into_iter().collect(),
                extensions,
            },
        })
}

fn capabilities() -> impl Strategy<Value = DeviceCapabilities> {
    let cpu = (0.1_f64..256.0, of(select(vec!["amd64", "arm64", "arm"])))
        .prop_map(|(cores, architecture)| Cpu { cores, architecture: architecture.map(str::to_owned) });
    let peripheral = (select(vec!["gpu", "camera"]), of(text()), of(text()))
        .prop_map(|(kind, manufacturer, model)| Peripheral { kind: kind.to_owned(), manufacturer, model });
    let interface = select(vec!["wifi", "canbus"]).prop_map(|kind| Interface { kind: kind.to_owned() });
    let hosting =
        (vec(cpu, 0..3), "[0-9]{1,4}(Mi|Gi)", text(), vec(peripheral, 0..3), vec(interface, 0..3), any::<bool>());
    let label =
        prop_oneof![scalar(), vec(text(), 0..3).prop_map(Value::from), vec(any::<u64>(), 1..3).prop_map(Value::from)];
    let labels = prop::collection::hash_map(text(), label, 0..4);
    (device_id(), text(), text(), text(), of(hosting), labels, extensions()).prop_map(
        |(id, vendor, model_number, serial_number, hosting, labels, extensions)| {
            let mut properties = DeviceProperties {
                id: id.parse().unwrap(),
                vendor,
                model_number,
                serial_number,
                cpus: None,
                memory: None,
                storage: None,
                peripherals: None,
                interfaces: None,
                otel_collector: None,
                supported_runtimes: None,
                supported_deployment_types: None,
            };
            if let Some((cpus, memory, storage, peripherals, interfaces, otel_collector)) = hosting {
                properties.cpus = Some(cpus);
                properties.memory = Some(memory);
                properties.storage = Some(margo::quantity::without_blanks(&storage));
                properties.peripherals = Some(peripherals);
                properties.interfaces = Some(interfaces);
                properties.otel_collector = Some(otel_collector);
                properties.supported_runtimes = Some(vec!["oci".to_owned(), "custom".to_owned()]);
                properties.supported_deployment_types = Some(vec!["compose".to_owned()]);
            }
            let labels = labels.into_iter().collect();
            let mut capabilities = DeviceCapabilities { properties, labels, extensions, raw_properties: Value::Null };
            let written: Value = serde_json::from_slice(&capabilities.to_json()).unwrap();
            capabilities.raw_properties = written["properties"].clone();
            capabilities
        },
    )
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<u64>().prop_map(|seed| Digest::of(&seed.to_le_bytes()))
}

fn manifest() -> impl Strategy<Value = StateManifest> {
    let deployments = prop::collection::hash_map(any::<u128>(), (digest(), any::<Option<u64>>()), 0..5);
    (1_u64.., of((digest(), any::<Option<u64>>())), deployments).prop_map(|(manifest_version, bundle, deployments)| {
        StateManifest {
            manifest_version,
            bundle: bundle.map(|(digest, size_bytes)| BundleRef {
                media_type: BUNDLE_MEDIA_TYPE.to_owned(),
                url: bundle_url(&digest),
                digest,
                size_bytes,
            }),
            deployments: deployments
                .into_iter()
                .map(|(number, (digest, size_bytes))| {
                    let deployment_id = DeploymentId(uuid::Uuid::from_u128(number));
                    DeploymentRef { deployment_id, url: deployment_url(deployment_id, &digest), digest, size_bytes }
                })
                .collect(),
        }
    })
}

fn status() -> impl Strategy<Value = DeploymentStatus> {
    let state = || select(State::ALL.to_vec());
    let error = || {
        of(("[A-Z0-9]{1,6}", text(), text()).prop_map(|(code, source, message)| StatusError { code, source, message }))
    };
    let component = (text(), state(), error()).prop_map(|(name, state, error)| ComponentStatus { name, state, error });
    (deployment_id(), of(device_id()), any::<u64>(), state(), error(), vec(component, 0..4)).prop_map(
        |(deployment_id, device_id, adopted_manifest_version, state, error, components)| DeploymentStatus {
            deployment_id,
            device_id: device_id.map(|id| id.parse().unwrap()),
            adopted_manifest_version,
            state,
            error,
            components,
        },
    )
}

fn problem() -> impl Strategy<Value = Problem> {
    let error = (text(), text()).prop_map(|(field, message)| FieldError { field, message });
    let rest = (of(text()), of(text()), any::<Option<bool>>(), any::<Option<u64>>());
    (text(), text(), any::<Option<u16>>(), rest, of(select(BackoffStrategy::ALL.to_vec())), vec(error, 0..3)).prop_map(
        |(
            problem_type,
            title,
            status,
            (detail, instance, retryable, retry_after_seconds),
            backoff_strategy,
            errors,
        )| Problem {
            problem_type,
            title,
            status,
            detail,
            instance,
            retryable,
            retry_after_seconds,
            backoff_strategy,
            errors,
        },
    )
}

proptest! {
    #[test]
    fn a_written_description_reads_back(description in description()) {
        let yaml = description.to_yaml();
        let read = ApplicationDescription::read(yaml.as_bytes());
        let read = read.map_err(|findings| TestCaseError::fail(format!("{findings}\n{yaml}")))?;
        prop_assert_eq!(read.document.to_yaml(), yaml);
        prop_assert_eq!(read.document, description);
    }

    #[test]
    fn a_written_deployment_reads_back(deployment in deployment()) {
        let yaml = deployment.to_yaml();
        let read = ApplicationDeployment::read(yaml.as_bytes());
        let read = read.map_err(|findings| TestCaseError::fail(format!("{findings}\n{yaml}")))?;
        prop_assert_eq!(&read.warnings, &[], "{}", yaml);
        prop_assert_eq!(read.document.to_yaml(), yaml);
        prop_assert_eq!(read.document, deployment);
    }

    #[test]
    fn written_capabilities_read_back(capabilities in capabilities()) {
        let json = capabilities.to_json();
        let read = DeviceCapabilities::read(&json, UnknownTypes::Refuse).unwrap().document;
        prop_assert_eq!(read.to_json(), json);
        prop_assert_eq!(read, capabilities);
    }

    #[test]
    fn a_written_manifest_reads_back(manifest in manifest()) {
        let json = manifest.to_json();
        let read = StateManifest::read(&json).unwrap().document;
        prop_assert_eq!(read.to_json(), json);
        prop_assert_eq!(read, manifest);
    }

    #[test]
    fn a_written_status_reads_back(status in status()) {
        let json = status.to_json();
        let read = DeploymentStatus::read(&json).unwrap().document;
        prop_assert_eq!(read.to_json(), json);
        prop_assert_eq!(read, status);
    }

    #[test]
    fn a_written_problem_reads_back(problem in problem()) {
        let json = problem.to_json();
        let read = Problem::read(&json).unwrap();
        prop_assert_eq!(&read.warnings, &[]);
        prop_assert_eq!(read.document, problem);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in vec(any::<u8>(), 0..200), text in "[-a-z0-9:{}\\[\\]\", \n]{0,200}") {
        for input in [bytes.as_slice(), text.as_bytes()] {
            prop_assert!(ApplicationDescription::read(input).is_err());
            prop_assert!(ApplicationDeployment::read(input).is_err());
            prop_assert!(StateManifest::read(input).is_err());
            prop_assert!(DeploymentStatus::read(input).is_err());
            prop_assert!(DeviceCapabilities::read(input, UnknownTypes::Custom).is_err());
            let _ = Problem::read(input);
            prop_assert!(margo::trust_bundle::TrustBundle::read(input).is_err());
            prop_assert!(margo::archive::unpack(input, margo::bundle::BUNDLE_LIMITS).is_err());
        }
    }
}
