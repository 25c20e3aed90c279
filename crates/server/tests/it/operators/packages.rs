//! A sample package: two profiles, parameters of every relevant kind, two versions.

use margo::package::{Package, PackageFile};
use margrave_api::applications::Imported;
use margrave_api::client::ApiClient;

pub(super) const ID: &str = "press-vision";
const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\"/>";

/// Version 2.0.0 drops the parameter `legacy`, adds `mode`, and moves the supplier's own `image`.
pub(super) fn description(version: &str) -> String {
    let second = version.starts_with('2');
    let (name, question) = if second { ("mode", "Mode") } else { ("legacy", "Legacy") };
    let image = if second { "vision:2" } else { "vision:1" };
    format!(
        "\
apiVersion: v1
id: press-vision
metadata:
  name: Press vision
  version: {version}
  catalog:
    application:
      icon: resources/icon.svg
      tagline: Watches the press
    organization:
      - name: Example Vision
deploymentProfiles:
  - type: compose
    id: small
    components:
      - name: vision
        properties:
          repository: oci://registry.example/vision
          revision: 1.0.0
    deviceConstraints:
      capacityRequirements:
        cpu:
          cores: 2
          architectures: [amd64]
        memory: 2Gi
  - type: helm
    id: cluster
    components:
      - name: vision
        properties:
          repository: oci://registry.example/vision-chart
          revision: 1.0.0
    deviceConstraints:
      eligibilityRules:
        - labelSelector:
            matchExpressions:
              - key: site
                operator: In
                values: [nord]
parameters:
  greeting:
    value: hello
    targets:
      - pointer: GREETING
        components: [vision]
  interval:
    value: 60
    targets:
      - pointer: INTERVAL
        components: [vision]
  password:
    targets:
      - pointer: PASSWORD
        components: [vision]
  site:
    value: plant
    targets:
      - pointer: SITE
        components: [vision]
  image:
    value: {image}
    targets:
      - pointer: IMAGE
        components: [vision]
  {name}:
    value: normal
    targets:
      - pointer: MODE
        components: [vision]
configuration:
  sections:
    - name: General
      settings:
        - parameter: greeting
          name: Greeting
          schema: short
        - parameter: interval
          name: Interval
          schema: seconds
        - parameter: site
          name: Site
          immutable: true
          schema: short
        - parameter: {name}
          name: {question}
          schema: short
    - name: Access
      settings:
        - parameter: password
          name: Password
          schema: secret
  schema:
    - name: short
      dataType: string
      maxLength: 20
    - name: seconds
      dataType: integer
      minValue: 10
      maxValue: 3600
    - name: secret
      dataType: string
      minLength: 8
      sensitive: true
"
    )
}

pub(super) fn files(version: &str) -> Vec<(String, Vec<u8>)> {
    vec![
        ("margo.yaml".to_owned(), description(version).into_bytes()),
        ("resources/icon.svg".to_owned(), ICON.as_bytes().to_vec()),
    ]
}

pub(super) fn pack(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let entries: Vec<(String, &[u8])> = files.iter().map(|(path, bytes)| (path.clone(), bytes.as_slice())).collect();
    margo::archive::pack(&entries)
}

pub(super) fn package(version: &str) -> Package {
    let files: Vec<PackageFile> = files(version).into_iter().map(|(path, bytes)| PackageFile { path, bytes }).collect();
    margo::package::read(&files).unwrap().document
}

pub(super) async fn upload(api: &ApiClient, version: &str) -> Imported {
    api.upload_application(pack(&files(version)), Some("a folder"), None).await.unwrap()
}

/// The package as the files of an OCI layout.
pub(super) fn layout(packages: &[(&str, Package)]) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec())];
    let mut manifests = Vec::new();
    for (tag, package) in packages {
        let (manifest, blobs) = margo::package::to_oci(package);
        let digest = margo::Digest::of(&manifest);
        manifests.push(serde_json::json!({
            "mediaType": margo::package::OCI_MANIFEST_MEDIA_TYPE,
            "artifactType": margo::package::APP_ARTIFACT_TYPE,
            "digest": digest, "size": manifest.len(),
            "annotations": { "org.opencontainers.image.ref.name": tag },
        }));
        for (digest, bytes) in blobs.into_iter().chain([(digest, manifest)]) {
            let path = format!("blobs/sha256/{}", digest.hex());
            if !files.iter().any(|(known, _)| *known == path) {
                files.push((path, bytes));
            }
        }
    }
    let index = serde_json::json!({ "schemaVersion": 2, "manifests": manifests });
    files.push(("index.json".to_owned(), index.to_string().into_bytes()));
    files
}
