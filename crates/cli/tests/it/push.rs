//! Pushing folders as artifacts: detected, validated, built reproducibly, sent once.

use crate::origin::{Origin, PASSWORD, USER, client};
use crate::support::{CommandOutput, Server};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn write(folder: &Path, files: &[(&str, &str)]) -> PathBuf {
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder.to_owned()
}

fn description(charts: &str, revision: &str) -> String {
    format!(
        "apiVersion: v1
id: press
metadata:
  name: Press
  version: 1.0.0
  catalog:
    application: {{ icon: ./resources/icon.svg }}
    organization: [{{ name: Example }}]
deploymentProfiles:
  - type: helm
    id: cluster
    components:
      - name: press
        properties: {{ repository: 'oci://{charts}/charts/press', revision: {revision} }}
  - type: compose
    id: small
    components:
      - name: press-stack
        properties: {{ repository: 'oci://{charts}/compose/press-stack', revision: {revision} }}
      - name: elsewhere
        properties: {{ repository: 'oci://other.example/compose/elsewhere', revision: 3.0.0 }}
"
    )
}

const CHART: &str = "apiVersion: v2\nname: press\nversion: 1.0.0\n";
const COMPOSE: &str = "services:\n  web: { image: 'registry.example/web:1.0', env_file: web.env }\n";

