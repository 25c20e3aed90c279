//! Releases: installed, listed, recovered after a crash, removed. Helm stores them as labeled secrets.

use super::super::client::ApiError;
use super::super::cluster::{Instance, from_api};
use super::super::object::{Resource, label, uid};
use super::super::set::Placed;
use super::Helm;
use super::chart::Chart;
use super::program::run;
use crate::disk::{DiskError, create_private_dir, write_private};
use crate::machine::io::WorkFailure;
use crate::runtimes::engine::failed;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Revisions Helm keeps, for manual inspection: the agent does rollbacks itself.
const HISTORY_MAX: &str = "5";
/// Outputs the objects unchanged.
const TEMPLATE: &str =
    "{{ range $path, $_ := .Files.Glob \"objects/*.json\" }}\n---\n{{ $.Files.Get $path }}\n{{ end }}\n";

/// One revision of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Release {
    pub(super) revision: u64,
    /// `deployed`, `failed`, `pending-install`, `superseded`, ...
    pub(super) status: String,
    path: Vec<String>,
    uid: String,
}

impl Helm {
    async fn releases(&self, instance: &Instance) -> Result<Vec<Release>, ApiError> {
        let secrets = Resource::fixed("v1", "Secret", "secrets", true);
        let path = secrets.path(Some(&instance.namespace), None);
        let found = self.cluster.client.list(&path, &format!("owner=helm,name={}", instance.name), true).await?;
        let one = |secret: &Value| {
            let name = secret["metadata"]["name"].as_str()?;
            Some(Release {
                revision: label(secret, "version")?.parse().ok()?,
                status: label(secret, "status")?.to_owned(),
                path: secrets.path(Some(&instance.namespace), Some(name)),
                uid: uid(secret).to_owned(),
            })
        };
        let mut releases: Vec<Release> = found.iter().filter_map(one).collect();
        releases.sort_by_key(|release| release.revision);
        Ok(releases)
    }

    /// The newest revision.
    pub(super) async fn latest(&self, instance: &Instance) -> Result<Option<Release>, ApiError> {
        Ok(self.releases(instance).await?.pop())
    }

    /// An interrupted release stays pending, and Helm refuses to continue. The agent deletes its record; the objects
    /// carry the name of the release, so the next retry adopts them.
    pub(super) async fn recover(&self, instance: &Instance) -> Result<(), WorkFailure> {
        for release in self.releases(instance).await.map_err(from_api)? {
            if is_cut_off(&release.status) {
                tracing::warn!(
                    "release `{}` was left {} in revision {}; applying it again",
                    instance.name,
                    release.status,
                    release.revision
                );
                self.cluster.client.delete(&release.path, &release.uid).await.map_err(from_api)?;
            }
        }
        Ok(())
    }

    /// Installs the objects as a release, or as its next revision.
    pub(super) async fn upgrade(
        &self,
        chart: &Chart,
        values: &Value,
        set: &[Placed],
        instance: &Instance,
    ) -> Result<(), WorkFailure> {
        let folder = self.cluster.instance_folder(instance);
        let source = write_chart(&folder, chart, set).map_err(|error| failed(error.chain()))?;
        let file = folder.join("values.json");
        write_private(&file, values.to_string().as_bytes()).map_err(|error| failed(error.chain()))?;
        let mut program = self
            .program()
            .arguments(["upgrade", &instance.name])
            .argument(&source)
            .arguments(["--install", "--namespace", &instance.namespace, "--history-max", HISTORY_MAX, "--values"])
            .argument(&file);
        if self.major().await? >= 4 {
            // Manual changes of chart fields are drift.
            program = program.arguments(["--server-side=true", "--force-conflicts"]);
        }
        let output = run(&program, "install the release").await;
        let _ = std::fs::remove_file(&file);
        let _ = std::fs::remove_dir_all(&source);
        output.map(|_| ())
    }

    pub(super) async fn uninstall(&self, instance: &Instance) -> Result<(), WorkFailure> {
        if self.latest(instance).await.map_err(from_api)?.is_none() {
            return Ok(());
        }
        let program =
            self.program().arguments(["uninstall", &instance.name, "--namespace", &instance.namespace, "--no-hooks"]);
        run(&program, "remove the release").await.map(|_| ())
    }
}

fn is_cut_off(status: &str) -> bool {
    matches!(status, "pending-install" | "pending-upgrade" | "pending-rollback" | "uninstalling")
}

/// A chart with the same name and version that contains the rendered objects.
fn write_chart(folder: &Path, chart: &Chart, set: &[Placed]) -> Result<PathBuf, DiskError> {
    let source = folder.join("chart");
    match std::fs::remove_dir_all(&source) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(DiskError::at(&source, error)),
        _ => {}
    }
    for part in ["templates", "objects"] {
        let part = source.join(part);
        create_private_dir(&part).map_err(|error| DiskError::at(&part, error))?;
    }
    write_private(&source.join("Chart.yaml"), chart.metadata().to_string().as_bytes())?;
    write_private(&source.join("templates/objects.yaml"), TEMPLATE.as_bytes())?;
    for (at, placed) in set.iter().enumerate() {
        write_private(&source.join(format!("objects/{at:04}.json")), placed.object.to_string().as_bytes())?;
    }
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_interrupted_releases_are_repeated() {
        assert!(is_cut_off("pending-install") && is_cut_off("pending-upgrade") && is_cut_off("pending-rollback"));
        assert!(!is_cut_off("deployed") && !is_cut_off("failed") && !is_cut_off("superseded"));
    }
}
