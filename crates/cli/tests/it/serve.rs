//! Starting and stopping the server from the command line.

use crate::support::{CommandOutput, Server, margrave, until};
use std::io::Write as _;

#[test]
fn a_new_server_prints_its_addresses_and_next_steps() {
    let server = Server::start();
    let log = server.log();
    for line in ["devices    https://127.0.0.1:", "operators  http://127.0.0.1:", "Next, in another terminal:"] {
        assert!(log.contains(line), "{log}");
    }
    assert!(log.contains(&format!("token      {}", server.data().join("admin-token").display())), "{log}");
}

#[test]
fn stops_gracefully_on_sigterm() {
    let mut server = Server::start();
    assert_eq!(server.terminate(), 0);
    assert!(server.log().contains("Stopping; finishing open requests first."));
}

#[test]
fn sighup_reloads_without_stopping_the_server() {
    let server = Server::start();
    server.signal(rustix::process::Signal::HUP);
    until("log line about the reload", || server.log().contains("trust anchors").then_some(()));
    assert_eq!(server.run(&["status"]).code, 0);
}

#[test]
fn rejects_a_second_server_on_the_same_data_folder() {
    let server = Server::start();
    let seen = CommandOutput::of(
        server
            .command(&["serve", "--operators", "127.0.0.1:0", "--devices", "127.0.0.1:0", "--trust", "127.0.0.1:0"])
            .output()
            .unwrap(),
    );
    assert_eq!((seen.code, &*seen.stdout), (1, ""));
    assert!(seen.stderr.contains("error: the server did not start\n  - another server is using"), "{}", seen.stderr);
}

#[test]
fn rejects_an_unknown_setting_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("margrave.toml");
    std::fs::write(&file, "offline_after = \"5m\"\noffline_befor = \"5m\"\n").unwrap();
    let seen = CommandOutput::of(margrave(folder.path()).args(["config", "check"]).arg(&file).output().unwrap());
    assert_eq!(seen.code, 2);
    assert!(seen.stderr.contains("line 2"), "{}", seen.stderr);
    assert!(seen.stderr.contains("offline_befor"), "{}", seen.stderr);
    std::fs::write(&file, "offline_after = \"5m\"\n").unwrap();
    let seen = CommandOutput::of(margrave(folder.path()).args(["config", "check"]).arg(&file).output().unwrap());
    assert_eq!(seen.code, 0, "{}", seen.stderr);
}

#[test]
fn doctor_passes_for_a_healthy_server_and_fails_for_an_unreachable_one() {
    let mut server = Server::start();
    let seen = server.run(&["doctor"]);
    assert_eq!(seen.code, 0, "{}", seen.stdout);
    for check in ["disk", "key", "configuration", "connection", "version", "clock", "trust anchors", "audit"] {
        assert!(
            seen.stdout.lines().any(|line| line.starts_with("ok") && line.contains(check)),
            "{check}: {}",
            seen.stdout
        );
    }
    server.terminate();
    let seen = server.run(&["doctor"]);
    assert_eq!(seen.code, 1);
    assert!(seen.stdout.contains("broken   connection: cannot reach the server"), "{}", seen.stdout);
    assert!(seen.stdout.contains("next: "), "{}", seen.stdout);
}

#[test]
fn text_logs_have_colors_only_at_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let serve = |folder: &std::path::Path| {
        let mut command = margrave(folder);
        command.arg("--data").arg(folder.join("data")).args(["serve", "--log", "text"]);
        for listener in ["--devices", "--trust", "--operators"] {
            command.args([listener, "127.0.0.1:0"]);
        }
        command
    };
    let log = folder.path().join("log");
    let mut child = serve(folder.path()).stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    let said = until("a line of the log", || {
        let said = std::fs::read_to_string(&log).unwrap();
        said.contains(" INFO ").then_some(said)
    });
    assert!(!said.contains('\u{1b}'), "{said}");
    child.kill().unwrap();
    child.wait().unwrap();
    // `script` gives it its own terminal.
    for (no_color, colored) in [("", true), ("1", false)] {
        let folder = tempfile::tempdir().unwrap();
        let inner = serve(folder.path());
        let words = [inner.get_program()].into_iter().chain(inner.get_args()).map(|word| word.to_str().unwrap());
        let line = format!("exec {}", words.collect::<Vec<_>>().join(" "));
        let screen = folder.path().join("screen");
        let mut script = std::process::Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env("NO_COLOR", no_color)
            .stdin(std::process::Stdio::piped())
            .stdout(std::fs::File::create(&screen).unwrap())
            .spawn()
            .unwrap();
        let said = until("a line at the terminal", || {
            let said = std::fs::read_to_string(&screen).unwrap();
            (said.contains("INFO") && said.contains("Next, in another terminal")).then_some(said)
        });
        // Ctrl-C ends the server, and with it `script`.
        script.stdin.take().unwrap().write_all(b"\x03").unwrap();
        until("exit of the server", || script.try_wait().unwrap());
        let lines: String = said.lines().filter(|line| line.contains("INFO")).collect();
        assert_eq!(lines.contains('\u{1b}'), colored, "NO_COLOR={no_color}: {said}");
    }
}
