//! Help texts and errors of the command line.

use crate::support::{CommandOutput, margrave};

fn run(arguments: &[&str]) -> CommandOutput {
    let home = tempfile::tempdir().unwrap();
    CommandOutput::of(margrave(home.path()).args(arguments).output().unwrap())
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
        "enrollment-token",
        "group",
        "deploy",
        "deployment",
        "rollout",
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
fn deploy_requires_target_devices() {
    let seen = run(&["deploy", "line-monitor"]);
    assert_eq!(seen.code, 2);
    assert!(seen.stderr.contains("<--device <DEVICE>|--selector <SELECTOR>|--group <GROUP>|--all>"), "{}", seen.stderr);
}

#[test]
fn suggests_how_to_set_a_server_without_one() {
    run(&["device", "list"]).check(
        2,
        "",
        "error: no server given
  - neither --url, --data nor MARGRAVE_URL is set, and there is no saved login
next: `margrave login --url URL --token-file FILE`, or `--data DIR` for a local server
",
    );
}

#[test]
fn distinguishes_an_unreachable_server_from_one_that_rejects() {
    let home = tempfile::tempdir().unwrap();
    // A free port: nothing listens on it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let seen = CommandOutput::of(
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
