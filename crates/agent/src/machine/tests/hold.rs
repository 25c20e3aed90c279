//! Polls that wait for news at the server: what they bring, and what servers and networks can do to them.

use super::bench::*;
use crate::codes::Code;
use crate::machine::Settings;
use crate::machine::io::*;
use crate::machine::schedule::Calendar;
use margo::problem::ProblemType;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

/// An agent that polls once an hour and has carried out version 2, and its server.
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
fn a_change_is_fetched_while_the_next_poll_is_an_hour_away() {
    let (mut bench, mut server) = settled(true);
    bench.run_for(10 * SECOND, &mut server);
    for round in 2..6 {
        server.publish(vec![yaml(1, "gw", &["web"], &format!("{round}.0.0"))]);
        bench.run_for(5 * SECOND, &mut server);
        assert_eq!(bench.machine.reconciled_version(), Some(server.publication.version));
        // The next one can be waited for as soon as this one is carried out.
        assert!(bench.held.is_some());
    }
}

#[test]
fn a_hold_that_ran_its_time_is_followed_by_the_next() {
    let (mut bench, mut server) = settled(true);
    bench.run_for(HOUR, &mut server);
    let waits = waits(&server);
    assert!(waits.iter().all(|wait| *wait == Some(50)), "{waits:?}");
    // 50 seconds each, and at most one more between two.
    assert!((68..=73).contains(&waits.len()), "{}", waits.len());
    assert!(bench.machine.report(bench.now).troubles.is_empty());
}

#[test]
fn a_server_that_does_not_hold_is_polled_as_ever() {
    // RFC 7240: a preference may be ignored
    for answer in [not_modified(None), not_modified(Some(0))] {
        let polls = polls_answered(answer, 10 * HOUR);
        assert!((9..=11).contains(&polls), "{polls} polls in ten hours");
    }
}

#[test]
fn a_server_that_only_says_that_it_holds_does_not_make_a_busy_loop() {
    let polls = polls_answered(not_modified(Some(50)), 10 * HOUR);
    assert!((10..=25).contains(&polls), "{polls} polls in ten hours");
    // A second at a time, as asked: never more often than the spacing allows.
    let polls = polls_answered(not_modified(Some(1)), HOUR);
    assert!(polls <= 725, "{polls} polls in an hour");
}

#[test]
fn a_server_that_answers_with_the_same_content_is_not_asked_in_circles() {
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
fn reports_do_not_wait_behind_a_poll_that_is_held() {
    let (mut bench, mut server) = settled(true);
    bench.run_for(10 * SECOND, &mut server);
    assert!(bench.held.is_some());
    server.statuses.clear();
    bench.world.deployments[&id(1)].components.shift_remove("web");
    bench.run_for(40 * SECOND, &mut server);
    assert!(!server.statuses.is_empty(), "the repair is told");
    assert_eq!(waits(&server).len(), 1);
}

#[test]
fn a_hold_ends_before_silence_begins_and_is_off_where_the_policy_says_so() {
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
            assert_eq!(calendar.poll_from(until.minus(SECOND)), until.minus(SECOND), "held into the silence");
        }
    }
    assert!(waits(&server).contains(&Some(50)) && waits(&server).iter().flatten().any(|wait| *wait < 50));

    settings.poll.hold = Duration::ZERO;
    let (mut bench, mut server) = (Bench::with(settings, vec![device("gw", "8Gi")]), Server::new());
    server.holds = true;
    bench.run_for(HOUR, &mut server);
    assert!(waits(&server).len() > 30 && waits(&server).iter().all(Option::is_none));
}

#[test]
fn a_way_that_cannot_bear_the_silence_gets_shorter_holds_and_longer_ones_again_later() {
    let (mut bench, mut server) = settled(true);
    // Something on the way drops every connection that is silent for 20 seconds.
    let mut asked = Vec::new();
    for _ in 0..HOUR.as_secs() {
        bench.run_for(SECOND, &mut server);
        let Some((id, request, until)) = bench.held.clone() else { continue };
        let Request::Poll { wait: Some(wait), .. } = request else { continue };
        if asked.last() != Some(&wait) {
            asked.push(wait);
        }
        if bench.now >= until.minus(Duration::from_secs(wait)).plus(20 * SECOND) {
            bench.held = None;
            let answer = Answer::Failed { code: Code::ServerUnreachable, message: "reset".to_owned() };
            bench.inputs.push_back(Input::Answered { request: id, answer });
        }
    }
    assert_eq!(asked[..3], [50, 25, 12], "{asked:?}");
    assert!(asked[3..].contains(&25), "tried again: {asked:?}");
    assert!(waits(&server).len() > 150, "it waits at the server nearly all the time: {}", waits(&server).len());
}

#[test]
fn failures_are_retried_with_growing_pauses_as_ever() {
    let (mut bench, mut server) = settled(true);
    server.holds = false;
    server.twist = Some(Box::new(|_| Some(response(500, b""))));
    bench.run_for(HOUR, &mut server);
    assert!(waits(&server).len() < 25, "{}", waits(&server).len());
    server.twist = Some(Box::new(|_| Some(problem(ProblemType::NotAuthorized, 403))));
    server.requests.clear();
    bench.run_for(HOUR, &mut server);
    assert!((100..=140).contains(&server.requests.len()), "asked, not held: {}", server.requests.len());
}

#[test]
fn a_clock_that_jumps_neither_stops_the_waiting_nor_makes_it_hectic() {
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
fn after_a_restart_the_first_poll_is_answered_at_once_and_the_next_waits() {
    let (mut bench, mut server) = settled(true);
    bench.crash();
    server.requests.clear();
    bench.run_for(30 * SECOND, &mut server);
    assert_eq!(waits(&server), [None, Some(50)]);
    assert_eq!(bench.machine.settled(), crate::machine::Settled::Converged);
}
