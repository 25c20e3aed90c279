//! Tokens and the saved login.

use crate::support::{CommandOutput, Server, margrave};
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn saves_a_login_readable_only_by_its_owner_and_uses_it() {
    let server = Server::start();
    let token = server.data().join("admin-token");
    let home = server.folder.path();
    let login = CommandOutput::of(
        margrave(home).args(["login", "--url", &server.url(), "--token-file"]).arg(&token).output().unwrap(),
    );
    assert_eq!((login.code, &*login.stdout), (0, ""), "{}", login.stderr);
    assert!(login.stderr.contains("Logged in to http://<address> as token:admin"), "{}", login.stderr);
    let saved = home.join("margrave/login.toml");
    assert_eq!(saved.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let status = CommandOutput::of(margrave(home).args(["status", "-o", "json"]).output().unwrap());
    assert_eq!(status.code, 0, "{}", status.stderr);
    let logout = CommandOutput::of(margrave(home).arg("logout").output().unwrap());
    assert_eq!(logout.code, 0);
    assert!(!saved.exists());
}

#[test]
fn rejects_a_wrong_token_and_shows_the_next_step() {
    let server = Server::start();
    let seen = CommandOutput::of(
        margrave(server.folder.path())
            .args(["app", "list", "--url", &server.url()])
            .env("MARGRAVE_TOKEN", "mgv_wrong")
            .output()
            .unwrap(),
    );
    assert_eq!((seen.code, &*seen.stdout), (4, ""));
    assert!(seen.stderr.starts_with("error: "), "{}", seen.stderr);
    assert!(seen.stderr.contains("\nnext: `margrave login --url URL --token-file FILE`"), "{}", seen.stderr);
}

#[test]
fn does_not_save_an_invalid_token() {
    let server = Server::start();
    let file = server.folder.path().join("wrong");
    std::fs::write(&file, "mgv_wrong").unwrap();
    let seen = CommandOutput::of(
        margrave(server.folder.path())
            .args(["login", "--url", &server.url(), "--token-file"])
            .arg(&file)
            .output()
            .unwrap(),
    );
    assert_eq!(seen.code, 4, "{}", seen.stderr);
    assert!(!server.folder.path().join("margrave/login.toml").exists());
}

#[test]
fn a_new_token_works_until_it_is_revoked() {
    let server = Server::start();
    let token = server.json(&["token", "create", "ci", "--valid-for", "1h"]);
    let with = |secret: &str| {
        let mut command = margrave(server.folder.path());
        command.args(["status", "-q", "--url", &server.url()]).env("MARGRAVE_TOKEN", secret);
        CommandOutput::of(command.output().unwrap()).code
    };
    let secret = token["secret"].as_str().unwrap();
    assert_eq!(with(secret), 0);
    assert_eq!(server.run(&["token", "revoke", token["id"].as_str().unwrap(), "--yes"]).code, 0);
    assert_eq!(with(secret), 4);
}

#[test]
fn a_repeated_idempotency_key_returns_the_same_result_without_side_effects() {
    let server = Server::start();
    let create = || {
        let mut command = margrave(server.folder.path());
        command.args(["token", "create", "robots", "--idempotency-key", "nightly", "-o", "json", "--data"]);
        command.arg(server.data()).output().unwrap()
    };
    let (first, second) = (create(), create());
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert_eq!(first.stdout, second.stdout, "the secret too");
    for selector in ["line=1", "line=2"] {
        let key = format!("put-{selector}");
        let put = ["group", "put", "presses", "--selector", selector, "--idempotency-key", &key];
        let (first, second) = (server.json(&put), server.json(&put));
        assert_eq!(first, second, "creating and changing alike");
    }
    assert_eq!(server.json(&["group", "show", "presses"])["revision"], 2);
    let other = margrave(server.folder.path())
        .args(["token", "create", "external", "--idempotency-key", "nightly", "--data"])
        .arg(server.data())
        .output()
        .unwrap();
    let seen = CommandOutput::of(other);
    assert_eq!(seen.code, 6, "{}", seen.stderr);
    assert!(seen.stderr.contains("was used for another request"), "{}", seen.stderr);
}
