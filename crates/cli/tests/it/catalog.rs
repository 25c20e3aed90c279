//! Importing packages; invalid packages are rejected.

use crate::support::{Device, Server, samples};
use serde_json::json;

#[test]
fn a_package_is_imported_once() {
    let server = Server::start();
    let folder = samples().join("line-monitor/1.0.0");
    let folder = folder.to_str().unwrap();
    server.run(&["app", "import", folder]).check(
        0,
        "Imported line-monitor 1.0.0 (<digest>).\n",
        "Check compatibility: margrave app compatibility line-monitor\n",
    );
    server.run(&["app", "import", folder, "-q"]).check(
        0,
        "line-monitor 1.0.0 is already in the catalog with the same content.\n",
        "",
    );
    server.run(&["app", "list"]).check(
        0,
        "APPLICATION   NEWEST  VERSIONS  NAME          VENDOR\n\
         line-monitor  1.0.0   1         Line Monitor  Margrave Samples\n",
        "",
    );
}

#[test]
fn reports_missing_components_on_import_and_on_check() {
    let server = Server::start_with("[catalog]\ncheck_registries = true");
    let folder = samples().join("shift-board/1.0.0");
    let missing = "registry `registry.margrave.example` does not exist (example domain)";
    let bring = "Add them to the embedded registry: `margrave app push FOLDER` pushes them";
    let seen = server.run(&["app", "import", folder.to_str().unwrap()]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert!(seen.stderr.contains("warning: component `") && seen.stderr.contains(missing), "{}", seen.stderr);
    assert!(seen.stderr.contains(bring), "{}", seen.stderr);
    let seen = server.run(&["app", "check", "shift-board"]);
    assert_eq!(seen.code, 1, "{}", seen.stderr);
    assert!(seen.stdout.starts_with("0 of ") && seen.stdout.contains(missing), "{}", seen.stdout);
    assert!(server.run(&["app", "show", "shift-board"]).stdout.contains(missing));
}

#[test]
fn rejects_an_invalid_package_with_all_problems_at_once() {
    let server = Server::start();
    let folder = server.folder.path().join("broken");
    std::fs::create_dir(&folder).unwrap();
    let text = "apiVersion: v1\nid: Broken_Id\nmetadata:\n  name: Broken\n  version: \"1\"\n  catalog:\n    application:\n      icon: ./resources/none.png\n    organization:\n      - site: https://x.example\ndeploymentProfiles: []\n";
    std::fs::write(folder.join("margo.yaml"), text).unwrap();
    let seen = server.run(&["app", "import", folder.to_str().unwrap()]);
    assert_eq!((seen.code, &*seen.stdout), (6, ""), "{}", seen.stderr);
    for problem in [
        "id: line 2",
        "application.icon: line 8: names `./resources/none.png`",
        "organization[0].name: line 10",
        "deploymentProfiles: line 11",
    ] {
        assert!(
            seen.stderr.lines().any(|line| line.starts_with("  - ") && line.contains(problem)),
            "{problem}: {}",
            seen.stderr
        );
    }
    // Every missing resource is reported too.
    let complete = std::fs::read_to_string(samples().join("line-monitor/1.0.0/margo.yaml")).unwrap();
    std::fs::write(folder.join("margo.yaml"), complete).unwrap();
    let seen = server.run(&["app", "import", folder.to_str().unwrap()]);
    assert_eq!(seen.code, 6, "{}", seen.stderr);
    for problem in ["icon.svg", "description.md", "release-notes.md", "license.txt"] {
        assert!(seen.stderr.contains(problem), "{problem}: {}", seen.stderr);
    }
    assert_eq!(server.json(&["app", "list"]), json!([]));
}

#[test]
fn shows_a_problem_of_the_whole_package_without_a_field() {
    let server = Server::start();
    let folder = server.folder.path().join("package");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("notes.txt"), "nothing").unwrap();
    server.run(&["app", "import", folder.to_str().unwrap()]).check(
        6,
        "",
        "error: the package has a problem; fix it and import again
  - the package has no YAML description in its root, such as margo.yaml
",
    );
    std::fs::write(folder.join("margo.yaml"), "id: [1\n").unwrap();
    let seen = server.run(&["app", "import", folder.to_str().unwrap()]);
    assert_eq!(seen.code, 6, "{}", seen.stderr);
    assert!(seen.stderr.contains("\n  - margo.yaml: line 1: the text is not valid YAML"), "{}", seen.stderr);
}

