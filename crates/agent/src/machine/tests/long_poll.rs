//! Long polls, and the behavior of servers and networks.

use super::bench::*;
use crate::codes::Code;
use crate::machine::Settings;
use crate::machine::io::*;
use crate::machine::schedule::Calendar;
use margo::problem::ProblemType;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

/// An agent that polls once an hour and has applied version 2, and its server.
fn settled(holds: bool) -> (Bench, Server) {
    let mut settings = Settings::default();
    settings.poll.period = HOUR;
    settings.poll.jitter = 0.0;
    let (mut bench, mut server) = (Bench::with(settings, vec![device("gw", "8Gi")]), Server::new());
    server.holds = holds;
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.run_for(30 * SECOND, &mut server);
    assert_eq!(bench.machine.reconciled_version(), Some(2));
    server.requests.clear();
    (bench, server)
}

fn waits(server: &Server) -> Vec<Option<u64>> {
    let wait = |request: &Request| match request {
        Request::Poll { wait, .. } => Some(*wait),
        _ => None,
    };
    server.requests.iter().filter_map(wait).collect()
}

fn not_modified(waited: Option<u64>) -> Answer {
    Answer::Response(Response { status: 304, waited, ..Response::default() })
}

/// Polls in this time while every one is answered at once like this.
fn polls_answered(answer: Answer, length: Duration) -> usize {
    let (mut bench, mut server) = settled(false);
    server.twist = Some(Box::new(move |request| matches!(request, Request::Poll { .. }).then(|| answer.clone())));
    bench.run_for(length, &mut server);
    waits(&server).len()
}

#[test]
fn a_long_poll_delivers_a_change_before_the_next_poll() {
    let (mut bench, mut server) = settled(true);
    bench.run_for(10 * SECOND, &mut server);
    for round in 2..6 {
        server.publish(vec![yaml(1, "gw", &["web"], &format!("{round}.0.0"))]);
        bench.run_for(5 * SECOND, &mut server);
        assert_eq!(bench.machine.reconciled_version(), Some(server.publication.version));
        // The next long poll follows once this one is applied.
        assert!(bench.held.is_some());
    }
}

#[test]
fn a_completed_long_poll_is_followed_by_the_next() {
    let (mut bench, mut server) = settled(true);
    bench.run_for(HOUR, &mut server);
    let waits = waits(&server);
    assert!(waits.iter().all(|wait| *wait == Some(50)), "{waits:?}");
    // 50 seconds each, and at most one more between two.
    assert!((68..=73).contains(&waits.len()), "{}", waits.len());
    assert!(bench.machine.report(bench.now).troubles.is_empty());
}

#[test]
fn polls_a_server_without_long_polls_at_the_period() {
    // RFC 7240: a preference may be ignored
    for answer in [not_modified(None), not_modified(Some(0))] {
        let polls = polls_answered(answer, 10 * HOUR);
        assert!((9..=11).contains(&polls), "{polls} polls in ten hours");
    }
}

#[test]
fn a_server_that_wrongly_claims_to_wait_causes_no_busy_loop() {
    let polls = polls_answered(not_modified(Some(50)), 10 * HOUR);
    assert!((10..=25).contains(&polls), "{polls} polls in ten hours");
    // A second at a time, as asked: never more often than the spacing allows.
    let polls = polls_answered(not_modified(Some(1)), HOUR);
    assert!(polls <= 725, "{polls} polls in an hour");
}

#[test]
fn a_server_that_repeats_its_content_causes_no_busy_loop() {
    let (mut bench, mut server) = settled(true);
    let (body, etag) = (server.publication.body.clone(), server.publication.digest.etag());
    server.twist = Some(Box::new(move |request| {
        let again = Response {
            status: 200,
            etag: Some(etag.clone()),
            waited: Some(50),
            body: body.clone(),
            ..Response::default()
        };
        matches!(request, Request::Poll { .. }).then(|| Answer::Response(again))
    }));
    server.holds = false;
    bench.run_for(10 * HOUR, &mut server);
    assert!(waits(&server).len() <= 12, "{}", waits(&server).len());
}

#[test]
fn reports_do_not_wait_for_a_long_poll() {
    let (mut bench, mut server) = settled(true);
    bench.run_for(10 * SECOND, &mut server);
    assert!(bench.held.is_some());
    server.statuses.clear();
    bench.world.deployments[&id(1)].components.shift_remove("web");
    bench.run_for(40 * SECOND, &mut server);
    assert!(!server.statuses.is_empty(), "the repair is reported");
    assert_eq!(waits(&server).len(), 1);
}

