//! `margrave events`: the history, and following it across server restarts.

use crate::support::{Device, Server, until};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

/// A running command and the lines it has written so far.
pub(crate) struct Follower {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    errors: Arc<Mutex<Vec<String>>>,
}

impl Follower {
    pub(crate) fn start(server: &Server, arguments: &[&str]) -> Self {
        let mut child = server.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = collected(child.stdout.take().unwrap());
        let errors = collected(child.stderr.take().unwrap());
        Self { child, lines, errors }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub(crate) fn errors(&self) -> String {
        self.errors.lock().unwrap().join("\n")
    }

    /// Waits until the lines satisfy a condition.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, requested: impl Fn(&[String]) -> bool) -> Vec<String> {
        until(what, || Some(self.lines()).filter(|lines| requested(lines)))
    }

    /// Sends Ctrl-C; returns the exit code.
    pub(crate) fn interrupt(mut self) -> i32 {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        until("exit of the command", || self.child.try_wait().unwrap()).code().expect("not killed by a signal")
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collected(stream: impl std::io::Read + Send + 'static) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            kept.lock().unwrap().push(line);
        }
    });
    lines
}

fn events(server: &Server, arguments: &[&str]) -> Vec<Value> {
    let output = server.command(&["events", "-o", "json"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["kind"].as_str().unwrap()).collect()
}

#[test]
fn shows_events_in_order_and_filters_them() {
    let server = Server::start();
    for name in ["one", "two"] {
        assert_eq!(server.run(&["client", "accept", name]).code, 0);
    }
    assert_eq!(server.run(&["group", "put", "presses", "--selector", "line=1"]).code, 0);
    server.run(&["events"]).check(
        0,
        "     1  <time>  token.created             token `admin` was created
     2  <time>  operator.created          operator `admin` was created
     3  <time>  server.started            server `spiffe://margrave.internal/margo/wfm/main` 0.1.0 started
     4  <time>  client.created            client `one` was created (token:admin)
     5  <time>  client.created            client `two` was created (token:admin)
     6  <time>  group.created             group `presses` was created (token:admin)
",
        "",
    );
    assert_eq!(kinds(&events(&server, &["--client", "two"])), ["client.created"]);
    assert_eq!(kinds(&events(&server, &["--kind", "group", "--since", "1h"])), ["group.created"]);
    assert_eq!(kinds(&events(&server, &["--limit", "2"])), ["client.created", "group.created"], "the newest");
    assert_eq!(kinds(&events(&server, &["--after", "3", "--limit", "1"])), ["client.created"]);
    assert_eq!(kinds(&events(&server, &["--follow", "--after", "3", "--limit", "1"])), ["client.created"]);
    let none = server.run(&["events", "--kind", "nothing"]);
    none.check(0, "", "No matching events are stored.\n");
    assert_eq!(server.run(&["events", "--since", "soon"]).code, 2);
}

#[test]
fn following_survives_a_killed_server_without_lost_or_duplicate_events() {
    let mut server = Server::start();
    let follower = Follower::start(&server, &["events", "--follow", "--after", "0", "-o", "json"]);
    for round in 0..3 {
        for number in 0..5 {
            assert_eq!(server.run(&["client", "accept", &format!("press-{round}-{number}")]).code, 0);
        }
        server.kill();
        server.start_again();
    }
    assert_eq!(server.run(&["client", "accept", "last"]).code, 0);
    let lines = follower.until("the last event", |lines| lines.last().is_some_and(|line| line.contains("`last`")));
    let seen: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<i64> = seen.iter().map(|event| event["id"].as_i64().unwrap()).collect();
    assert_eq!(ids, (1..=ids.len() as i64).collect::<Vec<_>>());
    assert_eq!(seen, events(&server, &["--after", "0"]), "same as the history");
    assert_eq!(seen.iter().filter(|event| event["kind"] == "server.started").count(), 4);
    let talk = follower.errors();
    assert!(talk.contains("Lost the connection"), "{talk}");
    assert!(talk.contains("Reconnected"), "{talk}");
    assert_eq!(follower.interrupt(), 0);
}

#[test]
fn follows_the_events_of_a_deployment_and_its_removal() {
    let server = Server::with_samples();
    let follower =
        Follower::start(&server, &["events", "--follow", "--after", "0", "--kind", "deployment", "-o", "json"]);
    let _device = Device::start(&server, "press", "8Gi", "");
    let deploy = ["deploy", "line-monitor@1.0.0", "--device", "press", "--set", "lineName=Press 7", "--wait"];
    assert_eq!(server.run(&deploy).code, 0);
    assert_eq!(server.run(&["deployment", "remove", "--app", "line-monitor", "--all", "--wait", "--yes"]).code, 0);
    let lines = follower.until("removal", |lines| lines.iter().any(|line| line.contains("deployment.removed")));
    let seen: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen_kinds = kinds(&seen);
    assert_eq!(seen_kinds.first(), Some(&"deployment.assigned"));
    for expected in ["deployment.installed", "deployment.unassigned", "deployment.removed"] {
        assert!(seen_kinds.contains(&expected), "{seen_kinds:?}");
    }
    assert!(seen.iter().all(|event| event["device"] == "press" && event["application"] == "line-monitor"));
    assert!(!lines.iter().any(|line| line.contains("Press 7")), "events contain no values");
}
