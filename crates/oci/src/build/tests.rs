use super::*;

fn file(path: &str, text: &str) -> PackageFile {
    PackageFile { path: path.to_owned(), bytes: text.as_bytes().to_vec() }
}

fn unpacked(artifact: &Artifact) -> Vec<(String, String)> {
    let limits = margo::archive::Limits { entries_max: 100, entry_bytes_max: 1 << 20, total_bytes_max: 1 << 20 };
    let entries = margo::archive::unpack(&artifact.blobs[1].1, limits).unwrap();
    entries.into_iter().map(|entry| (entry.path, String::from_utf8(entry.bytes).unwrap())).collect()
}

fn chart_files() -> Vec<PackageFile> {
    vec![
        file("values.yaml", "speed: 1\n"),
        file(
            "Chart.yaml",
            "apiVersion: v2\nname: press\nversion: 1.2.3+build\nappVersion: 1.10\ndescription: A press\n",
        ),
        file("templates/config.yaml", "kind: ConfigMap\n"),
    ]
}

#[test]
fn builds_a_chart_as_helm_would_push_it() {
    let artifact = chart(&chart_files()).unwrap();
    assert_eq!((artifact.name.as_str(), artifact.tag.as_str()), ("press", "1.2.3_build"));
    let manifest: Value = serde_json::from_slice(&artifact.manifest).unwrap();
    assert_eq!(manifest["config"]["mediaType"], HELM_CONFIG_TYPE);
    assert_eq!(manifest["layers"][0]["mediaType"], HELM_CHART_TYPE);
    assert_eq!(manifest["annotations"][TITLE], "press");
    let config: Value = serde_json::from_slice(&artifact.blobs[0].1).unwrap();
    // A version is text, whatever type YAML gives it.
    assert_eq!(config["appVersion"], "1.10");
    assert_eq!(config["version"], "1.2.3+build");
    let paths: Vec<String> = unpacked(&artifact).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["press/Chart.yaml", "press/templates/config.yaml", "press/values.yaml"]);
}

#[test]
fn the_same_files_give_the_same_digest_in_any_order() {
    let mut files = chart_files();
    let first = chart(&files).unwrap().digest();
    files.reverse();
    assert_eq!(chart(&files).unwrap().digest(), first);
    files[0].bytes.push(b'\n');
    assert_ne!(chart(&files).unwrap().digest(), first);
}

#[test]
fn reports_every_problem_of_a_chart() {
    let text = "apiVersion: v1\nname: Press\nversion: one\ndependencies:\n  - name: base\n    repository: x\n";
    let problems = chart(&[file("Chart.yaml", text)]).unwrap_err();
    for expected in ["apiVersion", "`name`", "`version`", "helm dependency build"] {
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
    }
    assert_eq!(problems.len(), 4, "{problems:?}");
    assert_eq!(chart(&[file("values.yaml", "")]).unwrap_err(), ["Chart.yaml is missing"]);
    assert!(chart(&[file("Chart.yaml", "a: [")]).unwrap_err()[0].starts_with("Chart.yaml: "));
}

#[test]
fn skips_files_in_helmignore_and_warns_about_hooks() {
    let mut files = chart_files();
    files.push(file(".helmignore", "# mine\n*.bak\nci/\n"));
    files.push(file("ci/test.yaml", ""));
    files.push(file("values.bak", ""));
    files.push(file(".git/config", ""));
    files.push(file("templates/job.yaml", "annotations: {helm.sh/hook: pre-install}\n"));
    let artifact = chart(&files).unwrap();
    let paths: Vec<String> = unpacked(&artifact).into_iter().map(|(path, _)| path).collect();
    assert!(paths.iter().all(|path| !path.contains("ci/") && !path.contains(".bak") && !path.contains(".git/")));
    assert_eq!(artifact.warnings, ["templates/job.yaml: charts must not rely on hooks"]);
}

const COMPOSE: &str = "
name: press
x-common: &common
  restart: always
services:
  web:
    <<: *common
    image: registry.example/press:1.0
    env_file: [./web.env, {path: extra.env, required: false}]
    volumes: ['./data:/data', 'named:/var', {type: bind, source: ./cache, target: /cache}]
configs:
  main: {file: ./config/main.conf}
secrets:
  key: {file: ./key.txt}
";

fn compose_files() -> Vec<PackageFile> {
    vec![
        file("compose.yml", COMPOSE),
        file("web.env", "A=1\n"),
        file("config/main.conf", "x\n"),
        file("key.txt", "secret\n"),
        file("data/db", "x"),
        file("README.md", "read\n"),
    ]
}

