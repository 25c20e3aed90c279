//! Failing and rejecting servers, Retry-After, undelivered reports, downtime.

use super::bench::*;
use crate::machine::Settings;
use crate::machine::io::*;
use crate::machine::schedule::Calendar;
use margo::problem::{BackoffStrategy, Problem, ProblemType};
use margo::status::State;
use margrave_core::time::Timestamp;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);

/// Times of polls while the server always sends this answer.
fn polls_answered(answer: Answer, length: Duration) -> Vec<Duration> {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    bench.converge(&mut server);
    let start = bench.now;
    let count = Rc::new(RefCell::new(0));
    let seen = Rc::clone(&count);
    server.twist = Some(Box::new(move |request| {
        matches!(request, Request::Poll { .. }).then(|| {
            *seen.borrow_mut() += 1;
            answer.clone()
        })
    }));
    let mut times = vec![];
    while bench.now.since(start) < length {
        bench.run_for(Duration::from_secs(1), &mut server);
        if *count.borrow() > times.len() {
            times.push(bench.now.since(start));
        }
    }
    times
}

#[test]
fn errors_are_retried_with_backoff() {
    let times = polls_answered(response(500, b""), 60 * MINUTE);
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    assert!(gaps[0] <= Duration::from_secs(12), "{gaps:?}");
    assert!(*gaps.last().unwrap() >= 4 * MINUTE, "{gaps:?}");
    assert!(times.len() < 25);
}

#[test]
fn never_retries_before_retry_after() {
    // RTY-01
    for header in ["600", "Sun, 15 Jun 2025 15:26:40 GMT"] {
        let answer =
            Answer::Response(Response { status: 429, retry_after: Some(header.to_owned()), ..Response::default() });
        let (mut bench, mut server) = (Bench::new(), Server::new());
        bench.run_for(Duration::from_secs(30), &mut server);
        let date = Timestamp("2025-06-15T15:26:40Z".parse::<jiff::Timestamp>().unwrap().as_microsecond());
        server.twist = Some(Box::new(move |request| matches!(request, Request::Poll { .. }).then(|| answer.clone())));
        server.requests.clear();
        while server.polls().is_empty() {
            bench.run_for(Duration::from_secs(1), &mut server);
        }
        let allowed = if header == "600" { bench.now.plus(Duration::from_secs(598)) } else { date };
        let wait = allowed.since(bench.now);
        bench.inputs.push_back(Input::Poke);
        bench.run_for(wait, &mut server);
        assert_eq!(server.polls().len(), 1, "asked again before `{header}`");
        bench.run_for(20 * MINUTE, &mut server);
        assert!(server.polls().len() >= 2);
    }
}

#[test]
fn the_problem_document_says_how_to_retry() {
    // RTY-01, PRB-03
    let with = |retryable, strategy, seconds| {
        let problem = Problem {
            retryable: Some(retryable),
            backoff_strategy: Some(strategy),
            retry_after_seconds: seconds,
            ..Problem::new(ProblemType::Blank, 500, "later")
        };
        polls_answered(response(500, &problem.to_json()), 20 * MINUTE).len()
    };
    let fixed = with(true, BackoffStrategy::Fixed, None);
    let exponential = with(true, BackoffStrategy::Exponential, None);
    let hopeless = with(false, BackoffStrategy::None, None);
    let patient = with(true, BackoffStrategy::Fixed, Some(300));
    assert!(
        fixed > 100 && exponential < 15 && hopeless < 6 && patient < 6,
        "{fixed} {exponential} {hopeless} {patient}"
    );
}

#[test]
fn an_unaccepted_client_backs_off_and_keeps_its_workloads() {
    // GEN-14, W-26, invariant 6
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    server.twist = Some(Box::new(|_| Some(problem(ProblemType::NotAuthorized, 403))));
    server.requests.clear();
    bench.run_for(60 * MINUTE, &mut server);
    assert!((100..=140).contains(&server.requests.len()), "every half minute: {}", server.requests.len());
    bench.run_for(11 * 60 * MINUTE, &mut server);
    server.requests.clear();
    bench.run_for(60 * MINUTE, &mut server);
    assert!((10..=14).contains(&server.requests.len()), "every five minutes: {}", server.requests.len());
    assert_eq!(bench.running(), [id(1)]);
    assert!(bench.codes().contains(&"703"));
    server.twist = None;
    bench.converge(&mut server);
}

