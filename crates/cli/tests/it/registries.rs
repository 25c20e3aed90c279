//! Other registries, kept and used from the command line; the password never an argument and never shown.

use crate::origin::{Origin, PASSWORD, USER};
use crate::support::{Seen, Server};
use std::io::Write as _;
use std::process::Stdio;

fn typed(server: &Server, arguments: &[&str], text: &str) -> Seen {
    let mut command = server.command(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that refuses before it reads has closed its end.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    Seen::of(child.wait_with_output().unwrap())
}

#[test]
fn a_registry_is_kept_checked_used_changed_and_removed() {
    let server = Server::start();
    let origin = Origin::start(true);
    let (host, ca) = (origin.host(), origin.ca());
    let none = server.run(&["registry", "others"]);
    assert!(none.code == 0 && none.stderr.contains("margrave registry add HOST"), "{}", none.stderr);

    // A wrong password is kept as it was given, and told.
    let add = ["registry", "add", &host, "--username", USER, "--password-stdin", "--registry-ca", &ca];
    let added = typed(&server, &add, "guess\n");
    assert_eq!((added.code, &*added.stdout), (0, "Kept <address>.\n"), "{}", added.stderr);
    assert!(added.stderr.contains("refused the username and password"), "{}", added.stderr);
    let again = typed(&server, &add, "guess\n");
    assert!(again.code == 6 && again.stderr.contains("next: `margrave registry change "), "{}", again.stderr);
    let check = server.run(&["registry", "check", &host]);
    assert_eq!(check.code, 1, "{}", check.stderr);
    assert!(check.stdout.contains("refused the username and password"), "{}", check.stdout);

    let file = server.folder.path().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let change = ["registry", "change", &host, "--password-file", file.to_str().unwrap(), "--reason", "a new one"];
    let changed = server.run(&change);
    assert!(changed.code == 0 && changed.stderr.contains("took the user and password"), "{}", changed.stderr);
    let listed = server.json(&["registry", "others"]);
    assert_eq!((&listed[0]["username"], &listed[0]["revision"]), (&USER.into(), &2.into()));
    assert_eq!(listed[0]["lastCheck"]["outcome"], "answered");
    assert_eq!(server.json(&["registry", "check", &host])["outcome"], "answered");

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
    assert!(imported.stderr.contains(&format!("as {USER}, as kept under Settings.")), "{}", imported.stderr);

    let bare = server.run(&["registry", "change", &host, "--no-login", "--no-ca"]);
    assert!(bare.code == 0 && bare.stderr.contains("certificate is not trusted"), "{}", bare.stderr);
    assert_eq!(server.run(&["registry", "remove", &host]).code, 2, "nobody can be asked");
    let gone = server.run(&["registry", "remove", &host, "--reason", "contract ended", "--yes"]);
    assert_eq!((gone.code, &*gone.stderr), (0, "Removed <address>.\n"));
    assert_eq!(server.run(&["registry", "check", &host]).code, 5);
    let records = server.json(&["audit", "list", "--action", "registry"]).to_string();
    assert!(records.contains("contract ended") && records.contains("a new one"), "{records}");
    let told = format!("{records}{}", server.log());
    assert!(!told.contains(PASSWORD) && !told.contains("guess"), "{told}");
}

#[test]
fn a_password_needs_a_user_and_a_way_to_be_given() {
    let server = Server::start();
    let nobody = server.run(&["registry", "add", "registry.example", "--username", "ci"]);
    assert_eq!(nobody.code, 2);
    assert!(nobody.stderr.ends_with("next: --password-stdin, or --password-file FILE\n"), "{}", nobody.stderr);
    let alone = typed(&server, &["registry", "add", "registry.example", "--password-stdin"], "pass\n");
    assert!(alone.code == 2 && alone.stderr.contains("next: --username USER"), "{}", alone.stderr);
    assert_eq!(server.run(&["registry", "add", "registry.example", "--password", "pass"]).code, 2);
    let odd = server.run(&["registry", "add", "registry.example", "--plain-http"]);
    assert!(odd.code == 6 && odd.stderr.contains("loopback addresses only"), "{}", odd.stderr);
}
