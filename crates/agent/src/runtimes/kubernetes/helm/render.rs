//! Rendered charts, stored by the digest of their inputs.

use super::super::cluster::{Cluster, Instance, from_api};
use super::program::run;
use super::{Helm, numbers};
use crate::artifacts::StoredBlob;
use crate::disk::{DiskError, create_private_dir, write_private};
use crate::machine::io::WorkFailure;
use crate::runtimes::engine::failed;
use margo::Digest;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Number of stored renderings: current, previous, next.
const KEPT: usize = 3;
const FOLDER: &str = "rendered";

impl Helm {
    /// The objects of a chart with these values on this cluster; rendered once.
    pub(super) async fn rendered(
        &self,
        held: &StoredBlob,
        values: &Value,
        instance: &Instance,
        version: &str,
    ) -> Result<Vec<Value>, WorkFailure> {
        let from = format!("{}\n{values}\n{version}\n{}\n{}", held.digest, instance.name, instance.namespace);
        let path = folder(&self.cluster, instance).join(Digest::of(from.as_bytes()).hex());
        if let Some(known) = read(&path) {
            return Ok(known);
        }
        let objects = self.render(held, values, instance, version).await?;
        write(&path, &objects).map_err(|error| failed(error.chain()))?;
        Ok(objects)
    }

    async fn render(
        &self,
        held: &StoredBlob,
        values: &Value,
        instance: &Instance,
        version: &str,
    ) -> Result<Vec<Value>, WorkFailure> {
        let folder = folder(&self.cluster, instance);
        create_private_dir(&folder).map_err(|error| failed(DiskError::at(&folder, error).chain()))?;
        // Helm recognizes an archive by its extension.
        let chart = folder.join("chart.tgz");
        let mut archive =
            tokio::fs::read(&held.path).await.map_err(|error| failed(DiskError::at(&held.path, error).chain()))?;
        if let Some(template) = numbers::template(values) {
            archive = numbers::with_template(&archive, &template)
                .map_err(|reason| failed(format!("the chart cannot be used: {reason}")))?;
        }
        write_private(&chart, &archive).map_err(|error| failed(error.chain()))?;
        let file = folder.join("values.json");
        write_private(&file, values.to_string().as_bytes()).map_err(|error| failed(error.chain()))?;
        let known = self.cluster.client.api_versions().await.map_err(from_api)?;
        // No value is on the command line, which every user of the machine can read.
        let program = self
            .program()
            .arguments(["template", &instance.name])
            .argument(&chart)
            .arguments(["--namespace", &instance.namespace, "--include-crds", "--values"])
            .argument(&file)
            .arguments(["--kube-version", version, "--api-versions", &known.join(",")]);
        let output = run(&program, "render the chart").await;
        let _ = std::fs::remove_file(&chart);
        let _ = std::fs::remove_file(&file);
        margrave_oci::objects::parse(&output?.stdout)
            .map_err(|reason| failed(format!("the rendered chart cannot be read: {reason}")))
    }

    /// Removes unused renderings. A failure leaves an unused file, which is harmless.
    pub(super) fn forget_renderings(&self, instance: &Instance) {
        let Ok(files) = std::fs::read_dir(folder(&self.cluster, instance)) else { return };
        let dated = |file: std::fs::DirEntry| Some((file.metadata().ok()?.modified().ok()?, file.path()));
        let mut files: Vec<_> = files.flatten().filter_map(dated).collect();
        files.sort_by(|one, other| other.cmp(one));
        for (_, path) in files.into_iter().skip(KEPT) {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn folder(cluster: &Cluster, instance: &Instance) -> PathBuf {
    cluster.instance_folder(instance).join(FOLDER)
}

fn read(path: &Path) -> Option<Vec<Value>> {
    let objects = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    // Marks it as recently used.
    let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
    let _ = rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty());
    Some(objects)
}

fn write(path: &Path, objects: &[Value]) -> Result<(), DiskError> {
    let text = Value::Array(objects.to_vec()).to_string();
    write_private(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_a_stored_rendering() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one");
        assert_eq!(read(&path), None);
        let objects = vec![json!({ "kind": "A" }), json!({ "kind": "B" })];
        write(&path, &objects).unwrap();
        assert_eq!(read(&path), Some(objects));
        std::fs::write(&path, "[").unwrap();
        assert_eq!(read(&path), None);
    }
}
