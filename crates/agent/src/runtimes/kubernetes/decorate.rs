//! Decorates objects: labels to find them, image credentials, telemetry (OBS-05), and defaults that old clusters
//! require.

use super::names;
use super::object::{containers, pod_template_path};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use margo::DeploymentId;
use margrave_oci::Reference;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Where containers find the certificate of the collector.
pub(super) const CERTIFICATE_FOLDER: &str = "/run/margrave";
pub(super) const CERTIFICATE_FILE: &str = "collector-ca.pem";
const CERTIFICATE_VOLUME: &str = "margrave-collector";

/// The decoration of objects.
#[derive(Debug, Clone)]
pub(super) struct Decoration<'a> {
    pub(super) deployment: DeploymentId,
    pub(super) component: &'a str,
    pub(super) instance: &'a str,
    pub(super) namespace: &'a str,
    /// Variables for every container.
    pub(super) variables: Map<String, Value>,
    /// Whether to mount the certificate of the collector.
    pub(super) certificate: bool,
    /// Whether to reference the secret with logins.
    pub(super) logins: bool,
}

impl Decoration<'_> {
    /// Decorates one object. `namespaced`: whether its kind is namespaced.
    pub(super) fn decorate_object(&self, object: &mut Value, namespaced: bool) {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        plain_data(object);
        if namespaced && object["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
            object["metadata"]["namespace"] = json!(self.namespace);
        }
        self.mark(object);
        object["metadata"]["annotations"] =
            with(object["metadata"]["annotations"].take(), names::COMPONENT, self.component);
        for claim in
            object.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten()
        {
            self.mark(claim);
        }
        if let Some(template) = pod_template_path(&kind).and_then(|path| object.pointer_mut(path)) {
            if kind != "Pod" {
                self.mark(template);
            }
            self.decorate_pods(template);
        }
        if kind == "Service" {
            protocols(object.pointer_mut("/spec/ports"));
        }
    }

    fn mark(&self, object: &mut Value) {
        // Invalid objects are left for the cluster to reject.
        if !object.is_object() || !can_hold(&object["metadata"]) {
            return;
        }
        let mut labels = object["metadata"]["labels"].take();
        for (name, value) in names::labels(self.deployment, self.instance) {
            labels = with(labels, &name, value.as_str().unwrap_or_default());
        }
        object["metadata"]["labels"] = labels;
    }

    fn decorate_pods(&self, template: &mut Value) {
        let Some(spec) = template.get_mut("spec").filter(|spec| spec.is_object()) else { return };
        if self.logins {
            let secret = json!({ "name": names::registry_secret(self.instance) });
            add(&mut spec["imagePullSecrets"], "name", secret);
        }
        for list in ["initContainers", "containers"] {
            let all = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            for container in all.filter(|container| container.is_object()) {
                protocols(container.get_mut("ports"));
                for (name, value) in &self.variables {
                    add(&mut container["env"], "name", json!({ "name": name, "value": value }));
                }
                if self.certificate {
                    let mount =
                        json!({ "name": CERTIFICATE_VOLUME, "mountPath": CERTIFICATE_FOLDER, "readOnly": true });
                    add(&mut container["volumeMounts"], "mountPath", mount);
                }
            }
        }
        if self.certificate {
            let volume =
                json!({ "name": CERTIFICATE_VOLUME, "configMap": { "name": names::collector(self.instance) } });
            add(&mut spec["volumes"], "name", volume);
        }
    }
}

/// The API never returns `stringData`, so it could not be compared.
fn plain_data(object: &mut Value) {
    if object["kind"] != "Secret" {
        return;
    }
    let Some(Value::Object(texts)) = object.as_object_mut().and_then(|fields| fields.remove("stringData")) else {
        return;
    };
    if !object["data"].is_object() {
        object["data"] = json!({});
    }
    for (name, value) in texts {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        object["data"][name] = json!(STANDARD.encode(text));
    }
}

fn can_hold(value: &Value) -> bool {
    value.is_object() || value.is_null()
}

