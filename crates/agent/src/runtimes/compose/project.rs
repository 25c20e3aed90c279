//! One component as a compose project: its files, its variables, the resolved model, and our additions.

use super::super::program::Program;
use super::images::own_name;
use super::{files, from_program, names};
use crate::artifacts::Unpacked;
use crate::config::TelemetryConfig;
use crate::disk::DiskError;
use crate::machine::io::WorkFailure;
use crate::runtimes::engine::failed;
use crate::runtimes::telemetry::{CERTIFICATE_TARGET, variables};
use margo::deployment::ApplicationDeployment;
use margo::package::PackageFile;
use margo::{DeploymentId, Digest};
use margrave_oci::Reference;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Variables that control the program; parameters must not set them.
const RESERVED: [&str; 4] = ["PATH", "HOME", "DOCKER_", "COMPOSE_"];

#[derive(Debug)]
pub(super) struct Project {
    pub(super) name: String,
    /// `state_dir/compose/<name>`.
    pub(super) folder: PathBuf,
    pub(super) unpacked: Unpacked,
    pub(super) environment: Vec<(String, String)>,
}

/// The parameters of a component, by the variables their targets name (PRM-02, W-24).
pub(super) fn environment(document: &ApplicationDeployment, component: &str) -> Result<Vec<(String, String)>, String> {
    let mut variables = BTreeMap::new();
    for (parameter, value) in &document.spec.parameters {
        let targets = value.targets.iter().filter(|target| target.components.iter().any(|name| name == component));
        for target in targets {
            let name = target.pointer.strip_prefix("ENV.").unwrap_or(&target.pointer);
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(format!("parameter `{parameter}`: `{}` is not the name of a variable", target.pointer));
            }
            if RESERVED
                .iter()
                .any(|reserved| name == *reserved || reserved.ends_with('_') && name.starts_with(reserved))
            {
                return Err(format!(
                    "parameter `{parameter}`: the variable `{name}` is reserved for the engine; rename it"
                ));
            }
            variables.insert(name.to_owned(), as_text(&value.value));
        }
    }
    Ok(variables.into_iter().collect())
}

/// Lists are joined by commas, since a variable is one text.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(items) => items.iter().map(as_text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// COMP-04: checks the contents of the archive.
pub(super) fn check(unpacked: &Unpacked) -> Result<(), String> {
    let file = |(path, bytes): (&String, &Vec<u8>)| PackageFile { path: path.clone(), bytes: bytes.clone() };
    let files: Vec<_> = unpacked.files.iter().map(file).collect();
    match margrave_oci::build::compose(&files, "component", "1.0.0") {
        Ok(built) => {
            for warning in built.warnings {
                tracing::debug!("{warning}");
            }
            Ok(())
        }
        Err(problems) => Err(format!("the component cannot be used: {}", problems.join("; "))),
    }
}

impl Project {
    pub(super) fn files_folder(&self) -> PathBuf {
        self.folder.join("files")
    }

    pub(super) fn ours_path(&self) -> PathBuf {
        self.folder.join("ours.json")
    }