fn package(folder: &Path, registry: &str) -> PathBuf {
    write(
        folder,
        &[
            ("margo.yaml", &description(registry, "1.0.0")),
            ("resources/icon.svg", "<svg/>"),
            ("components/press/Chart.yaml", CHART),
            ("components/press/values.yaml", "speed: 1\n"),
            ("components/press-stack/compose.yml", COMPOSE),
            ("components/press-stack/web.env", "A=1\n"),
        ],
    )
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn repositories(server: &Server) -> Vec<String> {
    // A folder per repository, with a comma for every slash.
    let folder = server.data().join("registry/repositories");
    let entries = std::fs::read_dir(folder).map(|entries| entries.map(|entry| entry.unwrap().file_name()));
    let mut names: Vec<String> =
        entries.into_iter().flatten().map(|name| name.to_str().unwrap().replace(',', "/")).collect();
    names.sort();
    names
}

/// With a password on stdin.
fn with_password(server: &Server, arguments: &[&str], password: &str) -> CommandOutput {
    let mut child =
        server.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that does not read it closes stdin.
    let _ = child.stdin.take().unwrap().write_all(password.as_bytes());
    CommandOutput::of(child.wait_with_output().unwrap())
}

#[test]
fn a_package_is_pushed_with_its_components_and_imported() {
    let server = Server::start();
    let folder = package(&server.folder.path().join("press"), "registry.example");
    server.run(&["app", "push", text(&folder)]).check(
        0,
        "Pushed chart oci://<address>/mirror/registry.example/charts/press:1.0.0 (<digest>)
  mirrors oci://registry.example/charts/press:1.0.0
Pushed compose oci://<address>/mirror/registry.example/compose/press-stack:1.0.0 (<digest>)
  mirrors oci://registry.example/compose/press-stack:1.0.0
Pushed package oci://<address>/apps/press:1.0.0 (<digest>)
Imported press 1.0.0.
",
        "component elsewhere (oci://other.example/compose/elsewhere:3.0.0) is not in components/ and was not pushed
Check compatibility: margrave app compatibility press
",
    );
    assert_eq!(
        repositories(&server),
        ["apps/press", "mirror/registry.example/charts/press", "mirror/registry.example/compose/press-stack"]
    );
    let shown = server.json(&["app", "show", "press"]);
    assert!(shown["versions"][0]["source"].as_str().unwrap().ends_with("/apps/press:1.0.0"), "{shown}");

    // The same folder gives the same digests, and nothing is sent twice.
    let again = server.json(&["app", "push", text(&folder)]);
    for artifact in again["artifacts"].as_array().unwrap() {
        assert_eq!((&artifact["blobsSent"], &artifact["manifestSent"]), (&json!(0), &json!(false)), "{artifact}");
    }
    assert_eq!(again["imported"]["added"], false);
    assert_eq!(again["artifacts"][2]["digest"], shown["versions"][0]["packageDigest"]);

    // Changed content needs a new version or --force.
    std::fs::write(folder.join("components/press/values.yaml"), "speed: 2\n").unwrap();
    let seen = server.run(&["app", "push", text(&folder)]);
    assert_eq!(seen.code, 1, "{}", seen.stderr);
    assert!(seen.stderr.contains("charts/press:1.0.0 exists with different content"), "{}", seen.stderr);
    let forced = server.json(&["app", "push", text(&folder), "--force"]);
    assert_eq!(forced["artifacts"][0]["manifestSent"], true);
    assert_eq!(forced["artifacts"][1]["manifestSent"], false);
}

#[test]
fn without_import_and_components_only_the_package_is_pushed() {
    let server = Server::start();
    let folder = package(&server.folder.path().join("press"), "registry.example");
    let dry = server.json(&["app", "push", text(&folder), "--dry-run"]);
    assert_eq!(dry["artifacts"].as_array().unwrap().len(), 3);
    assert_eq!(repositories(&server), Vec::<String>::new());
    let pushed = server.json(&["app", "push", text(&folder), "--no-import", "--no-components"]);
    assert_eq!(pushed["artifacts"].as_array().unwrap().len(), 1);
    assert_eq!(pushed["artifacts"][0]["digest"], dry["artifacts"][2]["digest"]);
    assert_eq!(server.json(&["app", "list"]), json!([]));
    assert_eq!(repositories(&server), ["apps/press"]);
}

#[test]
fn rejects_an_invalid_folder_with_all_problems_and_pushes_nothing() {
    let server = Server::start();
    let folder = package(&server.folder.path().join("press"), "registry.example");
    std::fs::write(folder.join("components/press/Chart.yaml"), "apiVersion: v1\nname: press\nversion: 1.0.0\n")
        .unwrap();
    std::fs::remove_file(folder.join("components/press-stack/web.env")).unwrap();
    write(&folder, &[("components/unused/compose.yaml", COMPOSE)]);
    std::os::unix::fs::symlink("/etc/hostname", folder.join("resources/out.txt")).unwrap();
    let seen = server.run(&["app", "push", text(&folder)]);
    assert_eq!((seen.code, &*seen.stdout), (1, ""), "{}", seen.stderr);
    for problem in [
        "resources/out.txt: is a link out of the folder",
        "components/press/Chart.yaml: `apiVersion` must be `v2`",
        "components/press-stack/compose.yaml: services.web.env_file: `web.env` is not in the folder",
        "components/unused: the description has no component `unused`",
        "has 4 problems; nothing was pushed",
    ] {
        assert!(seen.stderr.contains(problem), "{problem}: {}", seen.stderr);
    }
    // An invalid description does not hide the other problems, nor does a version that cannot be a tag.
    let description = std::fs::read_to_string(folder.join("margo.yaml")).unwrap();
    let broken = description.replacen("\nid: ", "\nid: No_", 1).replacen("version: ", "version: of ", 1);
    std::fs::write(folder.join("margo.yaml"), broken).unwrap();
    let seen = server.run(&["app", "push", text(&folder)]);
    for problem in [
        "line 2: `id`: ",
        "` cannot be a tag",
        "resources/out.txt: is a link out of the folder",
        "components/press/Chart.yaml: `apiVersion` must be `v2`",
        "components/press-stack/compose.yaml: services.web.env_file: `web.env` is not in the folder",
        "components/unused: the description has no component `unused`",
        "has 6 problems; nothing was pushed",
    ] {
        assert!(seen.stderr.contains(problem), "{problem}: {}", seen.stderr);
    }
    assert_eq!(repositories(&server), Vec::<String>::new());
    assert_eq!(server.json(&["app", "list"]), json!([]));

    let seen = server.run(&["app", "push", "/nonexistent"]);
    assert_eq!(seen.code, 1);
    let empty = server.folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let seen = server.run(&["app", "push", text(&empty)]);
    assert!(seen.stderr.contains("neither margo.yaml"), "{}", seen.stderr);
    // A version other than the one in the description.
    let folder = package(&server.folder.path().join("other"), "registry.example");
    std::fs::write(folder.join("components/press/Chart.yaml"), CHART.replace("1.0.0", "1.0.1")).unwrap();
    let seen = server.run(&["app", "push", text(&folder)]);
    assert!(seen.stderr.contains("its version is `1.0.1`, but the description requires `1.0.0`"), "{}", seen.stderr);
}

#[test]
fn helm_and_oras_pull_artifacts_pushed_to_an_external_registry() {
    let server = Server::start();
    let origin = Origin::start(false);
    let host = origin.host();
    let home = server.folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let chart = write(&server.folder.path().join("chart"), &[("Chart.yaml", CHART), ("values.yaml", "speed: 1\n")]);
    let stack = write(&server.folder.path().join("stack"), &[("compose.yaml", COMPOSE), ("web.env", "A=1\n")]);
    let to = |name: &str| format!("oci://{host}/{name}");
    let login = ["--username", USER, "--password-stdin", "--plain-http"];
    let push = |folder: &Path, to: &str, more: &[&str]| {
        let arguments: Vec<&str> =
            ["app", "push", text(folder), "--to", to].into_iter().chain(login).chain(more.iter().copied()).collect();
        with_password(&server, &arguments, PASSWORD)
    };
    let seen = push(&chart, &to("charts/press"), &[]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    let seen = push(&stack, &to("compose/stack"), &[]);
    assert_eq!(seen.code, 1, "{}", seen.stderr);
    assert!(seen.stderr.contains("--version 1.0.0"), "{}", seen.stderr);
    let seen = push(&stack, &to("compose/stack"), &["--version", "2.0.0"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);

    client(&home, "helm", &["registry", "login", &host, "-u", USER, "-p", PASSWORD, "--insecure"]);
    client(&home, "helm", &["pull", &to("charts/press"), "--version", "1.0.0", "--plain-http", "--untar"]);
    assert_eq!(std::fs::read_to_string(home.join("press/values.yaml")).unwrap(), "speed: 1\n");
    let credentials = ["-u", USER, "-p", PASSWORD, "--plain-http"];
    let reference = format!("{host}/compose/stack:2.0.0");
    let manifest = [&["manifest", "fetch", &reference][..], &credentials].concat();
    let manifest: Value = serde_json::from_str(&client(&home, "oras", &manifest)).unwrap();
    // COMP-01, COMP-02
    assert_eq!(manifest["artifactType"], "application/vnd.org.margo.component.compose+json");
    assert_eq!(manifest["layers"][0]["annotations"]["org.margo.component.version"], "2.0.0");
    client(&home, "oras", &[&["pull", &reference][..], &credentials].concat());
    let unpacked = std::process::Command::new("tar").args(["-tzf"]).arg(home.join("stack-2.0.0.tar.gz")).output();
    assert_eq!(String::from_utf8(unpacked.unwrap().stdout).unwrap(), "stack/compose.yaml\nstack/web.env\n");

    // A whole package, whose description names that registry.
    let folder = package(&server.folder.path().join("press"), &host);
    let seen = push(&folder, &to("apps/press"), &["--no-import", "--force"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert!(seen.stdout.contains("Pushed compose oci://<address>/compose/press-stack:1.0.0"), "{}", seen.stdout);
    let seen = push(&folder, &to("apps/press:9.9.9"), &["--no-import"]);
    assert!(seen.code == 1 && seen.stderr.contains("the tag must be the version"), "{}", seen.stderr);
    // A component of another registry is not pushed with these credentials.
    let folder = package(&server.folder.path().join("foreign"), "registry.example");
    let seen = push(&folder, &to("apps/press"), &["--no-import"]);
    assert!(seen.code == 1 && seen.stderr.contains("names registry `registry.example`"), "{}", seen.stderr);
}

#[test]
fn pushes_to_a_registry_with_a_password_and_its_own_ca() {
    let server = Server::start();
    let origin = Origin::start(true);
    let chart = write(&server.folder.path().join("chart"), &[("Chart.yaml", CHART)]);
    let to = format!("oci://{}/charts/press", origin.host());
    let ca = origin.ca();
    let push = |more: &[&str], password: &str| {
        let arguments: Vec<&str> =
            ["app", "push", text(&chart), "--to", &to].into_iter().chain(more.iter().copied()).collect();
        with_password(&server, &arguments, password)
    };
    let login = ["--username", USER, "--password-stdin", "--registry-ca", &ca];
    let blind = push(&login[..3], PASSWORD);
    assert!(blind.code == 3 && blind.stderr.contains("cannot be reached"), "{}", blind.stderr);
    let wrong = push(&login, "guess");
    assert!(wrong.code == 4 && wrong.stderr.contains("refused the username"), "{}", wrong.stderr);
    let anonymous = push(&["--registry-ca", &ca], "");
    assert!(anonymous.code == 4 && anonymous.stderr.contains("requires a username"), "{}", anonymous.stderr);
    let seen = push(&login, PASSWORD);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    let again = push(&login, PASSWORD);
    assert!(again.code == 0 && again.stdout.starts_with("Present chart"), "{}", again.stdout);
}

#[test]
fn every_sample_is_pushed_with_its_components() {
    let server = Server::start();
    for sample in ["line-monitor/1.1.0", "vibration-analytics/2.3.0", "label-printer-bridge/0.9.2", "shift-board/1.0.0"]
    {
        let pushed = server.json(&["app", "push", text(&crate::support::samples().join(sample))]);
        assert!(pushed["artifacts"].as_array().unwrap().len() > 1, "{sample}: {pushed}");
    }
    let host = "mirror/registry.margrave.example";
    for component in ["charts/line-monitor", "compose/line-monitor", "manifests/shift-board"] {
        assert!(repositories(&server).contains(&format!("{host}/{component}")), "{component}");
    }
}

const OBJECTS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: press }\n";

#[test]
fn pushes_manifests_as_a_component_or_separately() {
    // CR-01
    let server = Server::start();
    let description = "apiVersion: v1
id: press
metadata:
  name: Press
  version: 1.0.0
  catalog: { organization: [{ name: Example }] }
deploymentProfiles:
  - type: custom
    id: manifests
    components:
      - name: press
        properties: { repository: 'oci://registry.example/manifests/press', revision: 2.0.0 }
    deviceConstraints:
      eligibilityRules:
        - labelSelector: { matchExpressions: [{ key: org.margrave/manifests, operator: In, values: [v1] }] }
";
    let folder = write(
        &server.folder.path().join("press"),
        &[("margo.yaml", description), ("components/press/manifests/objects.yaml", OBJECTS)],
    );
    let pushed = server.json(&["app", "push", text(&folder)]);
    let seen: Vec<_> =
        pushed["artifacts"].as_array().unwrap().iter().map(|line| (&line["kind"], &line["version"])).collect();
    assert_eq!(seen, [(&json!("manifests"), &json!("2.0.0")), (&json!("package"), &json!("1.0.0"))]);
    assert_eq!(repositories(&server), ["apps/press", "mirror/registry.example/manifests/press"]);

    let alone = folder.join("components/press");
    let seen = server.run(&["app", "push", text(&alone)]);
    assert!(seen.code == 1 && seen.stderr.contains("--version 1.0.0"), "{}", seen.stderr);
    let pushed = server.json(&["app", "push", text(&alone), "--version", "2.1.0"]);
    assert_eq!(pushed["artifacts"][0]["digest"].as_str().map(str::len), Some("sha256:".len() + 64));
    assert!(repositories(&server).contains(&"manifests/press".to_owned()));

    // Problems are reported, and nothing is pushed.
    std::fs::write(alone.join("manifests/more.yaml"), "kind: Service\n").unwrap();
    let seen = server.run(&["app", "push", text(&alone), "--version", "2.2.0"]);
    assert!(seen.stderr.contains("manifests/more.yaml: Service has no `apiVersion`"), "{}", seen.stderr);
}
