use super::*;

const DOCUMENT: &str = "
apiVersion: margo.org/v1-alpha1
kind: ApplicationDeployment
metadata:
  name: press
  namespace: margo
  deviceId: press-07
id: a3e2f5dc-912e-494f-8395-52cf3769bc06
spec:
  applicationId: com-example-press
  deploymentProfile:
    type: compose
    components:
      - name: web
        properties: { repository: oci://registry.example/web, revision: 1.0.0 }
  parameters:
    mode: { value: fast, targets: [{ pointer: ENV.MODE, components: [web] }] }
    count: { value: 3, targets: [{ pointer: COUNT, components: [web, other] }] }
    list: { value: [a, b], targets: [{ pointer: LIST, components: [web] }] }
    elsewhere: { value: x, targets: [{ pointer: X, components: [other] }] }
";

fn document(text: &str) -> ApplicationDeployment {
    ApplicationDeployment::read(text.as_bytes()).unwrap().document
}

#[test]
fn parameters_become_the_variables_their_targets_name() {
    // PRM-02, W-24
    let variables = environment(&document(DOCUMENT), "web").unwrap();
    let expected = [("COUNT", "3"), ("LIST", "a,b"), ("MODE", "fast")];
    assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    for reserved in ["PATH", "DOCKER_HOST", "COMPOSE_FILE", "ENV."] {
        let text = DOCUMENT.replace("ENV.MODE", reserved);
        assert!(environment(&document(&text), "web").is_err(), "{reserved}");
    }
}

#[test]
fn telemetry_and_labels_go_to_every_service() {
    // OBS-05
    let unpacked = Unpacked { files: [("conf/a".to_owned(), b"1".to_vec())].into() };
    let project = |unpacked| Project { name: "p".to_owned(), folder: "/x".into(), unpacked, environment: Vec::new() };
    let model = Model {
        model: json!({
            "services": { "web": { "configs": [{ "source": "c" }] }, "side": {} },
            "configs": { "c": { "file": "/x/files/conf/a" } },
        }),
        folder: "/x/files".into(),
    };
    let telemetry = TelemetryConfig {
        http_endpoint: Some("http://10.0.0.1:4318".parse().unwrap()),
        certificate: Some("/etc/ca.pem".into()),
        protocol: Some("http/protobuf".to_owned()),
        ..TelemetryConfig::default()
    };
    let id: DeploymentId = "a3e2f5dc-912e-494f-8395-52cf3769bc06".parse().unwrap();
    let certificate = Some(Path::new("/x/collector-ca.pem"));
    let ours = project(unpacked.clone()).ours(&model, id, "web", &telemetry, certificate);
    for service in ["web", "side"] {
        let environment = &ours["services"][service]["environment"];
        assert_eq!(environment["HTTP_OTEL_EXPORTER_OTLP_ENDPOINT"], "http://10.0.0.1:4318");
        assert_eq!(environment["OTEL_EXPORTER_OTLP_CERTIFICATE"], CERTIFICATE_TARGET);
        assert_eq!(ours["services"][service]["labels"][names::DEPLOYMENT], id.to_string());
    }
    // Only the service that mounts a file has a label for its content.
    let before = &ours["services"]["web"]["labels"][names::FILES];
    assert!(before.is_string() && ours["services"]["side"]["labels"][names::FILES].is_null());
    let changed = Unpacked { files: [("conf/a".to_owned(), b"2".to_vec())].into() };
    let after = project(changed).ours(&model, id, "web", &telemetry, certificate);
    assert_ne!(&after["services"]["web"]["labels"][names::FILES], before);
}
