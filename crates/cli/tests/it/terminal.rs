//! At a terminal, what is missing is asked. `script` gives the command a terminal of its own.

use crate::support::{Device, PATIENCE, Server, until};
use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Instant;

#[test]
fn questions_are_asked_by_section_with_rules_and_wrong_answers_again() {
    let server = Server::with_samples();
    let _device = Device::start(&server, "press", "8Gi", "");
    let inner = server.command(&["deploy", "vibration-analytics", "--device", "press"]);
    let line = [inner.get_program()].into_iter().chain(inner.get_args()).map(|word| word.to_str().unwrap());
    let line = line.collect::<Vec<_>>().join(" ");
    let mut script = std::process::Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("XDG_CONFIG_HOME", server.folder.path())
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keys = script.stdin.take().unwrap();
    let mut screen = script.stdout.take().unwrap();
    let (send, pieces) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = screen.read(&mut buffer) {
            let _ = send.send(String::from_utf8_lossy(&buffer[..read]).into_owned());
        }
    });
    let mut seen = String::new();
    let mut from = 0;
    let mut expect = |text: &str, key: &str| {
        let deadline = Instant::now() + PATIENCE;
        while !seen[from..].contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            seen.push_str(&pieces.recv_timeout(left).unwrap_or_else(|_| panic!("no `{text}` in:\n{seen}")));
        }
        from += seen[from..].find(text).unwrap() + text.len();
        keys.write_all(key.as_bytes()).unwrap();
    };
    // PRM-05: by section, in the order of the description.
    expect("Machine", "");
    expect("one of class-1, class-2, class-3, class-4", "");
    expect("class-4", "\x1b[B\r");
    expect("space marks, enter confirms", "");
    expect("fan", "\r");
    expect("Measuring", "");
    expect("6400", "\r");
    expect("1 to 730", "");
    expect("(90)", "900\r");
    expect("Limits", "");
    expect("(2.8)", "\r");
    expect("(7.1)", "\r");
    // PRM-07: refused by the server, asked again.
    expect("retentionDays: ", "");
    expect("at most 730, is 900", "");
    expect("(90)", "30\r");
    expect("Installs vibration-analytics 2.3.0 on 1 device(s).", "");
    expect("Go on?", "y");
    let status = until("end of the command", || script.try_wait().unwrap());
    assert!(status.success());
    let deployments = server.json(&["deployment", "list"]);
    assert_eq!(deployments[0]["values"]["machineClass"], "class-2");
    assert_eq!(deployments[0]["values"]["retentionDays"], 30);
    assert_eq!(deployments[0]["values"]["samplingRate"], 3200);
}
