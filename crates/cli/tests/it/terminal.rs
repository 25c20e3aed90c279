//! Prompts at a terminal. `script` gives the command its own terminal.

use crate::support::{Device, PATIENCE, Server, until};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;

pub(crate) struct Terminal {
    script: Child,
    keys: ChildStdin,
    pieces: Receiver<String>,
    seen: String,
    from: usize,
}

impl Terminal {
    pub(crate) fn start(server: &Server, arguments: &[&str]) -> Self {
        let inner = server.command(arguments);
        let line = [inner.get_program()].into_iter().chain(inner.get_args()).map(|word| word.to_str().unwrap());
        // `exec`, because a remaining shell would receive Ctrl-C too, and some shells then exit with 130.
        let line = format!("exec {}", line.collect::<Vec<_>>().join(" "));
        let mut script = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("XDG_CONFIG_HOME", server.folder.path())
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let keys = script.stdin.take().unwrap();
        let mut screen = script.stdout.take().unwrap();
        let (send, pieces) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                let _ = send.send(String::from_utf8_lossy(&buffer[..read]).into_owned());
            }
        });
        Self { script, keys, pieces, seen: String::new(), from: 0 }
    }

    /// Waits for a text after the last one, then presses keys.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str, key: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.seen[self.from..].contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            let piece = self.pieces.recv_timeout(left);
            self.seen.push_str(&piece.unwrap_or_else(|_| panic!("no `{text}` in:\n{}", self.seen)));
        }
        self.from += self.seen[self.from..].find(text).unwrap() + text.len();
        self.keys.write_all(key.as_bytes()).unwrap();
    }

    /// Like [`Self::expect`], for hidden input: presses the keys once the terminal has disabled echo.
    #[track_caller]
    pub(crate) fn expect_hidden(&mut self, text: &str, key: &str) {
        self.expect(text, "");
        let own = self.script.id();
        until("echo turned off", || {
            let child = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
            let terminal = std::fs::read_link(format!("/proc/{}/fd/0", child.split_whitespace().next()?)).ok()?;
            let settings = Command::new("stty").arg("-aF").arg(terminal).output().ok()?;
            String::from_utf8_lossy(&settings.stdout).split_whitespace().any(|one| one == "-echo").then_some(())
        });
        self.keys.write_all(key.as_bytes()).unwrap();
    }

    /// The screen output so far.
    pub(crate) fn seen(&self) -> &str {
        &self.seen
    }

    /// Waits for the command and returns its exit code.
    pub(crate) fn end(mut self) -> i32 {
        until("exit of the command", || self.script.try_wait().unwrap()).code().expect("not killed by a signal")
    }
}

#[test]
fn prompts_by_section_with_rules_and_repeats_for_invalid_values() {
    let server = Server::with_samples();
    let _device = Device::start(&server, "press", "8Gi", "");
    let mut terminal = Terminal::start(&server, &["deploy", "vibration-analytics", "--device", "press"]);
    // PRM-05: by section, in the order of the description.
    terminal.expect("Machine", "");
    terminal.expect("one of class-1, class-2, class-3, class-4", "");
    terminal.expect("class-4", "\x1b[B\r");
    terminal.expect("space selects, enter confirms", "");
    terminal.expect("fan", "\r");
    terminal.expect("Measuring", "");
    terminal.expect("6400", "\r");
    terminal.expect("1 to 730", "");
    terminal.expect("(90)", "900\r");
    terminal.expect("Limits", "");
    terminal.expect("(2.8)", "\r");
    terminal.expect("(7.1)", "\r");
    // PRM-07: the server rejects the value, the command prompts again.
    terminal.expect("retentionDays: ", "");
    terminal.expect("at most 730, is 900", "");
    terminal.expect("(90)", "30\r");
    terminal.expect("Installs vibration-analytics 2.3.0 on 1 device.", "");
    terminal.expect("Continue?", "y");
    assert_eq!(terminal.end(), 0);
    // The server publishes after it has accepted the rollout.
    let deployments =
        until("deployment", || Some(server.json(&["deployment", "list"])).filter(|all| *all != json!([])));
    assert_eq!(deployments[0]["values"]["machineClass"], "class-2");
    assert_eq!(deployments[0]["values"]["retentionDays"], 30);
    assert_eq!(deployments[0]["values"]["samplingRate"], 3200);
}

#[test]
fn prompts_before_a_removal_and_defaults_to_no() {
    let server = Server::with_samples();
    let _press = Device::start(&server, "press", "8Gi", "");
    let deploy = ["deploy", "vibration-analytics", "--all", "--set", "machineClass=class-2", "--wait"];
    assert_eq!(server.run(&deploy).code, 0);
    let remove = ["deployment", "remove", "--app", "vibration-analytics", "--all"];
    let mut terminal = Terminal::start(&server, &remove);
    terminal.expect("Remove vibration-analytics from 1 device?", "\r");
    terminal.expect("nothing was changed", "");
    assert_eq!(terminal.end(), 1);
    assert_eq!(server.json(&["deployment", "list"])[0]["desired"], "present");
    let mut terminal = Terminal::start(&server, &remove);
    terminal.expect("Remove vibration-analytics from 1 device?", "y");
    assert_eq!(terminal.end(), 0);
    until("removal", || (server.json(&["deployment", "list"]) == json!([])).then_some(()));
}

#[test]
fn does_not_wrap_words_at_a_terminal_without_width() {
    let server = Server::with_samples();
    // The terminal of `script` has zero columns if its input is not a terminal.
    let mut terminal = Terminal::start(&server, &["app", "list"]);
    terminal.expect("vibration-analytics", "");
    terminal.expect("Margrave Samples", "");
    assert_eq!(terminal.end(), 0);
}
