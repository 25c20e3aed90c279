//! Who may come in, and where the login is kept.

use crate::support::{Seen, Server, margrave};
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn a_login_is_kept_for_its_owner_only_and_used_from_then_on() {
    let server = Server::start();
    let token = server.data().join("admin-token");
    let home = server.folder.path();
    let login =
        Seen::of(margrave(home).args(["login", "--url", &server.url(), "--token-file"]).arg(&token).output().unwrap());
    assert_eq!((login.code, &*login.stdout), (0, ""), "{}", login.stderr);
    assert!(login.stderr.contains("Logged in to http://<address> as token:admin"), "{}", login.stderr);
    let saved = home.join("margrave/login.toml");
    assert_eq!(saved.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let status = Seen::of(margrave(home).args(["status", "-o", "json"]).output().unwrap());
    assert_eq!(status.code, 0, "{}", status.stderr);
    let logout = Seen::of(margrave(home).arg("logout").output().unwrap());
    assert_eq!(logout.code, 0);
    assert!(!saved.exists());
}

#[test]
fn a_wrong_token_is_refused_and_the_next_step_shown() {
    let server = Server::start();
    let seen = Seen::of(
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
fn a_token_that_does_not_work_is_not_saved() {
    let server = Server::start();
    let file = server.folder.path().join("wrong");
    std::fs::write(&file, "mgv_wrong").unwrap();
    let seen = Seen::of(
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
        Seen::of(command.output().unwrap()).code
    };
    let secret = token["secret"].as_str().unwrap();
    assert_eq!(with(secret), 0);
    assert_eq!(server.run(&["token", "revoke", token["id"].as_str().unwrap(), "--yes"]).code, 0);
    assert_eq!(with(secret), 4);
}

#[test]
fn a_command_repeated_with_its_key_answers_the_same_and_does_nothing_more() {
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
        .args(["token", "create", "others", "--idempotency-key", "nightly", "--data"])
        .arg(server.data())
        .output()
        .unwrap();
    let seen = Seen::of(other);
    assert_eq!(seen.code, 6, "{}", seen.stderr);
    assert!(seen.stderr.contains("was used for another request"), "{}", seen.stderr);
}
