//! Passwords, sessions, enrollment tokens and the audit log.

use crate::support::{CommandOutput, Device, Server};
use crate::terminal::Terminal;
use std::io::Write as _;
use std::process::{Command, Stdio};

const NEW: &str = "three small words";

fn typed(mut command: Command, text: &str) -> CommandOutput {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that fails before it reads has closed its stdin.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    CommandOutput::of(child.wait_with_output().unwrap())
}

#[test]
fn a_password_is_read_from_stdin_and_never_an_argument() {
    let server = Server::start();
    assert!(server.log().contains(&format!("password   {}", server.data().join("admin-password").display())));
    let set = |text: &str| typed(server.command(&["user", "password", "--password-stdin"]), text);
    let said = "Password of admin set. No sessions ended.\n";
    set(&format!("{NEW}\n")).check(0, "", said);
    assert!(!server.data().join("admin-password").exists());
    let short = set("short\n");
    assert_eq!((short.code, &*short.stdout), (6, ""), "{}", short.stderr);
    assert!(short.stderr.contains("12 to 200 characters"), "{}", short.stderr);
    assert_eq!(set("").code, 2, "empty input");
    let argument = server.run(&["user", "password", "admin", NEW]);
    assert_eq!(argument.code, 2, "{}", argument.stderr);
    let not_a_terminal = server.run(&["user", "password"]);
    assert_eq!(not_a_terminal.code, 2);
    assert!(not_a_terminal.stderr.ends_with("next: --password-stdin\n"), "{}", not_a_terminal.stderr);
    let users = server.json(&["user", "list"]);
    assert_eq!(users[0]["name"], "admin");
    let log = server.log();
    assert!(!log.contains(NEW) && !log.contains("argon2"), "{log}");
}

#[test]
fn prompts_twice_for_a_hidden_password_at_a_terminal() {
    let server = Server::start();
    let mut terminal = Terminal::start(&server, &["user", "password"]);
    terminal.expect_hidden("New password of admin", &format!("{NEW}\r"));
    terminal.expect_hidden("Confirm", &format!("{NEW}\r"));
    terminal.expect("Password of admin set.", "");
    assert!(!terminal.seen().contains(NEW), "{}", terminal.seen());
    assert_eq!(terminal.end(), 0);
}

#[test]
fn sets_a_password_offline_only_while_the_server_is_stopped() {
    let mut server = Server::start();
    let set = |server: &Server| {
        typed(server.command(&["user", "password", "--offline", "--password-stdin"]), &format!("{NEW}\n"))
    };
    let running = set(&server);
    assert_eq!(running.code, 1, "{}", running.stderr);
    assert!(running.stderr.contains("next: stop the server first"), "{}", running.stderr);
    assert_eq!(server.terminate(), 0);
    // The token may be lost as well.
    let token = server.data().join("admin-token");
    let aside = server.folder.path().join("aside");
    std::fs::rename(&token, &aside).unwrap();
    set(&server).check(0, "", "Password of admin set. No sessions ended.\n");
    std::fs::rename(&aside, &token).unwrap();
    server.start_again();
    let records = server.json(&["audit", "list", "--subject", "operator/admin"]);
    assert_eq!(records[0]["action"], "operator.password");
    assert_eq!(records[0]["comment"], "set on the server's machine");
}

#[test]
fn lists_and_revokes_enrollment_tokens() {
    let server = Server::start();
    assert_eq!(server.run(&["client", "enrollment-token", "press-07"]).code, 0);
    let listed = server.json(&["enrollment-token", "list"]);
    assert_eq!((&listed[0]["client"], &listed[0]["state"]), (&"press-07".into(), &"active".into()));
    assert_eq!(server.run(&["enrollment-token", "revoke", "press-07"]).code, 2, "not a terminal");
    let gone = server.run(&["enrollment-token", "revoke", "press-07", "--comment", "wrong plant", "--yes"]);
    gone.check(0, "", "Revoked 1 enrollment token of press-07.\n");
    let again = server.run(&["enrollment-token", "revoke", "press-07", "--yes"]);
    assert_eq!(again.code, 5, "{}", again.stderr);
    let records = server.json(&["audit", "list", "--action", "enrollment-token", "--about", "PRESS", "--since", "1h"]);
    assert_eq!(records.as_array().unwrap().len(), 2, "{records}");
    assert_eq!(records[0]["comment"], "wrong plant");
    assert_eq!(server.json(&["audit", "list", "--actor", "client:press-07"]), serde_json::json!([]));
    assert_eq!(server.json(&["audit", "list", "--until", "1h"]), serde_json::json!([]), "no record is that old");
    assert_eq!(server.run(&["audit", "list", "--since", "yesterday"]).code, 2);
}

#[test]
fn finds_rollouts_by_id_prefix_and_rolls_back_deployments() {
    let server = Server::with_samples();
    let device = Device::start(&server, "press", "8Gi", "");
    let deploy = ["deploy", "line-monitor@1.0.0", "--device", "press", "--set", "lineName=Press 7", "--yes", "--wait"];
    assert_eq!(server.run(&deploy).code, 0);
    let id = server.json(&["rollout", "list"])[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(server.json(&["rollout", "show", &id[..6]])["id"], id.as_str());
    let late = server.run(&["rollout", "cancel", &id[..6], "--yes"]);
    assert_eq!(late.code, 6, "{}", late.stderr);
    assert!(late.stderr.contains("nothing left to cancel"), "{}", late.stderr);
    assert_eq!(server.run(&["rollout", "show", "zzz"]).code, 5);

    let deployment = server.json(&["deployment", "list"])[0]["id"].as_str().unwrap().to_owned();
    let retry = server.run(&["deployment", "retry", &deployment[..8]]);
    assert_eq!(retry.code, 6, "it has not failed: {}", retry.stderr);
    let rollout = ["deployment", "reconfigure", &deployment, "--set", "sampleSeconds=10", "--yes", "--wait"];
    assert_eq!(server.run(&rollout).code, 0);
    let plan = server.run(&["deployment", "rollback", &deployment[..8], "--to", "1", "--dry-run"]);
    assert_eq!(plan.code, 0, "{}", plan.stderr);
    assert!(plan.stdout.contains("Nothing was changed (dry run)."), "{}", plan.stdout);
    let back = server.run(&["deployment", "rollback", &deployment[..8], "--to", "1", "--yes", "--wait"]);
    assert_eq!(back.code, 0, "{}", back.stderr);
    let now = server.json(&["deployment", "show", &deployment]);
    assert_eq!((&now["revision"], &now["state"]), (&3.into(), &"up-to-date".into()));
    assert_ne!(now["values"]["sampleSeconds"], 10);
    assert_eq!(server.json(&["device", "list", "--text", "PRE"])[0]["device"], "press");
    assert_eq!(server.json(&["device", "list", "--state", "failed"]), serde_json::json!([]));
    assert_eq!(server.json(&["client", "list", "--state", "accepted"])[0]["id"], "press");
    drop(device);
}