#[test]
fn reports_a_missing_package_folder_before_sending_anything() {
    let server = Server::start();
    server.run(&["app", "import", "/nonexistent"]).check(
        2,
        "",
        "error: no folder or archive `/nonexistent`
  - a package is a folder with margo.yaml and resources/, an archive of such a folder, an OCI layout, or oci://…
",
    );
}

#[test]
fn imports_an_archive_and_names_unsupported_formats() {
    let server = Server::start();
    let archive = server.folder.path().join("package.tar.gz");
    let folder = samples().join("line-monitor/1.0.0");
    let packed = std::process::Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&folder).arg(".").status();
    assert!(packed.unwrap().success());
    let seen = server.run(&["app", "import", archive.to_str().unwrap()]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert!(seen.stdout.starts_with("Imported line-monitor 1.0.0"), "{}", seen.stdout);
    // The components next to the description are for `margrave app push`.
    let line = seen.stderr.lines().find(|line| line.contains("that the catalog does not use")).unwrap();
    assert!(line.ends_with("files that the catalog does not use (-o json lists them)"), "{line}");
    assert!(!seen.stderr.contains("warning:"), "{}", seen.stderr);
    let shown = server.json(&["app", "show", "line-monitor"]);
    assert!(shown["versions"][0]["skipped"].as_array().unwrap().len() > 1, "{shown}");
    std::fs::write(&archive, "PK\u{3}\u{4}").unwrap();
    server.run(&["app", "import", archive.to_str().unwrap()]).check(
        6,
        "",
        "error: this is a ZIP archive; unpack it, then pack the folder that contains `margo.yaml`: `tar -czf package.tar.gz -C FOLDER .`, or use `margrave app import FOLDER`
",
    );
}

#[test]
fn compatibility_gives_a_reason_for_every_incompatible_device() {
    let server = Server::with_samples();
    let _large = Device::start(&server, "large", "8Gi", "");
    let _small = Device::start(&server, "small", "512Mi", "");
    let seen = server.run(&["app", "compatibility", "vibration-analytics"]);
    assert_eq!(seen.code, 0);
    let lines: Vec<_> = seen.stdout.lines().collect();
    assert!(lines[1].starts_with("large   compatible "), "{}", seen.stdout);
    assert!(lines[2].starts_with("small   incompatible "), "{}", seen.stdout);
    assert!(lines[2].contains("memory"), "{}", seen.stdout);
    assert_eq!(
        lines[4],
        "vibration-analytics 2.3.0: 1 compatible, 1 incompatible, 0 unknown; --reasons shows every rule"
    );
    let seen = server.run(&["app", "compatibility", "vibration-analytics", "--reasons"]);
    assert!(seen.stdout.contains("+ "), "{}", seen.stdout);
    assert!(seen.stdout.ends_with(": 1 compatible, 1 incompatible, 0 unknown\n"), "{}", seen.stdout);
    let fits = server.json(&["app", "compatibility", "vibration-analytics"]);
    assert_eq!(fits[0]["outcome"], "compatible");
    assert_eq!(fits[1]["outcome"], "incompatible");
}

#[test]
fn reports_an_unknown_application_as_not_found() {
    let server = Server::start();
    server.run(&["app", "compatibility", "none"]).check(
        5,
        "",
        "error: application `none` does not exist
next: `margrave app list` lists applications, `margrave app import FOLDER` adds a package
",
    );
}