#[test]
fn a_long_poll_ends_before_downtime_and_can_be_disabled() {
    // GEN-06. The bench starts at 15:06:40.
    let mut settings = Settings::default();
    settings.poll.calendar = Calendar {
        zone: jiff::tz::TimeZone::UTC,
        hours: vec!["06:00-22:00".parse().unwrap()],
        downtime: vec!["15:08-15:09".parse().unwrap()],
    };
    let (mut bench, mut server) = (Bench::with(settings.clone(), vec![device("gw", "8Gi")]), Server::new());
    server.holds = true;
    for _ in 0..200 {
        bench.run_for(SECOND, &mut server);
        if let Some((_, _, until)) = &bench.held {
            let calendar = &settings.poll.calendar;
            assert_eq!(calendar.poll_from(until.minus(SECOND)), until.minus(SECOND), "long poll into the downtime");
        }
    }
    assert!(waits(&server).contains(&Some(50)) && waits(&server).iter().flatten().any(|wait| *wait < 50));

    settings.poll.long_poll = Duration::ZERO;
    let (mut bench, mut server) = (Bench::with(settings, vec![device("gw", "8Gi")]), Server::new());
    server.holds = true;
    bench.run_for(HOUR, &mut server);
    assert!(waits(&server).len() > 30 && waits(&server).iter().all(Option::is_none));
}

#[test]
fn adapts_the_length_of_long_polls_to_idle_timeouts() {
    let (mut bench, mut server) = settled(true);
    // The network drops every connection that is idle for 20 seconds.
    let mut requested = Vec::new();
    for _ in 0..HOUR.as_secs() {
        bench.run_for(SECOND, &mut server);
        let Some((id, request, until)) = bench.held.clone() else { continue };
        let Request::Poll { wait: Some(wait), .. } = request else { continue };
        if requested.last() != Some(&wait) {
            requested.push(wait);
        }
        if bench.now >= until.minus(Duration::from_secs(wait)).plus(20 * SECOND) {
            bench.held = None;
            let answer = Answer::Failed { code: Code::ServerUnreachable, message: "reset".to_owned() };
            bench.inputs.push_back(Input::Answered { request: id, answer });
        }
    }
    assert_eq!(requested[..3], [50, 25, 12], "{requested:?}");
    assert!(requested[3..].contains(&25), "tried again: {requested:?}");
    assert!(waits(&server).len() > 150, "a long poll is open nearly all the time: {}", waits(&server).len());
}

#[test]
fn failed_long_polls_are_retried_with_backoff() {
    let (mut bench, mut server) = settled(true);
    server.holds = false;
    server.twist = Some(Box::new(|_| Some(response(500, b""))));
    bench.run_for(HOUR, &mut server);
    assert!(waits(&server).len() < 25, "{}", waits(&server).len());
    server.twist = Some(Box::new(|_| Some(problem(ProblemType::NotAuthorized, 403))));
    server.requests.clear();
    bench.run_for(HOUR, &mut server);
    assert!((100..=140).contains(&server.requests.len()), "requests, no long polls: {}", server.requests.len());
}

#[test]
fn a_clock_jump_neither_stops_nor_accelerates_long_polls() {
    let (mut bench, mut server) = settled(true);
    for back in [true, false] {
        bench.run_for(20 * SECOND, &mut server);
        let jump = 48 * HOUR;
        let jumped = |at: margrave_core::time::Timestamp| if back { at.minus(jump) } else { at.plus(jump) };
        bench.now = jumped(bench.now);
        bench.wake = bench.now;
        bench.held.iter_mut().for_each(|(_, _, until)| *until = jumped(*until));
        server.requests.clear();
        bench.run_for(10 * 60 * SECOND, &mut server);
        assert!((10..=16).contains(&waits(&server).len()), "{}", waits(&server).len());
    }
}

#[test]
fn the_first_poll_after_a_restart_is_not_a_long_poll() {
    let (mut bench, mut server) = settled(true);
    bench.crash();
    server.requests.clear();
    bench.run_for(30 * SECOND, &mut server);
    assert_eq!(waits(&server), [None, Some(50)]);
    assert_eq!(bench.machine.settled(), crate::machine::Settled::UpToDate);
}
