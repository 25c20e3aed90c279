//! External registries from the command line; the password is never an argument and never shown.

use crate::origin::{Origin, PASSWORD, USER};
use crate::support::{CommandOutput, Server};
use std::io::Write as _;
use std::process::Stdio;

fn typed(server: &Server, arguments: &[&str], text: &str) -> CommandOutput {
    let mut command = server.command(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that fails before it reads has closed its stdin.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    CommandOutput::of(child.wait_with_output().unwrap())
}

#[test]
fn adds_checks_uses_updates_and_removes_an_external_registry() {
    let server = Server::start();
    let origin = Origin::start(true);
    let (host, ca) = (origin.host(), origin.ca());
    let none = server.run(&["registry", "external"]);
    assert!(none.code == 0 && none.stderr.contains("margrave registry add HOST"), "{}", none.stderr);

    // A wrong password is saved anyway, and reported.
    let add = ["registry", "add", &host, "--username", USER, "--password-stdin", "--registry-ca", &ca];
    let added = typed(&server, &add, "guess\n");
    assert_eq!((added.code, &*added.stdout), (0, "Added <address>.\n"), "{}", added.stderr);
    assert!(added.stderr.contains("refused the username and password"), "{}", added.stderr);
    let again = typed(&server, &add, "guess\n");
    assert!(again.code == 6 && again.stderr.contains("next: `margrave registry update "), "{}", again.stderr);
    let check = server.run(&["registry", "check", &host]);
    assert_eq!(check.code, 1, "{}", check.stderr);
    assert!(check.stdout.contains("refused the username and password"), "{}", check.stdout);

    let file = server.folder.path().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let rollout = ["registry", "update", &host, "--password-file", file.to_str().unwrap(), "--comment", "a new one"];
    let changed = server.run(&rollout);
    assert!(changed.code == 0 && changed.stderr.contains("the user and password were accepted"), "{}", changed.stderr);
    let listed = server.json(&["registry", "external"]);
    assert_eq!((&listed[0]["username"], &listed[0]["revision"]), (&USER.into(), &2.into()));
    assert_eq!(listed[0]["lastCheck"]["outcome"], "reachable");
    assert_eq!(server.json(&["registry", "check", &host])["outcome"], "reachable");

    let app = server.folder.path().join("app");
    std::fs::create_dir_all(&app).unwrap();
    let description = format!(
        "apiVersion: v1\nid: press\nmetadata:\n  name: Press\n  version: 1.0.0\n  catalog:\n    organization: [{{ name: Example }}]\ndeploymentProfiles:\n  - type: compose\n    id: small\n    components:\n      - name: press\n        properties: {{ repository: 'oci://{host}/press', revision: 1.0.0 }}\n"
    );
    std::fs::write(app.join("margo.yaml"), description).unwrap();
    let to = format!("oci://{host}/apps/press");
    let push = ["app", "push", app.to_str().unwrap(), "--to", &to, "--registry-ca", &ca, "--no-import"];
    let push = [&push[..], &["--username", USER, "--password-stdin"]].concat();
    let pushed = typed(&server, &push, PASSWORD);
    assert_eq!(pushed.code, 0, "{}", pushed.stderr);
    let imported = server.run(&["app", "import", &format!("{to}:1.0.0")]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    assert!(imported.stderr.contains(&format!("as {USER}, as stored under Settings.")), "{}", imported.stderr);

    let bare = server.run(&["registry", "update", &host, "--no-login", "--no-ca"]);
    assert!(bare.code == 0 && bare.stderr.contains("certificate is not trusted"), "{}", bare.stderr);
    assert_eq!(server.run(&["registry", "remove", &host]).code, 2, "not a terminal");
    let gone = server.run(&["registry", "remove", &host, "--comment", "contract ended", "--yes"]);
    assert_eq!((gone.code, &*gone.stderr), (0, "Removed <address>.\n"));
    assert_eq!(server.run(&["registry", "check", &host]).code, 5);
    let records = server.json(&["audit", "list", "--action", "registry"]).to_string();
    assert!(records.contains("contract ended") && records.contains("a new one"), "{records}");
    let output = format!("{records}{}", server.log());
    assert!(!output.contains(PASSWORD) && !output.contains("guess"), "{output}");
}

#[test]
fn a_registry_password_requires_a_user_and_a_source() {
    let server = Server::start();
    let without_terminal = server.run(&["registry", "add", "registry.example", "--username", "ci"]);
    assert_eq!(without_terminal.code, 2);
    assert!(
        without_terminal.stderr.ends_with("next: --password-stdin, or --password-file FILE\n"),
        "{}",
        without_terminal.stderr
    );
    let alone = typed(&server, &["registry", "add", "registry.example", "--password-stdin"], "pass\n");
    assert!(alone.code == 2 && alone.stderr.contains("next: --username USER"), "{}", alone.stderr);
    assert_eq!(server.run(&["registry", "add", "registry.example", "--password", "pass"]).code, 2);
    let odd = server.run(&["registry", "add", "registry.example", "--plain-http"]);
    assert!(odd.code == 6 && odd.stderr.contains("loopback addresses only"), "{}", odd.stderr);
}
