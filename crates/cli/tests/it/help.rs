//! Help that teaches, and a command line that says what is wrong with it.

use crate::support::{Seen, margrave};

fn run(arguments: &[&str]) -> Seen {
    let home = tempfile::tempdir().unwrap();
    Seen::of(margrave(home.path()).args(arguments).output().unwrap())
}

#[test]
fn help_lists_the_commands_the_first_steps_and_the_exit_codes() {
    run(&["--help"]).check(0, include_str!("help.txt"), "");
}

#[test]
fn every_command_has_help() {
    for command in [
        "serve",
        "demo",
        "sim",
        "config",
        "login",
        "logout",
        "status",
        "app",
        "device",
        "client",
        "invitation",
        "group",
        "deploy",
        "deployment",
        "change",
        "registry",
        "trust",
        "token",
        "user",
        "session",
        "audit",
        "events",
        "doctor",
        "completions",
        "man",
    ] {
        let seen = run(&[command, "--help"]);
        assert_eq!(seen.code, 0, "{command}");
        assert!(seen.stdout.contains("Usage: margrave "), "{command}");
    }
}

#[test]
fn a_deployment_needs_to_know_where() {
    let seen = run(&["deploy", "line-monitor"]);
    assert_eq!(seen.code, 2);
    assert!(seen.stderr.contains("<--device <DEVICE>|--selector <SELECTOR>|--group <GROUP>|--all>"), "{}", seen.stderr);
}

#[test]
fn without_a_server_the_way_to_one_is_shown() {
    run(&["device", "list"]).check(
        2,
        "",
        "error: no server is named
  - neither --url, --data nor MARGRAVE_URL is given, and nobody has logged in
next: `margrave login --url URL --token-file FILE`, or `--data DIR` for a server on this machine
",
    );
}

#[test]
fn a_server_that_is_not_there_is_told_from_one_that_refuses() {
    let home = tempfile::tempdir().unwrap();
    // A port that was free a moment ago: nobody listens on it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let seen = Seen::of(
        margrave(home.path())
            .args(["device", "list", "--url", &format!("http://127.0.0.1:{port}")])
            .env("MARGRAVE_TOKEN", "mgv_x")
            .output()
            .unwrap(),
    );
    assert_eq!((seen.code, &*seen.stdout), (3, ""));
    assert!(seen.stderr.contains("cannot reach the server at http://<address>"), "{}", seen.stderr);
    assert!(seen.stderr.contains("next: `margrave doctor`"), "{}", seen.stderr);
}