#[test]
fn an_accepted_client_returns_within_half_a_minute() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    // As our server sends it: a retry does not help before an operator acts.
    let refusal = Problem { retryable: Some(false), ..Problem::new(ProblemType::NotAuthorized, 403, "not accepted") };
    server.twist = Some(Box::new(move |_| Some(response(403, &refusal.to_json()))));
    bench.run_for(9 * MINUTE, &mut server);
    server.twist = None;
    server.requests.clear();
    bench.run_for(Duration::from_secs(34), &mut server);
    assert!(!server.polls().is_empty(), "{:?}", server.requests);
    // A later refusal starts again.
    server.twist = Some(Box::new(|_| Some(problem(ProblemType::NotAuthorized, 403))));
    server.requests.clear();
    bench.run_for(5 * MINUTE, &mut server);
    assert!((7..=12).contains(&server.requests.len()), "{}", server.requests.len());
}

#[test]
fn an_unaccepted_client_respects_retry_after() {
    // RTY-01
    let refusal =
        Problem { retry_after_seconds: Some(200), ..Problem::new(ProblemType::NotAuthorized, 403, "not accepted") };
    let polls = polls_answered(response(403, &refusal.to_json()), 20 * MINUTE);
    assert!((4..=7).contains(&polls.len()), "{}", polls.len());
}

#[test]
fn undelivered_reports_survive_a_crash_and_only_the_newest_is_sent() {
    // ST-11, invariant 5
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    server.publish(vec![yaml(1, "gw", &["web"], "2.0.0")]);
    server.statuses.clear();
    server.twist = Some(Box::new(|request| matches!(request, Request::PostStatus { .. }).then(|| response(500, b""))));
    bench.run_for(3 * MINUTE, &mut server);
    assert!(server.statuses.is_empty() && bench.machine.reconciled_version() == Some(server.publication.version));
    bench.crash();
    server.twist = None;
    bench.converge(&mut server);
    let states: Vec<_> = server.statuses.iter().map(|status| status.state).collect();
    assert_eq!(states, [State::Installed], "newer reports replace older ones");
}

/// What becomes of a report answered like this, and of the one behind it, in half an hour: (dropped, let pass).
fn report_answered(answer: Answer) -> (bool, bool) {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0"), yaml(2, "gw", &["db"], "1.0.0")]);
    server.twist = Some(Box::new(move |request| match request {
        Request::PostStatus { deployment, .. } if *deployment == id(1) => Some(answer.clone()),
        _ => None,
    }));
    bench.run_for(30 * MINUTE, &mut server);
    let passed = server.statuses.iter().any(|status| status.deployment_id == id(2));
    let dropped = bench.codes().contains(&"707");
    server.twist = None;
    bench.converge(&mut server);
    assert_eq!(server.statuses.iter().any(|status| status.deployment_id == id(1)), !dropped);
    (dropped, passed)
}

#[test]
fn drops_a_permanently_rejected_report() {
    // PRB-04
    for status in [400, 413, 422] {
        assert_eq!(report_answered(response(status, b"")), (true, true), "{status}");
    }
    assert_eq!(report_answered(problem(ProblemType::DeploymentNotFound, 404)), (true, true));
}

#[test]
fn keeps_a_report_that_may_succeed_later() {
    for status in [403, 408, 425, 429] {
        assert!(!report_answered(response(status, b"")).0, "{status}");
    }
    assert!(!report_answered(problem(ProblemType::NotAuthorized, 404)).0);
}

#[test]
fn keeps_a_report_rejected_by_a_proxy_without_blocking_others() {
    // PRB-04
    for status in [404, 405, 407, 409] {
        assert_eq!(report_answered(response(status, b"<html>no</html>")), (false, true), "{status}");
    }
}

