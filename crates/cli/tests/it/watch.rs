//! `--watch`: repeats a command on every change.

use crate::events::Follower;
use crate::support::{Server, until};
use crate::terminal::Terminal;
use serde_json::Value;

fn put(server: &Server, name: &str) {
    assert_eq!(server.run(&["group", "put", name, "--selector", "line=1"]).code, 0);
}

fn names(line: &str) -> Vec<String> {
    let groups: Value = serde_json::from_str(line).unwrap();
    groups.as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn watch_prints_one_json_document_per_update() {
    let server = Server::start();
    let watch = Follower::start(&server, &["group", "list", "--watch", "-o", "json"]);
    watch.until("the first output", |lines| lines.len() == 1);
    put(&server, "one");
    watch.until("the group", |lines| lines.len() == 2);
    // Another event: the command runs again, finds the same output and does not show it.
    assert_eq!(server.run(&["client", "accept", "press"]).code, 0);
    put(&server, "two");
    let lines = watch.until("the second group", |lines| lines.len() == 3);
    let shown: Vec<Vec<String>> = lines.iter().map(|line| names(line)).collect();
    assert_eq!(shown, [vec![], vec!["one".to_owned()], vec!["one".to_owned(), "two".to_owned()]]);
    assert_eq!(watch.interrupt(), 0);
}

#[test]
fn appends_blocks_of_output_in_a_pipe() {
    let server = Server::start();
    put(&server, "one");
    let watch = Follower::start(&server, &["group", "show", "one", "--watch"]);
    watch.until("the first output", |lines| lines.iter().any(|line| line.starts_with("Created")));
    assert_eq!(server.run(&["group", "put", "one", "--selector", "line=2"]).code, 0);
    let lines = watch.until("the change", |lines| lines.iter().any(|line| line.contains("line=2")));
    assert_eq!(lines.iter().filter(|line| line.is_empty()).count(), 1, "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains(" ago")), "ages would always differ: {lines:?}");
    assert_eq!(watch.interrupt(), 0);
}

#[test]
fn watching_survives_a_killed_server() {
    let mut server = Server::start();
    let watch = Follower::start(&server, &["group", "list", "--watch", "-o", "json"]);
    watch.until("the first output", |lines| lines.len() == 1);
    server.kill();
    server.start_again();
    put(&server, "one");
    let lines = watch.until("the group", |lines| lines.len() == 2);
    assert_eq!(names(&lines[1]), ["one"]);
    assert_eq!(watch.interrupt(), 0);
}

#[test]
fn watch_polls_without_an_event_stream() {
    let server = Server::start_with("[limits]\nevent_streams = 1\n");
    let follower = Follower::start(&server, &["events", "--follow", "--after", "0"]);
    follower.until("the only stream", |lines| !lines.is_empty());
    let watch = Follower::start(&server, &["group", "list", "--watch", "-o", "json"]);
    watch.until("the first output", |lines| lines.len() == 1);
    put(&server, "one");
    watch.until("the group", |lines| lines.len() == 2);
    until("the reason", || watch.errors().contains("No event stream (").then_some(()));
    assert_eq!(watch.interrupt(), 0);
}

#[test]
fn does_not_watch_a_command_whose_first_run_fails() {
    let server = Server::start();
    assert_eq!(server.run(&["group", "show", "missing", "--watch"]).code, 5);
    assert_eq!(server.run(&["group", "put", "x", "--selector", "a=b", "--watch"]).code, 2, "not a read-only command");
}

#[test]
fn redraws_the_terminal_and_exits_cleanly_on_ctrl_c() {
    let server = Server::start();
    let mut terminal = Terminal::start(&server, &["status", "--watch"]);
    terminal.expect("0 accepted", "");
    terminal.expect("Watching; press Ctrl-C to exit.", "");
    assert_eq!(server.run(&["client", "accept", "press"]).code, 0);
    terminal.expect("\u{1b}[H", "");
    terminal.expect("1 accepted", "\u{3}");
    assert_eq!(terminal.end(), 0);
}
