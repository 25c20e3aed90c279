//! Image credentials: from the registry settings of the agent into a secret that pods reference. They are read on the
//! device, are not part of the desired state, and are replaced when their file changes.

use super::client::ApplyOptions;
use super::cluster::{Cluster, Instance, from_api};
use super::decorate::{self, CERTIFICATE_FILE};
use super::names;
use super::object::Resource;
use crate::artifacts::registries::Login;
use crate::machine::io::WorkFailure;
use crate::runtimes::engine::failed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use margo::Digest;
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value, json};

impl Cluster {
    /// Logins for the registries of the images of these objects.
    pub(super) fn logins(&self, objects: &[Value]) -> Result<Vec<(String, Login)>, WorkFailure> {
        let mut found = Vec::new();
        for host in decorate::registries(objects) {
            let login = self.artifacts.registries().login(&host).map_err(|error| failed(error.to_string()))?;
            found.extend(login.map(|login| (host, login)));
        }
        Ok(found)
    }

    /// Writes the secret that pods reference; returns its digest.
    pub(super) async fn put_logins(
        &self,
        objects: &[Value],
        instance: &Instance,
    ) -> Result<Option<String>, WorkFailure> {
        let logins = self.logins(objects)?;
        if logins.is_empty() {
            return Ok(None);
        }
        let content = docker_config(&logins);
        let name = names::registry_secret(&instance.name);
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": { "name": name, "namespace": instance.namespace,
                "labels": names::labels(instance.deployment, &instance.name),
                "annotations": { names::COMPONENT: instance.component } },
            "data": { ".dockerconfigjson": STANDARD.encode(&content) },
        });
        let path = Resource::fixed("v1", "Secret", "secrets", true).path(Some(&instance.namespace), Some(&name));
        self.client.apply(&path, &object, ApplyOptions { force: true, dry_run: false }).await.map_err(from_api)?;
        Ok(Some(Digest::of(content.as_bytes()).hex().to_owned()))
    }

    /// The current digest of the logins.
    pub(super) fn logins_digest(&self, objects: &[Value]) -> Option<String> {
        let logins = self.logins(objects).ok()?;
        (!logins.is_empty()).then(|| Digest::of(docker_config(&logins).as_bytes()).hex().to_owned())
    }

    /// Writes the certificate of the collector, for pods to mount.
    pub(super) async fn put_certificate(&self, instance: &Instance) -> Result<(), WorkFailure> {
        let Some(file) = &self.telemetry.certificate else { return Ok(()) };
        let pem = std::fs::read_to_string(file)
            .map_err(|error| failed(format!("`telemetry.certificate` `{}`: {error}", file.display())))?;
        let name = names::collector(&instance.name);
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": instance.namespace,
                "labels": names::labels(instance.deployment, &instance.name),
                "annotations": { names::COMPONENT: instance.component } },
            "data": { CERTIFICATE_FILE: pem },
        });
        let path = Resource::fixed("v1", "ConfigMap", "configmaps", true).path(Some(&instance.namespace), Some(&name));
        self.client.apply(&path, &object, ApplyOptions { force: true, dry_run: false }).await.map_err(from_api)?;
        Ok(())
    }
}

fn docker_config(logins: &[(String, Login)]) -> String {
    let mut auths = Map::new();
    for (host, Login { username, password }) in logins {
        let password = password.expose_secret();
        let auth = STANDARD.encode(format!("{username}:{password}"));
        // Nodes use the v1 address of Docker Hub.
        let host = if host == "docker.io" { "https://index.docker.io/v1/" } else { host };
        auths.insert(host.to_owned(), json!({ "username": username, "password": password, "auth": auth }));
    }
    json!({ "auths": auths }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_written_as_nodes_read_them() {
        let login = |password: &str| Login { username: "device".to_owned(), password: password.to_owned().into() };
        let text = docker_config(&[("a.example:5000".to_owned(), login("x")), ("docker.io".to_owned(), login("y"))]);
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["auths"]["a.example:5000"]["auth"], STANDARD.encode("device:x"));
        assert_eq!(read["auths"]["https://index.docker.io/v1/"]["password"], "y");
    }
}