/// A mapping with one more member.
pub(super) fn with(map: Value, name: &str, value: &str) -> Value {
    let mut map = match map {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    map.insert(name.to_owned(), json!(value));
    Value::Object(map)
}

/// Adds an item to a list, or replaces the one with the same key.
fn add(list: &mut Value, key: &str, item: Value) {
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(items) = list.as_array_mut() else { return };
    match items.iter_mut().find(|known| known[key] == item[key]) {
        Some(known) => *known = item,
        None => items.push(item),
    }
}

/// Old clusters reject a server-side apply of ports without a protocol, which is part of their key.
fn protocols(ports: Option<&mut Value>) {
    for port in ports.and_then(Value::as_array_mut).into_iter().flatten() {
        if port.is_object() && port["protocol"].is_null() {
            port["protocol"] = json!("TCP");
        }
    }
}

/// The registries that images of these objects come from.
pub(super) fn registries(objects: &[Value]) -> BTreeSet<String> {
    let references = images(objects).filter_map(|(image, _)| Reference::parse_image(image).ok());
    references.map(|reference| reference.host).collect()
}

/// Images that are pulled at every start: without network the pod does not start again.
pub(super) fn always_pulled(objects: &[Value]) -> BTreeSet<String> {
    let always = |(image, policy): &(&str, Option<&str>)| match policy {
        Some(policy) => *policy == "Always",
        // The default of the cluster.
        None => {
            let name = image.rsplit('/').next().unwrap_or_default();
            !image.contains('@') && (!name.contains(':') || name.ends_with(":latest"))
        }
    };
    images(objects).filter(always).map(|(image, _)| image.to_owned()).collect()
}

fn images(objects: &[Value]) -> impl Iterator<Item = (&str, Option<&str>)> {
    let templates = objects.iter().filter_map(|object| object.pointer(pod_template_path(object["kind"].as_str()?)?));
    let all = templates.flat_map(containers);
    all.filter_map(|container| Some((container["image"].as_str()?, container["imagePullPolicy"].as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "labels": { "own": "1" } }, "spec": {
            "template": { "spec": { "containers": [
                { "name": "web", "image": "registry.example:5000/web:1", "ports": [{ "containerPort": 80 }, { "containerPort": 53, "protocol": "UDP" }],
                  "env": [{ "name": "A", "value": "1" }, { "name": "HTTP_OTEL_EXPORTER_OTLP_ENDPOINT", "value": "old" }] },
            ] } },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" } }],
        } })
    }

    fn decorate() -> Decoration<'static> {
        Decoration {
            deployment: "a3e2f5dc-912e-494f-8395-52cf3769bc06".parse().unwrap(),
            component: "web",
            instance: "web-1",
            namespace: "plant",
            variables: json!({ "HTTP_OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318" }).as_object().unwrap().clone(),
            certificate: true,
            logins: true,
        }
    }

    #[test]
    fn objects_pods_and_claims_carry_labels_variables_and_credentials() {
        // OBS-05
        let mut object = deployment();
        decorate().decorate_object(&mut object, true);
        assert_eq!(object["metadata"]["namespace"], "plant");
        let labels = json!({ names::DEPLOYMENT: "a3e2f5dc-912e-494f-8395-52cf3769bc06", names::INSTANCE: "web-1" });
        assert_eq!(object["metadata"]["labels"][names::INSTANCE], "web-1");
        assert_eq!(object["metadata"]["labels"]["own"], "1");
        assert_eq!(object["metadata"]["annotations"], json!({ names::COMPONENT: "web" }));
        assert_eq!(object["spec"]["template"]["metadata"]["labels"], labels);
        assert_eq!(object["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"], labels);
        let pods = &object["spec"]["template"]["spec"];
        assert_eq!(pods["imagePullSecrets"], json!([{ "name": "web-1-registry" }]));
        let container = &pods["containers"][0];
        assert_eq!(
            container["ports"],
            json!([{ "containerPort": 80, "protocol": "TCP" }, { "containerPort": 53, "protocol": "UDP" }])
        );
        assert_eq!(
            container["env"],
            json!([{ "name": "A", "value": "1" }, { "name": "HTTP_OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://c:4318" }])
        );
        assert_eq!(container["volumeMounts"][0]["mountPath"], CERTIFICATE_FOLDER);
        assert_eq!(pods["volumes"][0]["configMap"]["name"], "web-1-collector");
        // A second decoration changes nothing.
        let mut again = object.clone();
        decorate().decorate_object(&mut again, true);
        assert_eq!(again, object);
    }

    #[test]
    fn other_objects_are_left_as_they_are() {
        let mut role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "x" }, "rules": [] });
        decorate().decorate_object(&mut role, false);
        assert!(role["metadata"]["namespace"].is_null() && role["spec"].is_null());
        let mut secret =
            json!({ "kind": "Secret", "metadata": { "name": "x", "namespace": "other" }, "stringData": { "a": "1" } });
        decorate().decorate_object(&mut secret, true);
        assert_eq!((&secret["data"], &secret["metadata"]["namespace"]), (&json!({ "a": "MQ==" }), &json!("other")));
        assert!(secret.get("stringData").is_none());
    }

    #[test]
    fn leaves_invalid_objects_for_the_cluster_to_reject() {
        for odd in [
            json!({ "kind": "Deployment", "metadata": { "name": "x", "labels": 1, "annotations": [] }, "spec": 1 }),
            json!({ "kind": "Deployment", "metadata": { "name": "x" }, "spec": { "template": "x", "volumeClaimTemplates": ["x"] } }),
            json!({ "kind": "Pod", "metadata": { "name": "x" }, "spec": { "containers": ["x", { "ports": [1], "env": 1 }], "volumes": 1 } }),
            json!({ "kind": "Job", "metadata": { "name": "x" }, "spec": { "template": { "metadata": "x", "spec": [] } } }),
            json!({ "kind": "Secret", "metadata": { "name": "x" }, "data": 1, "stringData": { "a": 1 } }),
            json!({ "kind": "Service", "metadata": { "name": "x" }, "spec": { "ports": { "a": 1 } } }),
        ] {
            let mut object = odd.clone();
            decorate().decorate_object(&mut object, true);
            assert_eq!(object["metadata"]["labels"][names::INSTANCE], "web-1", "{odd}");
        }
    }

    #[test]
    fn images_are_found_with_their_registry_and_policy() {
        let mut object = deployment();
        object["spec"]["template"]["spec"]["initContainers"] = json!([
            { "name": "a", "image": "tool" }, { "name": "b", "image": "tool:latest", "imagePullPolicy": "IfNotPresent" },
            { "name": "c", "image": "r.example/c:1", "imagePullPolicy": "Always" },
        ]);
        let objects = [object];
        assert!(registries(&objects).contains("registry.example:5000"));
        assert_eq!(always_pulled(&objects).into_iter().collect::<Vec<_>>(), ["r.example/c:1", "tool"]);
    }
}
