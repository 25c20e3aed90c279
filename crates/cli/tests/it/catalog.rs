//! Packages come in, broken ones do not.

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
        "See where it fits: margrave app fit line-monitor\n",
    );
    server.run(&["app", "import", folder, "-q"]).check(
        0,
        "line-monitor 1.0.0 was there already, exactly the same.\n",
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
fn what_registries_lack_is_told_when_a_package_comes_and_whenever_somebody_asks() {
    let server = Server::start_with("[catalog]\nask_registries = true");
    let folder = samples().join("shift-board/1.0.0");
    let missing = "nobody has registry `registry.margrave.example`, which is a name for examples";
    let bring = "The server's own registry can have them: `margrave app push FOLDER` pushes them";
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
fn a_broken_package_is_refused_with_all_problems_at_once() {
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
    // Every resource that is named and not there is told as well.
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
fn a_problem_of_the_package_as_a_whole_has_no_field_before_it() {
    let server = Server::start();
    let folder = server.folder.path().join("package");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("notes.txt"), "nothing").unwrap();
    server.run(&["app", "import", folder.to_str().unwrap()]).check(
        6,
        "",
        "error: the package has a problem; correct it and import again
  - the package has no YAML description in its root, such as margo.yaml
",
    );
    std::fs::write(folder.join("margo.yaml"), "id: [1\n").unwrap();
    let seen = server.run(&["app", "import", folder.to_str().unwrap()]);
    assert_eq!(seen.code, 6, "{}", seen.stderr);
    assert!(seen.stderr.contains("\n  - margo.yaml: line 1: the text is not valid YAML"), "{}", seen.stderr);
}

#[test]
fn what_is_no_folder_is_told_before_anything_is_sent() {
    let server = Server::start();
    server.run(&["app", "import", "/nonexistent"]).check(
        2,
        "",
        "error: there is no folder or archive `/nonexistent`
  - a package is a folder with margo.yaml and resources/, an archive of one, an OCI layout, or oci://…
",
    );
}

#[test]
fn an_archive_is_imported_as_it_is_and_anything_else_is_called_what_it_is() {
    let server = Server::start();
    let archive = server.folder.path().join("package.tar.gz");
    let folder = samples().join("line-monitor/1.0.0");
    let packed = std::process::Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&folder).arg(".").status();
    assert!(packed.unwrap().success());
    let seen = server.run(&["app", "import", archive.to_str().unwrap()]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert!(seen.stdout.starts_with("Imported line-monitor 1.0.0"), "{}", seen.stdout);
    // The components beside the description are for `margrave app push`.
    let line = seen.stderr.lines().find(|line| line.contains("not needed by the catalog")).unwrap();
    assert!(line.ends_with("files of the package are not needed by the catalog (-o json lists them)"), "{line}");
    assert!(!seen.stderr.contains("warning:"), "{}", seen.stderr);
    let shown = server.json(&["app", "show", "line-monitor"]);
    assert!(shown["versions"][0]["leftOut"].as_array().unwrap().len() > 1, "{shown}");
    std::fs::write(&archive, "PK\u{3}\u{4}").unwrap();
    server.run(&["app", "import", archive.to_str().unwrap()]).check(
        6,
        "",
        "error: this is a ZIP archive; unpack it, then pack the folder that holds `margo.yaml`: `tar -czf package.tar.gz -C FOLDER .`, or let `margrave app import FOLDER` do it
",
    );
}

#[test]
fn fit_gives_a_reason_for_every_device_that_cannot() {
    let server = Server::with_samples();
    let _large = Device::start(&server, "large", "8Gi", "");
    let _small = Device::start(&server, "small", "512Mi", "");
    let seen = server.run(&["app", "fit", "vibration-analytics"]);
    assert_eq!(seen.code, 0);
    let lines: Vec<_> = seen.stdout.lines().collect();
    assert!(lines[1].starts_with("large   fits "), "{}", seen.stdout);
    assert!(lines[2].starts_with("small   does not fit "), "{}", seen.stdout);
    assert!(lines[2].contains("memory"), "{}", seen.stdout);
    assert_eq!(
        lines[4],
        "vibration-analytics 2.3.0: fits 1, does not fit 1, unknown 0; --reasons shows every rule, also those that hold"
    );
    let seen = server.run(&["app", "fit", "vibration-analytics", "--reasons"]);
    assert!(seen.stdout.contains("+ "), "{}", seen.stdout);
    assert!(seen.stdout.ends_with(": fits 1, does not fit 1, unknown 0\n"), "{}", seen.stdout);
    let fits = server.json(&["app", "fit", "vibration-analytics"]);
    assert_eq!(fits[0]["outcome"], "fits");
    assert_eq!(fits[1]["outcome"], "does-not-fit");
}

#[test]
fn an_application_nobody_has_is_not_found() {
    let server = Server::start();
    server.run(&["app", "fit", "none"]).check(
        5,
        "",
        "error: no application `none` in the catalog
next: `margrave app list` shows what is there, `margrave app import FOLDER` adds a package
",
    );
}
