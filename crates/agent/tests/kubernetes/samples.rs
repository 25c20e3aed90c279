//! The charts and manifests of the sample applications, with images built from our sources.

use crate::bench::{Device, DocumentOptions};
use margo::package::PackageFile;
use margo::status::State;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file below a folder, named from there.
fn files_below(folder: &Path, prefix: &str) -> Vec<PackageFile> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            found.extend(files_below(&entry.path(), &format!("{path}/")));
        } else {
            found.push(PackageFile { path, bytes: std::fs::read(entry.path()).unwrap() });
        }
    }
    found
}

/// What the page of a component's pod says about its settings.
fn settings(device: &Device, component: &str) -> String {
    let instance = margrave_agent::runtimes::kubernetes::names::instance(device.id, component);
    let is_it = |pod: &&Value| {
        let labels = &pod["metadata"]["labels"];
        labels["org.margrave.instance"] == instance.as_str() && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let pods = device.ours("pods");
    let Some(address) = pods.iter().find(is_it).and_then(|pod| pod["status"]["podIP"].as_str()) else {
        return String::new();
    };
    let url = format!("http://{address}:8080/config");
    let output = Command::new("curl").args(["--silent", "--max-time", "5", &url]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifests_of_a_sample_run_show_their_settings_and_scale() {
    let mut device = Device::manifests().await;
    let built = device.path("samples");
    let script = Command::new(root().join("scripts/samples.sh")).arg("build").arg(&built).output().unwrap();
    assert!(script.status.success(), "{}", String::from_utf8_lossy(&script.stderr));
    device.cluster.load_archive(&built.join("images/shift-board-1.0.0.tar"));
    let folder = built.join("packages/shift-board/1.0.0/components/shift-board");
    let artifact = margrave_oci::build::manifests(&files_below(&folder, ""), "shift-board", "1.0.0").unwrap();
    device.registry.push_artifact("components/shift-board", &artifact).await;
    let document = |device: &Device, title: &str, pages: &str| {
        // Parameters go to the component `web`.
        let component = device.component("shift-board", "1.0.0").replace("name: shift-board", "name: web");
        let container = "Deployment/shift-board/spec/template/spec/containers/board/env";
        let (title_at, hours_at) = (format!("{container}/BOARD_TITLE/value"), format!("{container}/KEEP_HOURS/value"));
        let parameters = [
            (title_at.as_str(), title),
            (hours_at.as_str(), "48"),
            ("Secret/shift-board/stringData/EDITOR_KEY", "\"0815\""),
            ("Deployment/shift-board/spec/replicas", pages),
        ];
        device.document_of(&component, &DocumentOptions { parameters: &parameters, ..DocumentOptions::default() })
    };
    let served = document(&device, "Line 3", "1");
    device.publish(&[served]);
    device.start();
    device.reaches(State::Installed).await;
    let page = settings(&device, "web");
    for line in ["BOARD_TITLE=Line 3", "KEEP_HOURS=48", "EDITOR_KEY=(set)"] {
        assert!(page.contains(line), "{line}: {page}");
    }
    let served = document(&device, "Line 4", "2");
    device.publish(&[served]);
    device.reaches(State::Installed).await;
    device.until("the new pods have taken their places", || device.pods().len() == 2).await;
    assert!(settings(&device, "web").contains("BOARD_TITLE=Line 4"));
    device.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_charts_of_the_samples_run_and_show_their_settings() {
    let mut device = Device::helm().await;
    let built = device.path("samples");
    let script = Command::new(root().join("scripts/samples.sh")).arg("build").arg(&built).output().unwrap();
    assert!(script.status.success(), "{}", String::from_utf8_lossy(&script.stderr));
    for image in ["line-monitor-1.0.0", "line-monitor-1.1.0", "label-printer-bridge-0.9.2"] {
        device.cluster.load_archive(&built.join("images").join(format!("{image}.tar")));
    }
    for (name, version) in [("line-monitor", "1.0.0"), ("line-monitor", "1.1.0"), ("label-printer-bridge", "0.9.2")] {
        let folder = built.join("packages").join(name).join(version).join("components").join(name);
        let artifact = margrave_oci::build::chart(&files_below(&folder, "")).unwrap();
        device.registry.push_artifact(&format!("components/{name}"), &artifact).await;
    }
    let documents = |device: &Device, version: &str, line: &str| {
        // Parameters go to the first component.
        let components = device.component("line-monitor", version).replace("name: line-monitor", "name: web")
            + &device.component("label-printer-bridge", "0.9.2");
        let parameters = [("line.name", line), ("sampling.seconds", "30"), ("controller.password", "\"0815\"")];
        device.document_of(&components, &DocumentOptions { parameters: &parameters, ..DocumentOptions::default() })
    };
    let served = documents(&device, "1.0.0", "Press 7");
    device.publish(&[served]);
    device.start();
    assert_eq!(device.reaches(State::Installed).await.components.len(), 2);
    let (monitor, bridge) = (settings(&device, "web"), settings(&device, "label-printer-bridge"));
    for line in ["LINE_NAME=Press 7", "SAMPLE_SECONDS=30", "CONTROLLER_PASSWORD=(set)"] {
        assert!(monitor.contains(line), "{line}: {monitor}");
    }
    assert!(bridge.contains("LABEL_WIDTH=100"), "{bridge}");
    let served = documents(&device, "1.1.0", "Press 8");
    device.publish(&[served]);
    device.reaches(State::Installed).await;
    device.until("the new revision has taken its place", || device.pods().len() == 2).await;
    let monitor = settings(&device, "web");
    assert!(monitor.contains("LINE_NAME=Press 8") && monitor.contains("SHIFT_MODEL=three-shift"), "{monitor}");
    device.remove().await;
}