#[test]
fn resends_capabilities_rejected_by_a_proxy() {
    // CAP-01, PRB-04
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.twist = Some(Box::new(|request| {
        matches!(request, Request::PutCapabilities { .. }).then(|| response(404, b"<html>no</html>"))
    }));
    bench.run_for(5 * MINUTE, &mut server);
    assert!(server.devices.is_empty() && !bench.codes().contains(&"706"));
    assert_eq!(bench.machine.accepted_version(), Some(1), "it is polled anyway");
    server.twist = None;
    bench.converge(&mut server);
    assert_eq!(server.devices.len(), 1);
}

#[test]
fn rejected_capabilities_are_resent_only_after_a_change() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.twist = Some(Box::new(|request| {
        matches!(request, Request::PutCapabilities { .. }).then(|| problem(ProblemType::SemanticError, 422))
    }));
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    bench.run_for(10 * MINUTE, &mut server);
    let puts = |server: &Server| {
        server.requests.iter().filter(|request| matches!(request, Request::PutCapabilities { .. })).count()
    };
    assert_eq!(puts(&server), 1);
    assert!(bench.codes().contains(&"706"));
    bench.inputs.push_back(Input::Devices(vec![device("gw", "4Gi")]));
    bench.run_for(MINUTE, &mut server);
    assert_eq!(puts(&server), 2);
}

#[test]
fn only_the_status_of_an_acknowledgement_counts() {
    // W-10, W-15
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    server.twist = Some(Box::new(|request| match request {
        Request::PutCapabilities { .. } => Some(response(200, br#"{"ok":true}"#)),
        Request::PostStatus { .. } => Some(response(201, b"[1]")),
        _ => None,
    }));
    bench.converge(&mut server);
    bench.run_for(30 * MINUTE, &mut server);
    let puts = server.requests.iter().filter(|request| matches!(request, Request::PutCapabilities { .. })).count();
    assert_eq!(puts, 1);
    let states = server.requests.iter().filter_map(|request| match request {
        Request::PostStatus { json, .. } => Some(margo::status::DeploymentStatus::read(json).unwrap().document.state),
        _ => None,
    });
    assert_eq!(states.collect::<Vec<_>>(), [State::Pending, State::Installing, State::Installed]);
    assert!(bench.disk.statuses.entries[&id(1)].delivered);
    assert!(bench.machine.report(bench.now).troubles.is_empty());
}

#[test]
fn polls_a_server_that_fails_on_capabilities() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.twist =
        Some(Box::new(|request| matches!(request, Request::PutCapabilities { .. }).then(|| response(500, b""))));
    bench.run_for(5 * MINUTE, &mut server);
    assert_eq!(bench.machine.accepted_version(), Some(1));
}

#[test]
fn no_communication_in_downtime_and_polls_only_in_hours() {
    // GEN-06
    let mut settings = Settings::default();
    settings.poll.calendar = Calendar {
        zone: jiff::tz::TimeZone::UTC,
        hours: vec!["06:00-22:00".parse().unwrap()],
        downtime: vec!["12:00-13:00".parse().unwrap()],
    };
    let (mut bench, mut server) = (Bench::with(settings, vec![device("gw", "8Gi")]), Server::new());
    server.twist = Some(Box::new(|request| matches!(request, Request::Poll { .. }).then(|| response(500, b""))));
    // A whole day; polls fail, so retries are always pending. The bench checks the time of every request.
    bench.run_for(24 * 60 * MINUTE, &mut server);
    assert!(server.polls().len() > 50, "{} polls", server.polls().len());
    assert_eq!(bench.now, START.plus(24 * 60 * MINUTE));
}

#[test]
fn a_full_disk_stops_neither_accepted_work_nor_reports() {
    let (mut bench, mut server) = (Bench::new(), Server::new());
    server.publish(vec![yaml(1, "gw", &["web"], "1.0.0")]);
    bench.converge(&mut server);
    bench.disk_full = true;
    bench.world.deployments[&id(1)].components.shift_remove("web");
    server.statuses.clear();
    bench.run_for(5 * MINUTE, &mut server);
    assert_eq!(server.last_status(1).state, State::Installed);
    bench.disk_full = false;
    bench.run_for(MINUTE, &mut server);
    assert!(bench.disk.statuses.entries[&id(1)].delivered);
    assert!(bench.machine.report(bench.now).troubles.is_empty());
}