    /// A copy of the files next to the running ones, to be checked before any change.
    pub(super) fn stage(&self) -> Result<PathBuf, DiskError> {
        let staged = self.folder.with_extension("staged");
        match std::fs::remove_dir_all(&staged) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(DiskError::at(&staged, error)),
            _ => {}
        }
        crate::disk::create_private_dir(&staged).map_err(|error| DiskError::at(&staged, error))?;
        match files::write_all(&staged, &self.unpacked) {
            Ok(()) => Ok(staged),
            Err(error) => {
                // A partial copy must not use the space that the next retry needs.
                let _ = std::fs::remove_dir_all(&staged);
                Err(error)
            }
        }
    }

    pub(super) fn write(&self) -> Result<(), DiskError> {
        files::sync(&self.folder, &self.unpacked)
    }

    /// Compose on the files in a folder, with the parameters as variables.
    pub(super) fn compose(&self, program: Program, folder: &Path) -> Program {
        let program = program
            .arguments(["--project-name", &self.name, "--project-directory"])
            .argument(folder)
            .argument("--file")
            .argument(folder.join("compose.yaml"))
            .folder(folder);
        self.environment.iter().fold(program, |program, (name, value)| program.variable(name, value))
    }

    /// The model that compose resolves from the files.
    pub(super) async fn model(&self, program: Program, folder: &Path) -> Result<Model, WorkFailure> {
        let program = self.compose(program, folder).arguments(["config", "--format", "json"]);
        let output = program.run().await.map_err(from_program)?;
        if !output.status.success() {
            return Err(failed(format!("compose rejects the component: {}", output.complaint())));
        }
        let model = serde_json::from_slice(&output.stdout)
            .map_err(|error| failed(format!("the output of compose for the component cannot be read: {error}")))?;
        Ok(Model { model, folder: folder.to_owned() })
    }

    /// The second compose file: labels to find containers, local names of images with a digest, and telemetry (OBS-05).
    pub(super) fn ours(
        &self,
        model: &Model,
        deployment: DeploymentId,
        component: &str,
        telemetry: &TelemetryConfig,
        certificate: Option<&Path>,
    ) -> Value {
        let mut services = Map::new();
        for (name, service) in model.services() {
            let mut labels = json!({ names::DEPLOYMENT: deployment.to_string(), names::COMPONENT: component });
            if let Some(digest) = self.files_of(model, service) {
                labels[names::FILES] = json!(digest.hex());
            }
            let mut ours = json!({ "labels": labels });
            let named = service["image"].as_str().and_then(|name| Reference::parse_image(name).ok());
            if let Some(own) = named.as_ref().and_then(own_name) {
                ours["image"] = json!(own.image());
            }
            let variables = variables(telemetry);
            if !variables.is_empty() {
                ours["environment"] = Value::Object(variables);
            }
            if let Some(certificate) = certificate {
                ours["volumes"] = json!([{
                    "type": "bind", "source": certificate, "target": CERTIFICATE_TARGET, "read_only": true,
                }]);
            }
            services.insert(name.clone(), ours);
        }
        json!({ "services": services })
    }

    /// Digest of the archive's files that a service mounts: configs, and binds below the folder.
    fn files_of(&self, model: &Model, service: &Value) -> Option<Digest> {
        let named = |section: &str| -> Vec<&str> {
            let used = service[section].as_array().into_iter().flatten();
            used.filter_map(|item| model.model[section][item["source"].as_str()?]["file"].as_str()).collect()
        };
        let binds = service["volumes"].as_array().into_iter().flatten();
        let binds = binds.filter(|volume| volume["type"] == "bind").filter_map(|volume| volume["source"].as_str());
        let paths: Vec<&str> = named("configs").into_iter().chain(named("secrets")).chain(binds).collect();
        let mut content = Vec::new();
        for path in paths {
            let Ok(inner) = Path::new(path).strip_prefix(&model.folder) else { continue };
            for (file, bytes) in self.unpacked.files.iter().filter(|(file, _)| Path::new(file).starts_with(inner)) {
                content.extend_from_slice(format!("{file}\0{}\n", Digest::of(bytes)).as_bytes());
            }
        }
        (!content.is_empty()).then(|| Digest::of(&content))
    }
}

/// The output of `compose config`.
#[derive(Debug)]
pub(super) struct Model {
    model: Value,
    folder: PathBuf,
}

/// An image a service needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// As in the compose file.
    pub(super) name: String,
    pub(super) reference: Reference,
    /// Always pull, even if the image exists.
    pub(super) always: bool,
}

impl Model {
    pub(super) fn services(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.model["services"].as_object().into_iter().flatten()
    }

    pub(super) fn images(&self) -> Result<Vec<Image>, String> {
        let mut images: Vec<Image> = Vec::new();
        for (service, value) in self.services() {
            let Some(name) = value["image"].as_str().filter(|name| !name.is_empty()) else {
                return Err(format!("service `{service}` names no image, and devices do not build images"));
            };
            let reference = Reference::parse_image(name).map_err(|reason| format!("service `{service}`: {reason}"))?;
            let always = value["pull_policy"] == "always";
            if images.iter().all(|known| known.name != name) {
                images.push(Image { name: name.to_owned(), reference, always });
            }
        }
        Ok(images)
    }
}

#[cfg(test)]
mod tests;