#[test]
fn a_compose_archive_follows_the_standard() {
    // COMP-01 to COMP-04
    let artifact = compose(&compose_files(), "folder", "1.0.0").unwrap();
    assert_eq!((artifact.name.as_str(), artifact.tag.as_str()), ("press", "1.0.0"));
    let manifest: Value = serde_json::from_slice(&artifact.manifest).unwrap();
    assert_eq!(manifest["artifactType"], COMPOSE_ARTIFACT_TYPE);
    assert_eq!(manifest["config"]["data"], "e30=");
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
    let layer = &manifest["layers"][0];
    assert_eq!(layer["mediaType"], COMPOSE_LAYER_TYPE);
    assert_eq!(layer["annotations"]["org.margo.component.type"], "compose");
    assert_eq!(layer["annotations"]["org.margo.component.version"], "1.0.0");
    let paths: Vec<String> = unpacked(&artifact).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["press/README.md", "press/compose.yaml", "press/config/main.conf", "press/web.env"]);
    assert_eq!(artifact.warnings.len(), 2, "{:?}", artifact.warnings);
}

#[test]
fn reports_every_problem_of_a_compose_archive() {
    let text =
        "services:\n  a: {image: x, env_file: ../up.env}\n  b: {env_file: none.env}\nconfigs:\n  c: {file: /etc/x}\n";
    let problems = compose(&[file("compose.yaml", text)], "folder", "v1").unwrap_err();
    for expected in ["`v1` is not a version", "../up.env", "none.env", "/etc/x", "services.b has no `image`"] {
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
    }
    assert_eq!(problems.len(), 5, "{problems:?}");
    assert!(compose(&[file("compose.yaml", "services: {}")], "x", "1.0.0").is_err());
    let both = [file("compose.yaml", text), file("compose.yml", text)];
    assert!(compose(&both, "x", "1.0.0").unwrap_err()[0].contains("both"));
}

#[test]
fn recognizes_a_folder_by_its_files() {
    let recognized = |files: &[&str]| recognize(&files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>());
    assert_eq!(recognized(&["margo.yaml", "resources/icon.png"]), Ok(ArtifactKind::Package));
    assert_eq!(recognized(&["description.yml"]), Ok(ArtifactKind::Package));
    assert_eq!(recognized(&["Chart.yaml", "values.yaml"]), Ok(ArtifactKind::Chart));
    assert_eq!(recognized(&["compose.yml"]), Ok(ArtifactKind::Compose));
    assert_eq!(recognized(&["manifests/web.yaml", "README.md"]), Ok(ArtifactKind::Manifests));
    assert!(recognized(&["margo.yaml", "manifests/web.yaml"]).unwrap_err().contains("components/NAME/"));
    assert!(recognized(&["Chart.yaml", "compose.yaml"]).is_err());
    assert!(recognized(&["margo.yaml", "compose.yaml"]).is_err());
    assert!(recognized(&["docker-compose.yml"]).unwrap_err().contains("rename"));
    assert!(recognized(&["readme.md"]).is_err());
}

#[test]
fn manifests_are_an_archive_of_our_own_type() {
    // CR-01
    let web = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: web}\n";
    let files = [file("manifests/web.yaml", web), file("README.md", "read\n"), file("manifests/notes.txt", "[")];
    let artifact = manifests(&files, "press", "1.0.0+7").unwrap();
    assert_eq!((artifact.name.as_str(), artifact.tag.as_str()), ("press", "1.0.0_7"));
    let manifest: Value = serde_json::from_slice(&artifact.manifest).unwrap();
    assert_eq!(manifest["artifactType"], MANIFESTS_ARTIFACT_TYPE);
    assert_eq!(manifest["layers"][0]["mediaType"], MANIFESTS_LAYER_TYPE);
    assert_eq!(manifest["layers"][0]["annotations"]["org.margo.component.type"], "custom");
    let paths: Vec<String> = unpacked(&artifact).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["press/README.md", "press/manifests/notes.txt", "press/manifests/web.yaml"]);
    let kinds: Vec<Value> =
        manifest_objects(&files).unwrap().into_iter().map(|object| object["kind"].clone()).collect();
    assert_eq!(kinds, ["ConfigMap", "Secret"]);
}

#[test]
fn reports_every_problem_of_manifests() {
    let twice = "apiVersion: v1\nkind: A\nmetadata: {name: x}\n---\napiVersion: v1\nkind: A\nmetadata: {name: x}\n";
    let files =
        [file("manifests/a.yaml", twice), file("manifests/b.yml", "kind: B\n"), file("manifests/c.yaml", "a: [")];
    let problems = manifests(&files, "press", "one").unwrap_err();
    for expected in ["`one` is not a version", "A `x` occurs twice", "B has no `apiVersion`", "manifests/c.yaml: "] {
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
    }
    assert!(
        manifests(&[file("manifests/a.yaml", "# nothing\n")], "press", "1.0.0").unwrap_err()[0].contains("no object")
    );
}
