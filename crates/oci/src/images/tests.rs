use super::*;

fn packed(files: &[(&str, &str)]) -> Vec<u8> {
    let entries: Vec<(String, &[u8])> =
        files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes())).collect();
    archive::pack(&entries)
}

fn images(found: &Found) -> Vec<&str> {
    found.images.iter().map(String::as_str).collect()
}

#[test]
fn compose_files_name_their_images() {
    let text = "services:
  web: {image: 'nginx:${TAG:-1.27}'}
  press: {image: 'registry.example/press:${PRESS}'}
  other: {image: '${HOST}/x:1'}
  built: {build: .}
  odd: {image: 'a:${UNSET}'}
";
    let archive = packed(&[("p/compose.yaml", text), ("p/.env", "# x\nPRESS=1\nexport HOST='other.example'\n")]);
    let variables = BTreeMap::from([("PRESS".to_owned(), "2".to_owned())]);
    let found = of_compose(&archive, &variables).unwrap();
    assert_eq!(images(&found), ["nginx:1.27", "other.example/x:1", "registry.example/press:2"]);
    assert_eq!(found.unknown.len(), 1);
    assert!(found.unknown.first().unwrap().contains("`UNSET`"));
}

#[test]
fn charts_name_their_images_in_annotations_values_and_templates() {
    let chart = "apiVersion: v2
name: press
version: 1.0.0
appVersion: '3.1'
annotations:
  artifacthub.io/images: |
    - name: a
      image: registry.example/annotated:1
";
    let values = "image: {repository: registry.example/press, pullPolicy: Always}
sidecar:
  image: {registry: other.example, repository: side, tag: 2}
plain: {image: 'registry.example/plain:4'}
pinned: {image: {repository: x.example/pinned, tag: v1, digest: 'sha256:00'}}
git: {repository: 'https://example'}
source: {repository: no-image}
";
    let template =
        "spec:\n  - image: registry.example/literal:5 # pinned\n    image: \"{{ .Values.x }}\"\n  image: {{ $own }}\n";
    let archive = packed(&[
        ("press/Chart.yaml", chart),
        ("press/values.yaml", values),
        ("press/templates/a.yaml", template),
        ("press/charts/base/Chart.yaml", "apiVersion: v2\nname: base\nversion: 1.0.0\n"),
        ("press/charts/base/values.yaml", "image: registry.example/base:6\n"),
    ]);
    let found = of_chart(&archive).unwrap();
    assert_eq!(
        images(&found),
        [
            "other.example/side:2",
            "registry.example/annotated:1",
            "registry.example/base:6",
            "registry.example/literal:5",
            "registry.example/plain:4",
            "registry.example/press:3.1",
            "x.example/pinned@sha256:00",
        ]
    );
    assert_eq!(found.unknown.len(), 1, "{:?}", found.unknown);
}

#[test]
fn reports_an_invalid_archive() {
    assert!(of_chart(b"x").is_err());
    assert!(of_compose(&packed(&[("p/other.yaml", "")]), &BTreeMap::new()).is_err());
}

#[test]
fn images_of_manifests_are_those_of_their_containers() {
    let text = "
apiVersion: batch/v1
kind: CronJob
metadata: { name: a }
spec: { jobTemplate: { spec: { template: { spec: { initContainers: [{ image: 'r.example/init:1' }], containers: [{ image: 'r.example/job:2' }] } } } } }
---
apiVersion: v1
kind: ConfigMap
metadata: { name: a }
data: { image: not-one }
";
    let found = of_manifests(&packed(&[("p/manifests/a.yaml", text)])).unwrap();
    assert_eq!(found.images.into_iter().collect::<Vec<_>>(), ["r.example/init:1", "r.example/job:2"]);
    assert!(of_manifests(&packed(&[("p/a.yaml", text)])).is_err());
}
