//! The charts and objects the tests deploy.

use margo::package::PackageFile;

pub(crate) fn files(files: &[(&str, String)]) -> Vec<PackageFile> {
    let file =
        |(path, text): &(&str, String)| PackageFile { path: (*path).to_owned(), bytes: text.clone().into_bytes() };
    files.iter().map(file).collect()
}

/// A workload that shows all its values in a ConfigMap.
const WORKLOAD: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  release: "{{ .Release.Namespace }}/{{ .Release.Name }}"
  values: {{ omit .Values "global" "panel" | toJson | quote }}
  pin: {{ get (.Values.settings | default dict) "pin" | quote }}
  ports: {{ get (.Values.settings | default dict) "ports" | default list | join " " | quote }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels: { app: "{{ .Release.Name }}" }
  template:
    metadata:
      labels: { app: "{{ .Release.Name }}" }
    spec:
      terminationGracePeriodSeconds: 0
      automountServiceAccountToken: false
      containers:
        - name: web
          image: {{ .Values.image | quote }}
          imagePullPolicy: {{ .Values.pull }}
          command: ["/bin/sh", "-c", {{ .Values.command | quote }}]
          env:
            - { name: MODE, value: {{ .Values.mode | quote }} }
          readinessProbe:
            exec: { command: ["/bin/test", "-e", "/ready"] }
            periodSeconds: 1
"#;

fn chart_yaml(version: &str) -> String {
    format!("apiVersion: v2\nname: web\ndescription: A workload for tests.\ntype: application\nversion: {version}\n")
}

/// The usual chart.
pub(crate) fn web(version: &str, image: &str) -> Vec<(&'static str, String)> {
    with_values(version, &format!("image: {image}\n"))
}

/// The usual chart with other values where it matters: `image`, `pull`, `replicas`, `mode`, `command`.
pub(crate) fn with_values(version: &str, values: &str) -> Vec<(&'static str, String)> {
    let mut text = values.to_owned();
    for usual in [
        "image: margrave.test/shell:1",
        "pull: IfNotPresent",
        "replicas: 1",
        "mode: none",
        "command: echo it is up; touch /ready; sleep 1000000",
    ] {
        let (name, _) = usual.split_once(':').unwrap();
        if !values.lines().any(|line| line.starts_with(&format!("{name}:"))) {
            text.push_str(usual);
            text.push('\n');
        }
    }
    vec![("Chart.yaml", chart_yaml(version)), ("values.yaml", text), ("templates/workload.yaml", WORKLOAD.to_owned())]
}

/// The usual chart and one more template.
pub(crate) fn with_template(version: &str, template: &str) -> Vec<(&'static str, String)> {
    let mut files = web(version, "margrave.test/shell:1");
    files.push(("templates/more.yaml", template.to_owned()));
    files
}

/// The usual chart with a subchart that shows its values.
pub(crate) fn with_chart_inside(version: &str, image: &str) -> Vec<(&'static str, String)> {
    let inner = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: {{ .Release.Name }}-panel }\n\
                 data: { port: {{ .Values.port | quote }}, line: {{ .Values.global.line | quote }} }\n";
    let mut files = web(version, image);
    files.push(("charts/panel/Chart.yaml", "apiVersion: v2\nname: panel\nversion: 0.1.0\n".to_owned()));
    files.push(("charts/panel/values.yaml", "port: 1\nglobal: { line: 1 }\n".to_owned()));
    files.push(("charts/panel/templates/panel.yaml", inner.to_owned()));
    files
}

/// Plain manifests that make the same workload.
pub(crate) fn objects(image: &str) -> String {
    format!("{}---\n{}", config_map("web", "none"), deployment(image))
}

/// A custom kind: `Press`, `presses`, in the group `plant.example`.
pub(crate) fn definition(kind: &str, plural: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{ name: {plural}.plant.example }}\n\
         spec:\n  group: plant.example\n  scope: Namespaced\n  names: {{ kind: {kind}, plural: {plural} }}\n  \
         versions:\n    - name: v1\n      served: true\n      storage: true\n      \
         schema: {{ openAPIV3Schema: {{ type: object }} }}\n"
    )
}

pub(crate) fn config_map(name: &str, mode: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: {name} }}\ndata: {{ mode: {mode} }}\n")
}

pub(crate) fn deployment(image: &str) -> String {
    format!(
        r#"apiVersion: apps/v1
kind: Deployment
metadata: {{ name: web }}
spec:
  replicas: 1
  selector: {{ matchLabels: {{ app: web }} }}
  template:
    metadata: {{ labels: {{ app: web }} }}
    spec:
      terminationGracePeriodSeconds: 0
      automountServiceAccountToken: false
      containers:
        - name: web
          image: {image}
          imagePullPolicy: IfNotPresent
          command: ["/bin/sh", "-c", "touch /ready; sleep 1000000"]
          env: [{{ name: MODE, value: none }}]
          readinessProbe: {{ exec: {{ command: ["/bin/test", "-e", "/ready"] }}, periodSeconds: 1 }}
"#
    )
}
