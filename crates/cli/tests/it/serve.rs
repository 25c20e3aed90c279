//! Starting and stopping the server from the command line.

use crate::support::{Seen, Server, margrave, until};
use std::io::Write as _;

#[test]
fn a_fresh_server_says_where_it_listens_and_what_to_do_next() {
    let server = Server::start();
    let log = server.log();
    for line in ["devices    https://127.0.0.1:", "operators  http://127.0.0.1:", "Next, in another terminal:"] {
        assert!(log.contains(line), "{log}");
    }
    assert!(log.contains(&format!("token      {}", server.data().join("admin-token").display())), "{log}");
}

#[test]
fn a_server_stops_gracefully_when_told() {
    let mut server = Server::start();
    assert_eq!(server.terminate(), 0);
    assert!(server.log().contains("Stopping; requests under way are finished first."));
}

#[test]
fn a_hangup_reloads_and_the_server_goes_on() {
    let server = Server::start();
    server.signal(rustix::process::Signal::HUP);
    until("word about the reload", || server.log().contains("trust anchors").then_some(()));
    assert_eq!(server.run(&["status"]).code, 0);
}

#[test]
fn a_second_server_on_the_same_folder_is_refused() {
    let server = Server::start();
    let seen = Seen::of(
        server
            .command(&["serve", "--operators", "127.0.0.1:0", "--devices", "127.0.0.1:0", "--trust", "127.0.0.1:0"])
            .output()
            .unwrap(),
    );
    assert_eq!((seen.code, &*seen.stdout), (1, ""));
    assert!(seen.stderr.contains("error: the server did not start\n  - another server is using"), "{}", seen.stderr);
}

#[test]
fn a_configuration_with_an_unknown_setting_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("margrave.toml");
    std::fs::write(&file, "silent_after = \"5m\"\nsilent_befor = \"5m\"\n").unwrap();
    let seen = Seen::of(margrave(folder.path()).args(["config", "check"]).arg(&file).output().unwrap());
    assert_eq!(seen.code, 2);
    assert!(seen.stderr.contains("line 2"), "{}", seen.stderr);
    assert!(seen.stderr.contains("silent_befor"), "{}", seen.stderr);
    std::fs::write(&file, "silent_after = \"5m\"\n").unwrap();
    let seen = Seen::of(margrave(folder.path()).args(["config", "check"]).arg(&file).output().unwrap());
    assert_eq!(seen.code, 0, "{}", seen.stderr);
}

#[test]
fn the_doctor_passes_a_healthy_server_and_fails_an_unreachable_one() {
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
fn a_log_as_text_has_colours_at_a_terminal_only() {
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
    // `script` gives it a terminal of its own.
    for (no_colour, coloured) in [("", true), ("1", false)] {
        let folder = tempfile::tempdir().unwrap();
        let inner = serve(folder.path());
        let words = [inner.get_program()].into_iter().chain(inner.get_args()).map(|word| word.to_str().unwrap());
        let line = format!("exec {}", words.collect::<Vec<_>>().join(" "));
        let screen = folder.path().join("screen");
        let mut script = std::process::Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env("NO_COLOR", no_colour)
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
        until("end of the server", || script.try_wait().unwrap());
        let lines: String = said.lines().filter(|line| line.contains("INFO")).collect();
        assert_eq!(lines.contains('\u{1b}'), coloured, "NO_COLOR={no_colour}: {said}");
    }
}
